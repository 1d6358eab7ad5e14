"""Fonts: glyphs embedded in a figure."""

from __future__ import annotations

import base64
import io
import re

from fontTools.ttLib import TTFont

from regard.visualisation.fonts import FAMILY, face


def test_only_needed_glyphs_are_embedded() -> None:
    rule = face("나는 빵을 Größe")
    assert FAMILY in rule

    (data,) = re.findall(r"base64,([\w+/=]+)\)", rule)
    font = TTFont(io.BytesIO(base64.b64decode(data)))
    assert {chr(code) for code in font.getBestCmap()} == set("나는 빵을 Größe")
    assert len(data) < 10_000


def test_characters_missing_from_the_font_are_skipped() -> None:
    assert face("가🙂") != ""


def test_the_same_text_gives_the_same_rule() -> None:
    first = face("나는 집에 간다")
    face.cache_clear()
    assert face("나는 집에 간다") == first
