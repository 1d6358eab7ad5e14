"""The glyphs that a figure embeds."""

from __future__ import annotations

import base64
import io
import re

from fontTools.ttLib import TTFont

from regard.visualisation.fonts import FAMILY, face


def test_a_figure_embeds_just_the_glyphs_it_needs() -> None:
    rule = face("나는 빵을 Größe")
    assert FAMILY in rule
    (data,) = re.findall(r"base64,([\w+/=]+)\)", rule)
    font = TTFont(io.BytesIO(base64.b64decode(data)))
    assert {chr(code) for code in font.getBestCmap()} == set("나는 빵을 Größe")
    assert len(data) < 10_000


def test_characters_that_the_font_lacks_are_left_to_the_reader() -> None:
    assert face("가🙂") != ""


def test_the_same_text_gives_the_same_rule() -> None:
    first = face("나는 집에 간다")
    face.cache_clear()
    assert face("나는 집에 간다") == first
