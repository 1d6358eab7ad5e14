"""regard translate: pages of HTML and XML, files of other kinds, and inputs that an output would
overwrite.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Literal

import pytest
from command import Command, files
from small import folder

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
    Path(f"page.{kind}").write_text(text, encoding="utf-8", newline="")
    Path("page").write_bytes(b"\xef\xbb\xbf" + text.encode())
    Path(f"page.{kind}.gz").write_bytes(gzip.compress(text.encode()))
    for name in (f"page.{kind}", "page", f"page.{kind}.gz"):
        assert regard("translate", run, name, "--chunk", 1).out == expected
    assert regard("translate", run, "--input", kind, stdin=text.encode()).out == expected
    regard("translate", run, f"page.{kind}", "--output", "out.gz")
    assert gzip.decompress(Path("out.gz").read_bytes()).decode() == expected


def test_a_page_without_a_sentence_stays_as_it_is(regard: Command, run: Path) -> None:
    Path("page.html").write_bytes(b"<p>1</p>\r\n<script>a</script>")
    assert regard("translate", run, "page.html").out == "<p>1</p>\r\n<script>a</script>"


def test_a_model_of_several_sentences_a_line_reads_blocks_whole(
    regard: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        SearchSettings, "splits_sentences", property(lambda settings: settings.split == "on")
    )
    Path("page.html").write_text("<p>나는 집에 간다. 너는 책을 읽는다.</p>", encoding="utf-8")
    whole, split = (
        regard("translate", run, "page.html", *options).out for options in ([], ["--split", "on"])
    )
    (line,) = package.load(run).translate(["나는 집에 간다. 너는 책을 읽는다."])
    assert whole == f"<p>{line.text}</p>" != split


def test_options_that_a_page_has_no_use_for_are_refused(regard: Command, run: Path) -> None:
    Path("page.html").write_text(PAGE, encoding="utf-8")
    options = ["--nbest", "2", "--alignments", "--format", "jsonl", "--stream", "--resume"]
    because = "--nbest, --alignments, --format, --resume, --stream: page.html is HTML, which is translated once"
    regard.fails("translate", run, "page.html", *options, status=2, because=because)
    assert len(regard("translate", run, "page.html", "--input", "text", "--nbest", 2).lines) > 4


@pytest.mark.parametrize(
    ("name", "text", "because"),
    [
        ("a.html", PAGE.replace("UTF-8", "iso-8859-1"), "a.html: says that it is iso-8859-1; save it as UTF-8"),
        ("a.xml", XML.replace("utf-8", "UTF-16"), "a.xml: says that it is UTF-16; save it as UTF-8"),
        ("b.html", "<p>\xe4</p>".encode("latin-1").decode("utf-8", "surrogateescape"), "b.html: line 1 is not UTF-8"),
        ("c.html", "", "c.html: the file is empty"),
        ("a.srt", "1\n", "a.srt: is a subtitle file, not lines of text: save its sentences as plain text, one a line, or "
         "give --input text to translate every line as it stands"),
        ("a.csv", "a,b\n", "a.csv: is a table (--column translates a column of CSV)"),
        ("a.docx", "PK\x03\x04\0\n", "a.docx: is a Word document; Regard reads text: save it as plain text"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_translated_are_refused(
    regard: Command, run: Path, name: str, text: str, because: str
) -> None:
    Path(name).write_bytes(text.encode("utf-8", "surrogateescape"))
    regard.fails("translate", run, name, "--output", "out", status=1, because=because)
    assert [*files()] == [name]


def test_a_document_is_named_by_every_command_that_reads_sentences(
    regard: Command, run: Path
) -> None:
    Path("a.docx").write_bytes(b"PK\x03\x04\0\n")
    Path("a.en").write_text("I go home\n", encoding="utf-8")
    pair = ["--source", "a.docx", "--target", "a.en"]
    because = "a.docx: is a Word document; Regard reads text"
    regard.fails("align", run, *pair, status=1, because=because)
    regard.fails("train", *pair, "--out", "new", status=1, because=because)


def test_text_is_translated_line_by_line_if_it_is_asked_for(regard: Command, run: Path) -> None:
    Path("a.po").write_text("나는 집에 간다\n너는\n", encoding="utf-8")
    Path("a.jsonl").write_text('{"text": "나는 집에 간다"}\n{"text": "너는"}\n', encoding="utf-8")
    lines = regard("translate", run, "a.po", "--input", "text").lines
    assert lines == regard("translate", run, "a.jsonl").lines
    assert len(lines) == 2
    assert regard("translate", run, "--stream", "--input", "text", stdin=b"").out == ""


def test_an_output_never_replaces_an_input(regard: Command, run: Path) -> None:
    for name in ("a.ko", "a.en", "a.part"):
        Path(name).write_text("나는 집에 간다\n", encoding="utf-8")
    Path("link").symlink_to("a.ko")
    before = files()
    for source, output in (("a.ko", "a.ko"), ("link", "a.ko"), ("a.ko", "link"), ("a.part", "a")):
        because = f"--output {output}: would overwrite {source}, which is read; give another name"
        regard.fails("translate", run, source, "--output", output, status=2, because=because)
    for source, output in (("a.ko", "link"), ("a.part", "a")):
        because = f"--output {output}: would overwrite {source}, which is read"
        regard.fails(
            "align",
            run,
            "--source",
            source,
            "--target",
            "a.en",
            "--output",
            output,
            status=2,
            because=because,
        )
    assert files() == before


def test_a_text_in_place_of_a_file_is_told_the_way(regard: Command, run: Path) -> None:
    for text in ("A man is playing guitar.", "나는집에간다", "x " * 2000):
        because = f"{text[:80]}: no such file; to translate a text, pipe it: echo '…' | regard translate {run}"
        regard.fails("translate", run, text, status=2, because=because)
    Path("test.ko").touch()
    regard.fails(
        "translate",
        run,
        "tset.ko",
        status=1,
        because="tset.ko: no such file; did you mean test.ko?",
    )
