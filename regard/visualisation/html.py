"""Parts that self-contained HTML pages share: fonts, and the palette as CSS and as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.visualisation.colours import (
    LEVELS,
    OPACITY,
    ROLES,
    SERIES,
    THEMES,
    VEIL,
    Theme,
    colour,
    signed_paint,
)

# That machines may have, in which Latin and Korean letters go together.
SYSTEM_FONTS = (
    'Pretendard, "Noto Sans KR", "Noto Sans CJK KR", "Apple SD Gothic Neo", "Malgun Gothic", '
    '"Nanum Gothic", sans-serif'
)
FAMILY = "Regard glyphs"  # name of the subset that a figure embeds
STACK = f'"{FAMILY}", {SYSTEM_FONTS}'


def script_colours() -> dict[str, Any]:
    """Return the colour scale, the colours of text on it and the roles, by theme, and the veil, for
    scripts.

    Colours of a scale follow each other, six digits each.
    """
    scales = {
        "scale": [f"w{n}" for n in range(LEVELS + 1)],
        "text": [f"v{n}" for n in range(LEVELS + 1)],
        "signed": [signed_paint(n / LEVELS) for n in range(-LEVELS, LEVELS + 1, 2)],
        "series": [f"s{n}" for n in range(SERIES)],
    }
    palette = {theme: {role: colour(role, theme) for role in ROLES} for theme in THEMES}
    for theme, colours in palette.items():
        colours |= {
            name: "".join(colour(paint, theme)[1:] for paint in paints)
            for name, paints in scales.items()
        }
    return {"palette": palette, "veil": [*VEIL, OPACITY]}


def colour_variables() -> str:
    """Return the CSS variables of all roles, of the series and of three shades; light when
    printed.
    """
    paints = [
        *ROLES,
        *(f"s{n}" for n in range(SERIES)),
        *(f"w{n}" for n in (8, 30, 70)),
    ]
    return in_both_themes(
        lambda theme: (
            f":root {{ {'; '.join(f'--{p}: {colour(p, theme)}' for p in paints)} }}"
        )
    )


def in_both_themes(rules: Callable[[Theme], str]) -> str:
    """Return CSS rules of the light theme, and those of the dark one for screens that prefer it."""
    light, dark = (rules(theme) for theme in THEMES)
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}"


def paint_rules() -> str:
    """Return CSS that gives the marks of inline figures their paints, by the variables of
    `colour_variables`.
    """
    paints = [*ROLES, *(f"s{n}" for n in range(SERIES))]
    rules = (
        f"svg .{p} {{ fill: var(--{p}) }} svg .{p}-line {{ fill: none; stroke: var(--{p}) }}"
        for p in paints
    )
    tints = (
        f"svg .t{n}-line {{ fill: none; stroke: var(--s{n}); opacity: .45 }}"
        for n in range(SERIES)
    )
    return "\n".join([*rules, *tints])
