"""Kinds of files: plain text passes whatever it begins with, and other files are refused by name or
first bytes.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.common.errors import DataError
from regard.data.file_kinds import input_kind
from regard.data.text import read_lines

HTML = b"<!DOCTYPE html>\n<html><body>"
XML = b'<?xml version="1.0"?>\n<!-- c > d -->\n<a>'
TEXTS = [
    *(
        b'{"a": 1} is JSON',
        b"<b>x</b> and y",
        b"<p>x</p>\n<p>y</p>",
        b"- one\n- two",
        b"1. one",
        b"1\n2\n",
        b"# One",
        b"a\tb",
    ),
    *(
        b"---\na",
        b"",
        b"WEBVTT is a format.",
        b"<!doctype html> begins a page.\nx",
        b"<html> is a tag.",
        b"%PDF is a name",
    ),
    *(
        b"<?xml is a declaration ?>\nx",
        b"\\id is a marker",
        b"msgid is a key",
        b"[x](y) is a link",
        b"\\documentclasses",
    ),
]
"""Lines of text, which may look like something else, in files whose names say nothing else."""
NAMED = "po pot xlf xliff sdlxliff tmx srt vtt ass sub json arb yaml yml toml properties strings resx usfm sfm csv tsv rtf tex"
BEGUN = [
    *(
        b"WEBVTT\n\n00:01.000 --> 00:02.000\nHi",
        b"WEBVTT - a film\r\n\r\n",
        b"1\r\n00:00:01,000 --> 00:00:02,000\r\nHi",
    ),
    *(
        b'# x\n\nmsgid ""\nmsgstr ""\n',
        b'msgid "a"\r\nmsgstr "b"',
        b"\\id GEN\n\\c 1",
        b"{\\rtf1\\ansi",
        b"%PDF-1.4\n",
    ),
    *(
        b"\\documentclass{article}",
        b"<?xml version='1.0'?>\n<xliff version='1.2'>",
        b"<tmx version='1.4'>",
    ),
    *(b"<?xml version='1.0'?>\n<!DOCTYPE TS>\n<TS version='2.1'>", b"[Script Info]\nTitle: x"),
]
MARKDOWN = [
    *(
        b"see [x](y)",
        b"---\ntitle: x\n---",
        b"a\n```\ncode\n```",
        b"a\n\n| a | b |\n|---|---|",
        b"# T",
        b"x\n===",
        b"`a` b",
    ),
    *(b"a **b** c", b"> a", b"- a\n- b"),
]


def kind(folder: Path, name: str, content: bytes) -> str:
    """Return the kind of a file, with and without a byte-order mark, plain and compressed;
    `refused` if it is.
    """
    kinds = set[str]()
    for data in (content, b"\xef\xbb\xbf" + content):
        for path, written in ((folder / name, data), (folder / f"{name}.gz", gzip.compress(data))):
            path.write_bytes(written)
            try:
                kinds.add(input_kind(path))
            except DataError:
                kinds.add("refused")
    (only,) = kinds
    return only


def test_plain_text_is_never_refused(tmp_path: Path) -> None:
    for name in ("a.txt", "a.de", "a", "html", "json", "corpus.po.en", "a.ts"):
        assert [text for text in TEXTS if kind(tmp_path, name, text) != "text"] == []
    assert kind(tmp_path, "a.md", b"Plain prose, 3 * 4.\nAnd more: it (here) ends.\n") == "text"


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    assert [
        name for name in NAMED.split() if kind(tmp_path, f"a.{name}", b"A b.") != "refused"
    ] == []
    assert kind(tmp_path, "MESSAGES.PO", b"A b.") == "refused"
    assert [text for text in MARKDOWN if kind(tmp_path, "a.md", text) != "refused"] == []


def test_other_files_are_refused_by_what_they_begin_with(tmp_path: Path) -> None:
    for name in ("a.txt", "a.en", "a"):
        assert [text for text in BEGUN if kind(tmp_path, name, text) != "refused"] == []
    assert kind(tmp_path, "a.xml", BEGUN[9]) == "refused"


def test_pages_and_json_lines_are_told(tmp_path: Path) -> None:
    assert {kind(tmp_path, f"a.{name}", b"<p>x") for name in ("html", "htm", "xhtml", "HTML")} == {
        "html"
    }
    assert {kind(tmp_path, name, HTML) for name in ("a.txt", "a", "a.xml")} == {"html"}
    assert kind(tmp_path, "a.xhtml", XML.replace(b"<a>", HTML)) == "html"
    assert {kind(tmp_path, name, XML) for name in ("a.txt", "a", "a.xml")} == {"xml"}
    assert kind(tmp_path, "a.jsonl", b"") == "jsonl"


@pytest.mark.parametrize(
    "name", ["a.docx", "a.odt", "a.xlsx", "a.pptx", "a.epub", "a.pdf", "a.png", "a.MP3", "a.jpeg"]
)
def test_a_file_that_is_not_text_is_named_in_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04\0\0\n\xff\xb0\n\0")
    with pytest.raises(
        DataError, match=rf"{name}: is an? .*; Regard reads text: save it as plain text"
    ) as caught:
        read_lines(tmp_path / name)
    assert len(caught.value.causes) == 1
    assert str(caught.value).endswith("a table as CSV UTF-8"), "what to do with a spreadsheet"
    (tmp_path / name).write_bytes(b"This is text.\n")
    assert read_lines(tmp_path / name) == ["This is text."]


def test_a_zip_archive_of_any_name_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"PK\x03\x04\0\r\0\n\xff\xb0\n\0")
    with pytest.raises(DataError, match="it looks compressed: unpack it first") as caught:
        read_lines(tmp_path / "a.txt")
    assert len(caught.value.causes) == 1


def test_a_path_that_cannot_be_asked_is_left_to_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for addresses raise ValueError for some that are none."""

    def refuse(_: Path) -> bool:
        raise ValueError("no repository")

    monkeypatch.setattr(Path, "is_file", refuse)
    assert input_kind(Path("hf:") / "[::1]") == "text"
