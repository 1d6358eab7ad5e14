"""regard translate: pages of HTML and XML, files of other kinds, and inputs that an output would
overwrite.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Literal

import pytest
from command import Command, write_lines
from helpers.small_models import folder

import regard as package
from regard.text.text_format import TextFormat

PAGE = """<!DOCTYPE html>\r
<html lang="ko"><head><meta charset="UTF-8"><title>나는 집에 간다</title><style>p {color: red}</style></head>\r
<body><p class="a">나는 <b>집에</b> 간다. 너는 책을 읽는다.</p><script>let a = "나는 집에"</script>\r
<p translate="no">나는</p><!-- 나는 --><p>나는 &amp; <code>x = 1</code></p></body></html>"""
XML = '<?xml version="1.0" encoding="utf-8"?>\n<a><b n="1">나는 <i>집에</i> 간다</b><b>1</b></a>\n'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model folder with random weights."""
    return folder(tmp_path_factory.mktemp("random") / "run", end=3.0)


@pytest.mark.parametrize(("kind", "text"), [("html", PAGE), ("xml", XML)])
def test_a_page_is_translated_as_by_the_server(
    regard: Command, run: Path, kind: Literal["html", "xml"], text: str
) -> None:
    (served,) = package.load(run).begin_texts([text], TextFormat(kind)).run()
    expected = served.text
    assert expected != text, "a test of translation needs one"
    assert expected.count("<") == text.count("<")

    translate = f"translate {run}"
    page = f"page.{kind}"
    Path(page).write_text(text, encoding="utf-8", newline="")
    Path("page").write_bytes(b"\xef\xbb\xbf" + text.encode())
    for name in (page, "page"):
        mark = "\ufeff" if name == "page" else ""
        assert regard(f"{translate} {name} --chunk 1").out == mark + expected
    assert regard(f"{translate} --input {kind}", stdin=text).out == expected

    Path(f"{page}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    regard(f"{translate} {page}.gz --output out.gz")
    assert gzip.decompress(Path("out.gz").read_bytes()).decode() == expected


def test_sentences_of_a_page_keep_their_code_or_are_named(
    regard: Command, run: Path
) -> None:
    page = "<p>나는 {name} <b>집에</b> 간다 2026-11-28</p><p>나는 %1$s 간다</p>"
    Path("page.html").write_text(page, encoding="utf-8")
    result = regard(f"translate {run} page.html --dialect auto")
    assert result.out.count("<b>") == 1
    assert result.out != page
    for code in ("{name}", "2026-11-28", "%1$s"):
        assert result.out.count(code) == 1
    assert regard(f"translate {run} page.html --term 집 --no-keep").out


def test_a_page_without_sentences_is_copied(regard: Command, run: Path) -> None:
    Path("page.html").write_bytes(b"<p>1</p>\r\n<script>a</script>")
    assert regard(f"translate {run} page.html").out == "<p>1</p>\r\n<script>a</script>"
    assert regard(f"translate {run} page.html --input text --nbest 2").lines


def test_text_is_translated_line_by_line_if_it_is_asked_for(
    regard: Command, run: Path
) -> None:
    lines = ["나는 집에 간다", "너는"]
    write_lines("a.po", lines)
    write_lines("a.jsonl", [json.dumps({"text": line}) for line in lines])
    translated = regard(f"translate {run} a.po --input text").lines
    assert translated == regard(f"translate {run} a.jsonl").lines
    assert len(translated) == 2
    assert regard(f"translate {run} --stream --input text", stdin="").out == ""
