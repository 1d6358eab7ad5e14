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

# Fonts that the reader's machine may have and whose Latin and Korean letters match.
SYSTEM_FONTS = (
    'Pretendard, "Noto Sans KR", "Noto Sans CJK KR", "Apple SD Gothic Neo", "Malgun Gothic", '
    '"Nanum Gothic", sans-serif'
)
FAMILY = "Regard glyphs"  # name of the subset that a figure embeds
STACK = f'"{FAMILY}", {SYSTEM_FONTS}'


def script_colours() -> dict[str, Any]:
    """Return the colours that scripts need: scales and roles by theme, and the veil.

    A scale is one string, with six hexadecimal digits for each of its colours.
    """
    scales = {
        "scale": [f"w{n}" for n in range(LEVELS + 1)],
        "text": [f"v{n}" for n in range(LEVELS + 1)],
        "signed": [signed_paint(n / LEVELS) for n in range(-LEVELS, LEVELS + 1, 2)],
        "series": [f"s{n}" for n in range(SERIES)],
    }
    palette = dict[str, dict[str, str]]()
    for theme in THEMES:
        colours = {role: colour(role, theme) for role in ROLES}
        for name, paints in scales.items():
            colours[name] = "".join(colour(paint, theme)[1:] for paint in paints)
        palette[theme] = colours
    return {"palette": palette, "veil": [*VEIL, OPACITY]}


def colour_variables() -> str:
    """Return CSS variables for all roles, the series and three shades; print is always light."""
    series = [f"s{n}" for n in range(SERIES)]
    shades = [f"w{n}" for n in (8, 30, 70)]

    def rules(theme: Theme) -> str:
        variables = [
            f"--{paint}: {colour(paint, theme)}" for paint in (*ROLES, *series, *shades)
        ]
        return f":root {{ {'; '.join(variables)} }}"

    return in_both_themes(rules)


def in_both_themes(rules: Callable[[Theme], str]) -> str:
    """Return CSS rules in the light theme, and in the dark theme for screens that prefer it."""
    light, dark = (rules(theme) for theme in THEMES)
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}"


def paint_rules() -> str:
    """Return CSS that paints the marks of inline figures with the variables of
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
