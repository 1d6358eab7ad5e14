"""regard translate: pages of HTML and XML, files of other kinds, and inputs that an output would
overwrite.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Literal

import pytest
from command import Command, write_lines
from helpers.small_models import folder

import regard as package
from regard.search import SearchSettings
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

    page = f"page.{kind}"
    Path(page).write_text(text, encoding="utf-8", newline="")
    Path("page").write_bytes(b"\xef\xbb\xbf" + text.encode())
    for name in (page, "page"):
        assert regard(f"translate {run} {name} --chunk 1").out == expected

    Path(f"{page}.gz").write_bytes(gzip.compress(text.encode()))
    assert regard(f"translate {run} --input {kind}", stdin=text).out == expected

    regard(f"translate {run} {page}.gz --output out.gz")
    assert gzip.decompress(Path("out.gz").read_bytes()).decode() == expected


def test_a_model_of_several_sentences_a_line_reads_blocks_whole(
    regard: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = property(lambda settings: settings.split == "on")
    monkeypatch.setattr(SearchSettings, "splits_sentences", splits)
    text = "나는 집에 간다. 너는 책을 읽는다."
    write_lines("page.html", [f"<p>{text}</p>"])
    whole = regard(f"translate {run} page.html").out
    split = regard(f"translate {run} page.html --split on").out
    (line,) = package.load(run).translate([text])
    assert whole == f"<p>{line.text}</p>\n" != split


def test_options_that_a_page_has_no_use_for_are_refused(
    regard: Command, run: Path
) -> None:
    Path("page.html").write_bytes(b"<p>1</p>\r\n<script>a</script>")
    assert regard(f"translate {run} page.html").out == "<p>1</p>\r\n<script>a</script>"
    options = "--nbest 2 --alignments --format jsonl --stream --resume"
    named = "--nbest, --alignments, --format, --resume, --stream"
    because = f"{named}: page.html is HTML, which is translated once"
    regard.fails(f"translate {run} page.html {options}", because=because)
    assert regard(f"translate {run} page.html --input text --nbest 2").lines


@pytest.mark.parametrize(
    ("name", "text", "because"),
    [
        (
            "a.html",
            '<meta charset="iso-8859-1">',
            "a.html: says that it is iso-8859-1; save it as",
        ),
        ("b.html", "<p>\udce4</p>", "b.html: line 1 is not UTF-8"),
        ("c.html", "", "c.html: the file is empty"),
        (
            "a.srt",
            "1\n",
            "a.srt: is a subtitle file, not lines of text: save its sentences as",
        ),
        ("a.csv", "a,b\n", "a.csv: is a table (--column translates a column of CSV)"),
    ],
)
def test_files_that_cannot_be_translated_are_refused(
    regard: Command, run: Path, name: str, text: str, because: str
) -> None:
    Path(name).write_bytes(text.encode("utf-8", "surrogateescape"))
    regard.fails(f"translate {run} {name} --output out", status=1, because=because)
    assert os.listdir() == [name]


def test_a_document_is_named_by_every_command_that_reads_sentences(
    regard: Command, run: Path
) -> None:
    Path("a.docx").write_bytes(b"PK\x03\x04\0\n")
    write_lines("a.en", ["I go home"])
    pair = "--source a.docx --target a.en"
    because = "a.docx: is a Word document; Regard reads text"
    regard.fails(f"align {run} {pair}", status=1, because=because)
    regard.fails(f"train {pair} --out new", status=1, because=because)


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


def test_an_output_never_replaces_an_input(regard: Command, run: Path) -> None:
    for name in ("a.ko", "a.en", "a.part"):
        write_lines(name, ["나는 집에 간다"])

    Path("link").symlink_to("a.ko")
    for source, output in (
        ("a.ko", "a.ko"),
        ("link", "a.ko"),
        ("a.ko", "link"),
        ("a.part", "a"),
    ):
        because = f"--output {output}: would overwrite {source}, which is read; give another name"
        regard.fails(f"translate {run} {source} --output {output}", because=because)

    because = "--output link: would overwrite a.ko, which is read"
    regard.fails(
        f"align {run} --source a.ko --target a.en --output link", because=because
    )


def test_a_text_in_place_of_a_file_is_told_the_way(regard: Command, run: Path) -> None:
    for text in ("A man is playing guitar.", "나는집에간다", "x " * 2000):
        pipe = f"to translate a text, pipe it: echo '…' | regard translate {run}"
        because = f"{text[:80]}: no such file; {pipe}"
        regard.fails("translate", run, text, because=because)
