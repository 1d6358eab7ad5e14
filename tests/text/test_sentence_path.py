"""Sentences of HTML and XML keep the contract of their code as plain lines do."""

from __future__ import annotations

import json
import random
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pytest

from regard.text.casing import CaseReader
from regard.text.text_format import TextFormat, TranslatedText, texts_path
from regard.text.text_path import PathRules, Request, run_path
from regard.text.translation import TranslatedPart, Translation

Kind = Literal["html", "xml"]
Model = Callable[[list[str], random.Random], list[str]]
STRINGS = Path(__file__).parents[2] / "benchmarks/strings/strings.jsonl"
JUNK = ("7", "{0}", "}", "%s", "9.5")


def reverse(words: list[str], draw: random.Random) -> list[str]:
    return words[::-1]


def drop(words: list[str], draw: random.Random) -> list[str]:
    return [word for word in words if draw.random() < 0.7]


def double(words: list[str], draw: random.Random) -> list[str]:
    return [word for word in words for _ in range(draw.choice((1, 1, 2)))]


def damage(words: list[str], draw: random.Random) -> list[str]:
    return [word + draw.choice(JUNK) if draw.random() < 0.3 else word for word in words]


def replace_digits(words: list[str], draw: random.Random) -> list[str]:
    return [re.sub(r"\d", "9", word) for word in words]


def shuffle_letters(words: list[str], draw: random.Random) -> list[str]:
    return ["".join(draw.sample(word, len(word))) for word in words]


MODELS = [reverse, drop, double, damage, replace_digits, shuffle_letters]


def translate(
    text: str, form: TextFormat, model: Model, seed: int = 0, dialect: str = "auto"
) -> TranslatedText:
    """Translate a text by a fake model, whose word links are random."""
    draw = random.Random(seed)

    def decode(request: Request) -> list[Translation]:
        results = []
        for line in request.lines:
            words = model(line.split(), draw)
            sources = range(len(line.split()))
            links = [
                (draw.choice(sources), target)
                for target in range(len(words))
                if draw.random() < 0.7
            ]
            result = " ".join(words)
            part = TranslatedPart(line, result, 0.0)
            results.append(Translation(result, (), 0.0, tuple(links), parts=(part,)))
        return results

    reader = CaseReader(("", ""), lambda text: [*map(ord, text)])
    rules = PathRules(reader, dialect=dialect)
    path = texts_path([text], form, rules)
    (result,) = run_path(path, decode)
    return result


class Tree(HTMLParser):
    """The elements, attributes and comments of HTML with their parents, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open = ["root"]
        self.nodes = list[str]()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(
        self, tag: str, attrs: Sequence[tuple[str, str | None]]
    ) -> None:
        self.nodes.append(f"{self.open[-1]} > {tag} {attrs}")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        self.nodes.append(f"comment {data}")

    def handle_data(self, data: str) -> None:
        self.text += data


def structure(text: str, kind: Kind) -> tuple[list[str], str]:
    """Return the elements of a text with their parents, sorted, and its text."""
    if kind == "html":
        html = Tree(text)
        return sorted(html.nodes), html.text
    root = ElementTree.fromstring(text)
    nodes = [
        f"{parent.tag} > {child.tag} {child.attrib}"
        for parent in root.iter()
        for child in parent
    ]
    return sorted(nodes), "".join(root.itertext())


def spans_of(case: dict[str, object]) -> list[str]:
    """Return the spans that have to stand as they are; ~ begins one that may be written anew. Lines
    with apostrophes alone are read as prose.
    """
    spans = case["spans"]
    assert isinstance(spans, list)
    return [span for span in spans if span[0] != "~" and len(span.strip("'")) > 1]


CASES = [json.loads(line) for line in STRINGS.read_text("utf-8").splitlines()]
FEW = [case for case in CASES if spans_of(case)][::9]
HEAD = '<p class="7 of 9">A cat.</p><!-- {x} 5 --><p title="%s">'
SHAPES: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "bold": lambda text: f"<b>{text}</b>",
    "first": lambda text: text.replace(" ", " <i id='a1'>", 1) + "</i>",
    "around": lambda text: f"<b>Look</b> here {text} <i>2 dogs</i>",
    "points": lambda text: (
        f"<img alt='%d'/>{text}<!-- {{y}} --> <a href='?n=5'>now</a>"
    ),
    "whole": lambda text: f"{text} <code>make %s 4</code> now",
}


def document(case: dict[str, object], shape: str) -> tuple[str, str]:
    """Return a document that holds a string, and the markup of the string in it."""
    text = escape(str(case["text"]), quote=False)
    inner = SHAPES[shape](text)
    return f"<div>{HEAD}{inner}</p></div>", inner


@pytest.mark.parametrize("kind", ["html", "xml"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", MODELS)
def test_code_is_kept_or_the_sentence_is_left_and_marked(
    kind: Kind, shape: str, model: Model
) -> None:
    for seed, case in enumerate(FEW):
        text, inner = document(case, shape)
        result = translate(text, TextFormat(kind), model, seed, case["dialect"])

        nodes, words = structure(text, kind)
        new_nodes, new_words = structure(result.text, kind)
        assert new_nodes == nodes
        assert result.text.startswith("<div>" + HEAD.split("A cat")[0])
        for span in spans_of(case):
            kept = " ".join(new_words.split()).count(span)
            is_kept = kept == " ".join(words.split()).count(span)
            assert is_kept or any(line.broken for line in result.lines), case
        for line in result.lines:
            assert line.broken == any("does not keep" in note for note in line.notes)
