"""The bundled font: text width, line breaking, and a fallback for missing glyphs.

Pretendard Regular is bundled as published (SIL Open Font License 1.1, see assets/OFL.txt). It holds
all 11,172 Hangul syllables, Latin with every European accent, Greek, Cyrillic and kana. PNG and GIF
are drawn with it. SVG and HTML embed the few glyphs that they need, so that Korean is legible on
any machine, and name a system font stack for all other characters. Text widths include some slack,
since the reader's fonts may be wider.
"""

from __future__ import annotations

import base64
import io
import unicodedata
from functools import cache, lru_cache
from importlib.resources import files

from fontTools import subset
from fontTools.ttLib import TTFont
from PIL import ImageFont

from regard.visualisation.html import FAMILY

SLACK = 1.15  # width of the widest common sans serif, DejaVu, relative to Pretendard
MISSING_GLYPH = "□"
_MEASURED_AT = 100.0


@cache
def _font_bytes() -> bytes:
    return (
        files("regard.visualisation")
        .joinpath("assets/Pretendard-Regular.otf")
        .read_bytes()
    )


@lru_cache(maxsize=64)
def load(size: float) -> ImageFont.FreeTypeFont:
    """Return the font at a size in pixels, with the basic layout engine, which is the same on every
    machine.
    """
    return ImageFont.truetype(
        io.BytesIO(_font_bytes()), size, layout_engine=ImageFont.Layout.BASIC
    )


@lru_cache(maxsize=16)
def face(text: str) -> str:
    """Return a CSS `@font-face` rule with the glyphs of `text`: a few kilobytes instead of the
    whole font.
    """
    options = subset.Options(
        layout_features=["kern"], hinting=False, desubroutinize=True
    )
    # Lazy loading takes half the time and gives the same bytes.
    font = TTFont(io.BytesIO(_font_bytes()), recalcTimestamp=False, lazy=True)
    # Without names the subsetter need not look through all tables for their use.
    names = font["name"]
    del font["name"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=text)
    subsetter.subset(font)
    names.names = []
    font["name"] = names
    font.flavor = "woff"  # compressed
    file = io.BytesIO()
    font.save(file)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f'@font-face{{font-family:"{FAMILY}";src:url(data:font/woff;base64,{data})}}'


@cache
def _glyph(character: str) -> bytes:
    mask = load(_MEASURED_AT).getmask(character)
    return bytes(mask) + bytes(str(mask.size), "ascii")


@cache
def has(character: str) -> bool:
    """Return whether the font has a glyph for a character.

    Pillow has no function for that, so the glyph is compared with the one of a noncharacter.
    """
    return _glyph(character) != _glyph("\uffff")


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in {"Cf", "Me", "Mn", "Cc"}


@cache
def _advance(character: str) -> float:
    """Return the advance width of a character in ems; an estimate if the bundled font lacks it."""
    if has(character):
        return load(_MEASURED_AT).getlength(character) / _MEASURED_AT
    if _is_invisible(character):
        return 0.0
    return 1.25 if unicodedata.east_asian_width(character) in "WF" else 1.0


def measure(text: str, size: float) -> float:
    """Return the width in pixels to reserve for a text, whichever sans-serif font draws it."""
    return SLACK * size * sum(_advance(character) for character in text)


def drawable(text: str) -> str:
    """Replace each visible character that the font lacks by a box, for PNG and GIF."""
    drawn = []
    for character in text:
        if has(character):
            drawn.append(character)
        elif not _is_invisible(character):
            drawn.append(MISSING_GLYPH)
    return "".join(drawn)


def elide(text: str, size: float, limit: float) -> str:
    """Shorten a text wider than `limit` pixels to its two ends around an ellipsis."""
    if measure(text, size) <= limit:
        return text
    room = (limit - measure("…", size)) / 2
    beginning = _fitting(text, size, room)
    end = _fitting(text[::-1], size, room)[::-1]
    return f"{beginning}…{end}"


def _fitting(text: str, size: float, room: float) -> str:
    """Return the longest prefix of a text that fits into `room` pixels."""
    width = 0.0
    for length, character in enumerate(text):
        width += measure(character, size)
        if width > room:
            return text[:length]
    return text


def wrap(text: str, size: float, limit: float) -> list[str]:
    """Break a text between words into lines of at most `limit` pixels; wider words are elided."""
    lines: list[str] = []
    for whole_word in text.split():
        word = elide(whole_word, size, limit)
        if lines and measure(f"{lines[-1]} {word}", size) <= limit:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
