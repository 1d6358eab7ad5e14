"""The README of a run shows what people have written as text: no author, origin, path or command
becomes markup.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.system_marks import posix
from markdown_it import MarkdownIt

from regard.common.markdown import code_span, escape_text, quote_argument
from regard.data.corpus_facts import CorpusFacts
from regard.data.provenance import write_corpora
from regard.text.quality import Quality
from regard.training import model_card
from regard.training.journal import Journal
from regard.training.recipe import Recipe, preset

HOSTILE = [
    "<script>alert(1)</script>",
    "</li></ul><h1>Regard</h1>",
    "a\r\n---\r\nlicense: mit\r\n---",
    "a\u2028# b\u2029\n```\ncode\n```",
    "[click](javascript:alert(1))",
    "[a][b]\n\n[b]: https://example.org",
    "<https://example.org> &lt;b&gt; &#60;i&#62;",
    "*a* **b** _c_ __d__ ~~e~~ `f` ``g``",
    r"\*a\* \<b\> \\",
    "| a | b |\n|---|---|\n| c | d |",
    "1. a\n2. b\n> c\n    d\n***",
    "<!-- a comment -->",
    "`` ` ``` ends in `",
    "$x$ a_file_name_ of snake_case",
    "\x00\x1b[31m \u202eevil \udcff",
]
PLAIN = [
    "CC-BY-4.0",
    "Jörg & 민지 (Lab 7), 2026",
    "https://opus.nlpl.eu/a_b/~c?d=1&e=2",
    "می\u200cخواهم",
    "a - b + c #1!",
]
TEXT = ("text", "text_special")
PARSERS = [
    MarkdownIt("commonmark"),
    MarkdownIt("commonmark").enable(["table", "strikethrough"]),
]


def parts_of(text: str, parser: MarkdownIt) -> list[Any]:
    """Return the elements of a Markdown text in one line, those in others among them."""
    tokens = parser.parse(text)
    return [part for token in tokens for part in (token, *(token.children or []))]


def readable(text: str) -> str:
    """Return a text as it may be shown: in one line, without what is invisible."""
    kept = "".join(c if c.isprintable() or c in "\u200c\u200d" else " " for c in text)
    return " ".join(kept.split())


@pytest.mark.parametrize("text", [*HOSTILE, *PLAIN])
@pytest.mark.parametrize("parser", PARSERS, ids=["CommonMark", "with tables"])
def test_a_text_is_shown_as_it_is(parser: MarkdownIt, text: str) -> None:
    def shape(shown: str) -> list[str]:
        parts = parts_of(f"- Author: {shown}\n", parser)
        return [part.type for part in parts if part.type not in TEXT]

    assert shape(escape_text(text)) == shape("anybody")

    if text in PLAIN:
        assert escape_text(text) == text
    parts = parts_of(f"- Author: {escape_text(text)}\n", parser)
    shown = "".join(part.content for part in parts if part.type in TEXT)

    assert shown == f"Author: {readable(text)}"


@pytest.mark.parametrize("text", [*HOSTILE, *PLAIN])
def test_code_is_one_span(text: str) -> None:
    code = readable(text)
    parts = parts_of(f"Command: {code_span(code)}.", PARSERS[0])
    (paragraph,) = [part for part in parts if part.type == "inline"]
    children = [(child.type, child.content) for child in paragraph.children or ()]

    assert children == [("text", "Command: "), ("code_inline", code), ("text", ".")]


@posix
def test_a_quoted_argument_is_that_argument_again() -> None:
    texts = [*HOSTILE[:-1], "a\x1b\u202e'\\\udcffb", "it's", "", "-", "\U000e0001"]
    arguments = [text for text in texts if "\0" not in text]
    quoted = " ".join(map(quote_argument, arguments))

    assert quoted.isprintable()

    program = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "{program}" {quoted}'],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )

    assert [os.fsdecode(part) for part in done.stdout.split(b"\0")] == arguments


@pytest.mark.parametrize("text", HOSTILE[1:-1:4])
def test_a_run_of_hostile_names_has_the_card_of_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def card(folder: Path, name: str) -> list[str]:
        folder.mkdir(parents=True)
        (folder / "data.json").write_text('{"files": {}}', encoding="utf-8")
        command = ["regard", "train", "--author", name, "--out", str(folder)]
        monkeypatch.setattr(sys, "argv", command)
        data = {"author": name, "origin": name, "source": "a.ko", "target": "a.en"}
        recipe = Recipe.parse({**preset("transformer-tiny"), "data": data}, "recipe")
        write_corpora(folder, {name: CorpusFacts(5, "0" * 64, "1" * 64)}, [])
        journal = Journal(folder / "journal.jsonl")
        journal.write("machine", command=model_card.command_line())
        model_card.write(folder, recipe)
        readme = (folder / "README.md").read_text(encoding="utf-8")
        parts = parts_of(readme, PARSERS[1])
        return [part.type for part in parts if part.type not in (*TEXT, "inline")]

    hostile = text.replace("/", "∕").replace("\0", "")[:80]

    assert card(tmp_path / "0" / hostile, text) == card(tmp_path / "1", "plain")


def test_a_card_tells_what_quality_was_fitted_to(tmp_path: Path) -> None:
    data = {"source": "a.ko", "target": "a.en"}
    recipe = Recipe.parse({**preset("transformer-tiny"), "data": data}, "recipe")
    quality = Quality((0.0, 1.0, 0.0, 0.0), 1234, 0.71, ((0.26, 0.29), (0.95, 0.97)))

    model_card.write(tmp_path, recipe, quality)

    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "1,234 held-out pairs, of which 71 % are translated well" in text
    assert "0.26 (0.29), 0.95 (0.97).\n" in text
