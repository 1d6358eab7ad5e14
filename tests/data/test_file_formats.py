"""Kinds of files: plain text passes whatever it begins with, and other files are refused by name or
first bytes.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from helpers.text_table import items, lines

from regard.common.errors import DataError
from regard.data.text import read_lines
from regard.data.text_kinds import input_kind

HTML = "<!DOCTYPE html>\n<html><body>"
XML = '<?xml version="1.0"?>\n<!-- c > d -->\n<a>'
TEXTS = [
    "",
    "<p>x</p>\n<p>y</p>",
    "- one\n- two",
    "1\n2\n",
    "a\tb",
    "---\na",
    "<!doctype html> begins a page.\nx",
    "<?xml is a declaration ?>\nx",
    "\\id is a marker",
    "\\documentclasses",
    *lines("""
        {"a": 1} is JSON
        <b>x</b> and y
        1. one
        # One
        WEBVTT is a format.
        <html> is a tag.
        %PDF is a name
        msgid is a key
        [x](y) is a link
    """),
]
"""Lines of text, which may look like something else, in files whose names say nothing else."""
NAMED = "po pot xlf xliff sdlxliff tmx srt vtt ass sub json arb yaml yml toml properties strings resx usfm sfm csv tsv rtf tex md mdx fodt"
BEGUN = [
    "WEBVTT\n\n00:01.000 --> 00:02.000\nHi",
    "WEBVTT - a film\r\n\r\n",
    "1\r\n00:00:01,000 --> 00:00:02,000\r\nHi",
    '# x\n\nmsgid ""\nmsgstr ""\n',
    'msgid "a"\r\nmsgstr "b"',
    "\\id GEN\n\\c 1",
    "{\\rtf1\\ansi",
    "%PDF-1.4\n",
    "\\documentclass{article}",
    "<?xml version='1.0'?>\n<xliff version='1.2'>",
    "<tmx version='1.4'>",
    "<?xml version='1.0'?>\n<!DOCTYPE TS>\n<TS version='2.1'>",
    "[Script Info]\nTitle: x",
]


def kind(folder: Path, name: str, text: str) -> str:
    """Return the kind of a file, with and without a byte-order mark, plain and compressed;
    `refused` if it is.
    """
    kinds = set[str]()
    plain = folder / name
    zipped = folder / f"{name}.gz"
    for data in (text.encode(), text.encode("utf-8-sig")):
        plain.write_bytes(data)
        zipped.write_bytes(gzip.compress(data, mtime=0))
        for path in (plain, zipped):
            try:
                kinds.add(input_kind(path))
            except DataError:
                kinds.add("refused")
    (only,) = kinds
    return only


@pytest.mark.parametrize("name", items("a.txt a.de a html json corpus.po.en a.ts"))
def test_plain_text_is_never_refused(tmp_path: Path, name: str) -> None:
    assert [text for text in TEXTS if kind(tmp_path, name, text) != "text"] == []


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    for ending in NAMED.split():
        assert kind(tmp_path, f"a.{ending}", "A b.") == "refused"
    assert kind(tmp_path, "MESSAGES.PO", "A b.") == "refused"


@pytest.mark.parametrize("name", ["a.txt", "a.en", "a"])
def test_other_files_are_refused_by_what_they_begin_with(
    tmp_path: Path, name: str
) -> None:
    assert [text for text in BEGUN if kind(tmp_path, name, text) != "refused"] == []
    assert kind(tmp_path, "a.xml", BEGUN[9]) == "refused"


def test_pages_and_json_lines_are_told(tmp_path: Path) -> None:
    for name in ("a.html", "a.htm", "a.xhtml", "a.HTML"):
        assert kind(tmp_path, name, "<p>x") == "html"
    for name in ("a.txt", "a", "a.xml"):
        assert kind(tmp_path, name, HTML) == "html"
        assert kind(tmp_path, name, XML) == "xml"
    assert kind(tmp_path, "a.xhtml", XML.replace("<a>", HTML)) == "html"
    assert kind(tmp_path, "a.jsonl", "") == "jsonl"


@pytest.mark.parametrize(
    "name", ["a.docx", "a.xlsx", "a.epub", "a.pdf", "a.png", "a.MP3"]
)
def test_a_file_that_is_not_text_is_named_in_one_sentence(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04\0\0\n\xff\xb0\n\0")
    with pytest.raises(
        DataError, match=rf"{name}: is an? .*; Regard reads text: save it as plain text"
    ) as caught:
        read_lines(tmp_path / name)
    assert len(caught.value.causes) == 1
    assert str(caught.value).endswith("a table as CSV UTF-8"), (
        "what to do with a spreadsheet"
    )
    (tmp_path / name).write_bytes(b"This is text.\n")
    assert read_lines(tmp_path / name) == ["This is text."]


def test_a_zip_archive_of_any_name_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"PK\x03\x04\0\r\0\n\xff\xb0\n\0")
    with pytest.raises(
        DataError, match="it looks compressed: unpack it first"
    ) as caught:
        read_lines(tmp_path / "a.txt")
    assert len(caught.value.causes) == 1


def test_a_path_that_cannot_be_asked_is_left_to_its_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stand-ins for addresses raise ValueError for some that are none."""

    def refuse(_: Path) -> bool:
        raise ValueError("no repository")

    monkeypatch.setattr(Path, "is_file", refuse)
    assert input_kind(Path("hf:") / "[::1]") == "text"
