"""One self-contained HTML page: the heatmap and both sentences word by word, answering to mouse, touch and keys.

The page holds the same picture as the SVG; `assets/page.js` repaints its cells when another reading is chosen. Nothing
is fetched, and the page's own security policy forbids it.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from importlib.resources import files

import numpy as np

from regard.errors import UsageError
from regard.visualisation.colours import LEVELS, ROLES, THEMES, Theme, colour
from regard.visualisation.figures import draw_svg
from regard.visualisation.fonts import STACK, face
from regard.visualisation.heatmap import Alignment, ceiling_of, layout
from regard.visualisation.layout import Picture, Text
from regard.visualisation.words import clean, is_korean

__all__ = ["Meta", "page"]

SMALLEST_FONT = 8.0  # pixels: on a narrow screen the picture shrinks to this, then scrolls


@dataclass(frozen=True)
class Meta:
    """What a page says besides its readings."""

    title: str = ""  # else the first alignment's
    source_lang: str = ""  # as in HTML: "en", "ko", "pt-BR"; else Hangul is taken for Korean and the rest left open
    target_lang: str = ""
    facts: Mapping[str, str] | None = None  # shown at the foot: model, command, data


def page(alignments: Sequence[Alignment], meta: Meta | None = None) -> str:
    """The page for one or more readings of the same two sentences, on one colour scale; the first is shown first."""
    meta = meta or Meta()
    _check_same_words(alignments)
    first, ceiling = alignments[0], ceiling_of(alignments)
    picture = layout(replace(first, title="", caption=""), ceiling)
    title = clean(meta.title) or first.title or "Word alignment"
    parts = {
        "title": escape(title),
        "caption": escape(first.caption),
        "css": face(_letters(alignments, meta)) + _style(),
        "js": _asset("page.js"),
        "svg": draw_svg(picture, inline=True),
        "least": str(round(picture.width * min(1.0, SMALLEST_FONT / _label_size(picture)))),
        "natural": str(picture.width),
        "data": _as_script(_data(alignments, meta, ceiling)),
        "facts": _facts(meta.facts or {}),
    }
    return _fill(_asset("page.html"), parts)


def _check_same_words(alignments: Sequence[Alignment]) -> None:
    if not alignments:
        raise UsageError("a page needs at least one alignment")
    first = alignments[0]
    for number, other in enumerate(alignments):
        if (other.source, other.target) != (first.source, first.target):
            raise UsageError(f"a page shows readings of one pair of sentences; alignment {number} has other words")
        if (other.elsewhere is None) != (first.elsewhere is None):
            raise UsageError(f"either all alignments of a page have `elsewhere` or none; alignment {number} differs")


@cache
def _asset(name: str) -> str:
    return files("regard.visualisation").joinpath(f"assets/{name}").read_text(encoding="utf-8")


def _fill(template: str, parts: Mapping[str, str]) -> str:
    """Put parts where the template names them, in one pass: what is put in is never looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _letters(alignments: Sequence[Alignment], meta: Meta) -> str:
    """Every character that the page can come to show, once and in order."""
    first, facts = alignments[0], meta.facts or {}
    names = [text for alignment in alignments for text in (alignment.title, alignment.caption)]
    texts = [meta.title, *first.source, *first.target, *names, *facts, *facts.values(), string.printable]
    return "".join(sorted({letter for text in [*texts, _asset("page.html"), _asset("page.js")] for letter in text}))


@cache
def _style() -> str:
    return _fill(_asset("page.css"), {"stack": STACK, "roles": _in_both(_roles), "levels": _in_both(_levels)})


def _in_both(rules: Callable[[Theme], str]) -> str:
    light, dark = (rules(theme) for theme in THEMES)
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}"


def _roles(theme: Theme) -> str:
    return f":root {{ {'; '.join(f'--{role}: {colour(role, theme)}' for role in ROLES)} }}"


def _levels(theme: Theme) -> str:
    """A class for each place on the scale: its colour, and that of text on it."""
    places = range(LEVELS + 1)
    return " ".join(f".w{n},.v{n}{{--c:{colour(f'w{n}', theme)};--v:{colour(f'v{n}', theme)}}}" for n in places)


def _label_size(picture: Picture) -> float:
    labels = (mark for group in picture.groups if group.name == "targets" for mark in group.marks)
    return min(mark.size for mark in labels if isinstance(mark, Text))


def _data(alignments: Sequence[Alignment], meta: Meta, ceiling: float) -> dict[str, object]:
    first = alignments[0]
    return {
        "source": first.source,
        "target": first.target,
        "langs": {
            "source": [meta.source_lang or _language(word) for word in first.source],
            "target": [meta.target_lang or _language(word) for word in first.target],
        },
        "rtl": {"source": _is_right_to_left(first.source), "target": _is_right_to_left(first.target)},
        "ceiling": ceiling,
        "alignments": [_reading(alignment, number) for number, alignment in enumerate(alignments, 1)],
    }


def _reading(alignment: Alignment, number: int) -> dict[str, object]:
    return {
        "name": alignment.caption or alignment.title or str(number),
        "caption": alignment.caption,
        "weights": _thousandths(alignment.weights),
        "elsewhere": None if alignment.elsewhere is None else _thousandths(alignment.elsewhere),
        "links": sorted(alignment.links or ()),
    }


def _thousandths(weights: np.ndarray) -> list[int]:
    return [round(1000 * float(weight)) for weight in weights.ravel()]


def _language(word: str) -> str:
    return "ko" if is_korean(word) else ""


def _is_right_to_left(words: Sequence[str]) -> bool:
    kinds = [unicodedata.bidirectional(character) for word in words for character in word]
    return sum(kind in {"R", "AL"} for kind in kinds) > kinds.count("L")


def _as_script(data: object) -> str:
    """JSON that may stand in a script element: no text can close it, open a comment, or end a line of JavaScript."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _facts(facts: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{escape(clean(name))}</dt><dd>{escape(clean(value))}</dd>" for name, value in facts.items())
    return f"<dl>{rows}</dl>" if rows else ""
