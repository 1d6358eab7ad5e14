"""Parts that self-contained HTML pages share: templates, JSON in scripts, and the palette as CSS and as data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from regard.visualisation.colours import LEVELS, ROLES, SERIES, THEMES, Theme, colour

SYSTEM_FONTS = (
    'Pretendard, "Noto Sans KR", "Noto Sans CJK KR", "Apple SD Gothic Neo", "Malgun Gothic", "Nanum Gothic", sans-serif'
)
"""Fonts that machines may have, in which Latin and Korean letters go together."""
FAMILY = "Regard glyphs"  # name of the subset that a figure embeds
STACK = f'"{FAMILY}", {SYSTEM_FONTS}'
OPEN_PLAYER = '<button id="open-player" type="button" aria-expanded="false" aria-controls="player" hidden></button>\n'
"""The button that opens the player: a search is recorded only if somebody looks at it."""


@cache
def asset(name: str) -> str:
    """Return a text file of the pages."""
    return files("regard.visualisation").joinpath(f"assets/{name}").read_text(encoding="utf-8")


def fill_page(parts: Mapping[str, str]) -> str:
    """Fill in the template that the page of an explanation and those that translate share."""
    return fill_template(asset("page.html"), {"head": "", "payload": "", "open_player": "", **parts})


def own_policy(connect: str = "'none'", scripts: str = "") -> str:
    """Return the content security policy of a page that comes as a file; `scripts`: what else may run."""
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'{scripts}; font-src data:; "
        f"img-src data:; connect-src {connect}"
    )


@cache
def page_style(stack: str) -> str:
    """Return the CSS of the pages; `stack`: the fonts of texts."""
    return fill_template(asset("page.css"), {"stack": stack, "roles": colour_variables()})


def fill_template(template: str, parts: Mapping[str, str]) -> str:
    """Replace the {{names}} of a template in one pass, so that inserted text is never expanded itself."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def script_json(values: object) -> str:
    """Return JSON that is safe in a script element: no text can close it, open a comment or end a line."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def palette() -> dict[str, dict[str, Any]]:
    """Return the colour scale, the colours of text on it and the roles, by theme, for scripts that draw."""
    return {
        theme: {
            "scale": [colour(f"w{n}", theme) for n in range(LEVELS + 1)],
            "text": [colour(f"v{n}", theme) for n in range(LEVELS + 1)],
            "series": [colour(f"s{n}", theme) for n in range(SERIES)],
            **{role: colour(role, theme) for role in ROLES},
        }
        for theme in THEMES
    }


def colour_variables() -> str:
    """Return the CSS variables of all roles, of the series and of three shades of the scale, light and dark.

    Printed pages are light.
    """
    return in_both_themes(_variables)


def in_both_themes(rules: Callable[[Theme], str]) -> str:
    """Return CSS rules of the light theme, and those of the dark one for screens that prefer it."""
    light, dark = (rules(theme) for theme in THEMES)
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}"


def _variables(theme: Theme) -> str:
    paints = [*ROLES, *(f"s{n}" for n in range(SERIES)), *(f"w{n}" for n in (8, 30, 70))]
    return f":root {{ {'; '.join(f'--{paint}: {colour(paint, theme)}' for paint in paints)} }}"


def paint_rules() -> str:
    """Return CSS that gives the marks of inline figures their paints, by the variables of `colour_variables`."""
    paints = [*ROLES, *(f"s{n}" for n in range(SERIES))]
    rules = (f"svg .{p} {{ fill: var(--{p}) }} svg .{p}-line {{ fill: none; stroke: var(--{p}) }}" for p in paints)
    return "\n".join(rules)
