"""The bundled font: how wide a text is, and what to draw for characters it lacks.

Pretendard Regular (SIL Open Font License 1.1, see assets/OFL.txt, the file as published) holds all 11,172 Hangul
syllables, Latin with every European accent, Greek, Cyrillic and kana. The PNG is drawn with it; SVG and HTML carry the
few glyphs that they need, so that Korean is legible where no font has it, and name a system font stack for all else.
Texts are measured with some slack, since the reader's fonts may be wider.
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

__all__ = ["STACK", "drawable", "elide", "face", "load", "measure", "wrap"]

FAMILY = "Regard glyphs"  # the few glyphs that a picture carries with it
STACK = (
    f'"{FAMILY}", Pretendard, "Noto Sans KR", "Noto Sans CJK KR", "Apple SD Gothic Neo", "Malgun Gothic", '
    '"Nanum Gothic", sans-serif'
)
SLACK = 1.15  # the widest common sans serif, DejaVu, is this much wider than Pretendard
BOX = "□"  # stands for what the font lacks
_MEASURED_AT = 100.0


@cache
def _font_bytes() -> bytes:
    return files("regard.visualisation").joinpath("assets/Pretendard-Regular.otf").read_bytes()


@lru_cache(maxsize=64)
def load(size: float) -> ImageFont.FreeTypeFont:
    """The font at a size in pixels; the basic layout engine, because it is the same on every machine."""
    return ImageFont.truetype(io.BytesIO(_font_bytes()), size, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=16)
def face(text: str) -> str:
    """A CSS rule that brings the glyphs of `text` along, a few kilobytes instead of the whole font."""
    options = subset.Options(layout_features=["kern"], name_IDs=[], hinting=False, desubroutinize=True)
    font = TTFont(io.BytesIO(_font_bytes()), recalcTimestamp=False)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=text)
    subsetter.subset(font)
    font.flavor = "woff"  # compressed
    file = io.BytesIO()
    font.save(file)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f'@font-face{{font-family:"{FAMILY}";src:url(data:font/woff;base64,{data})}}'


@cache
def _picture_of(character: str) -> bytes:
    mask = load(_MEASURED_AT).getmask(character)
    return bytes(mask) + bytes(str(mask.size), "ascii")


@cache
def has(character: str) -> bool:
    """Whether the font can draw a character: Pillow does not say, so compare with what it draws for none."""
    return _picture_of(character) != _picture_of("\uffff")


def _is_silent(character: str) -> bool:
    return unicodedata.category(character) in {"Cf", "Me", "Mn", "Cc"}


@cache
def _advance(character: str) -> float:
    """How far one character moves the pen, in ems; an estimate for those that only the reader's fonts have."""
    if has(character):
        return load(_MEASURED_AT).getlength(character) / _MEASURED_AT
    if _is_silent(character):
        return 0.0
    return 1.25 if unicodedata.east_asian_width(character) in "WF" else 1.0


def measure(text: str, size: float) -> float:
    """The width to reserve for a text, in pixels, whichever sans-serif font draws it."""
    return SLACK * size * sum(_advance(character) for character in text)


def drawable(text: str) -> str:
    """What the PNG draws: a box for each visible character that the font lacks."""
    shown = (c if has(c) else "" if _is_silent(c) else BOX for c in text)
    return "".join(shown)


def elide(text: str, size: float, limit: float) -> str:
    """The text itself, or where it is wider than `limit` its two ends around an ellipsis."""
    if measure(text, size) <= limit:
        return text
    room = (limit - measure("…", size)) / 2
    return _fitting(text, size, room) + "…" + _fitting(text[::-1], size, room)[::-1]


def _fitting(text: str, size: float, room: float) -> str:
    width = 0.0
    for length, character in enumerate(text):
        width += measure(character, size)
        if width > room:
            return text[:length]
    return text


def wrap(text: str, size: float, limit: float) -> list[str]:
    """Break a text into lines no wider than `limit`, between words; a word wider than that is elided."""
    lines: list[str] = []
    for word in (elide(word, size, limit) for word in text.split()):
        if lines and measure(f"{lines[-1]} {word}", size) <= limit:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
