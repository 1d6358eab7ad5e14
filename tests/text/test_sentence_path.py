"""Sentences of HTML and XML keep the contract of their code as plain lines do."""

from __future__ import annotations

import json
import random
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest
from helpers.hostile_models import (
    MODELS,
    RULES,
    Model,
    decoder,
    reverse,
    say_nothing,
)

from regard.text.markup.document import TAG, parse_markup
from regard.text.text_format import TextFormat, TranslatedText, texts_path
from regard.text.text_path import Request, run_path
from regard.text.translation import Translation

Kind = Literal["html", "xml"]
STRINGS = Path(__file__).parents[2] / "benchmarks/strings/strings.jsonl"


def translate(
    text: str, form: TextFormat, model: Model, seed: int = 0, dialect: str = "auto"
) -> TranslatedText:
    """Translate a text by a fake model, whose word links are random."""
    path = texts_path([text], form, replace(RULES, dialect=dialect))
    (result,) = run_path(path, decoder(model, seed))
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


def spans_of(case: dict[str, Any]) -> list[str]:
    """Return the spans that have to stand as they are; ~ begins one that may be written anew. Lines
    with apostrophes alone are read as prose, and braces around a text in LaTeX are two spans.
    """
    spans = case["spans"]
    is_left_out = re.compile(r"~|'+$|\{\\|.$")
    return [span for span in spans if not is_left_out.match(span)]


CASES = [json.loads(line) for line in STRINGS.read_text("utf-8").splitlines()]
FEW = [case for case in CASES if spans_of(case)][::19]
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
POINTS = ("<img alt='%d'/>", "<!-- {x} -->", "<i></i>", "<code>a %s 5</code>")


def scattered(case: dict[str, Any], draw: random.Random) -> str:
    """Return a string as markup with tags and entities anywhere but in its spans."""
    text = case["text"]
    inner = set[int]()
    for span in (span.lstrip("~") for span in case["spans"]):
        for match in re.finditer(re.escape(span), text):
            inner.update(range(match.start() + 1, match.end()))
    parts = []
    depth = 0
    for index, letter in enumerate(text):
        if index not in inner and draw.random() < 0.06:
            opens = not depth or draw.random() < 0.4
            parts.append("<b>" if opens else "</b>")
            depth += 1 if opens else -1
        if index not in inner and draw.random() < 0.03:
            parts.append(draw.choice(POINTS))
        is_entity = draw.random() < 0.05
        parts.append(f"&#{ord(letter)};" if is_entity else escape(letter, quote=False))
    return "".join(parts) + "</b>" * depth


def check_kept(
    case: dict[str, Any], inner: str, form: TextFormat, model: Model
) -> None:
    """Check that a document that holds a string keeps its structure and the code of the string."""
    assert form.kind != "text"
    text = f"<div>{HEAD}{inner}</p></div>"
    result = translate(text, form, model, len(inner), case["dialect"])
    nodes, words = structure(text, form.kind)
    new_nodes, new_words = structure(result.text, form.kind)
    assert new_nodes == nodes
    assert re.findall("<!--.*?-->", result.text) == re.findall("<!--.*?-->", text)
    for span in spans_of(case):
        is_kept = new_words.count(span) == words.count(span)
        assert is_kept or any(line.broken for line in result.lines), case
    for line in result.lines:
        assert line.broken == any("does not keep" in note for note in line.notes)


def combinations() -> list[Any]:
    """Return a kind of markup, a shape and a model: of each shape and model one of both kinds, the
    other slow.
    """
    parameters = []
    for number, (shape, model) in enumerate(product(SHAPES, MODELS)):
        for kind in ("html", "xml"):
            is_first = (number + number // len(MODELS)) % 2 == (kind == "xml")
            marks = () if is_first else pytest.mark.slow
            name = f"{model.__name__}-{shape}-{kind}"
            parameters.append(pytest.param(kind, shape, model, marks=marks, id=name))
    return parameters


@pytest.mark.parametrize(("kind", "shape", "model"), combinations())
def test_code_is_kept_or_the_sentence_is_marked(
    kind: Kind, shape: str, model: Model
) -> None:
    for case in FEW:
        inner = SHAPES[shape](escape(case["text"], quote=False))
        check_kept(case, inner, TextFormat(kind), model)


@pytest.mark.parametrize("kind", ["html", "xml"])
@pytest.mark.parametrize("model", MODELS)
def test_code_among_tags_anywhere_is_kept(kind: Kind, model: Model) -> None:
    draw = random.Random(5)
    for case in FEW:
        check_kept(case, scattered(case, draw), TextFormat(kind), model)


BREAKING = [
    "Open <b>{file}</b> at 7 &amp; <i>go</i>&nbsp;home",
    "<a href='?%s'>See</a>  2026-11-28\n&#37;s <!-- {x} --> now",
    "<b>One %1$s</b><i>&lt;b&gt;two&lt;/b&gt;</i>",
]


@pytest.mark.parametrize("inner", BREAKING)
def test_what_every_try_breaks_stands_to_the_byte(inner: str) -> None:
    def invent(words: list[str], draw: random.Random) -> list[str]:
        return [*words, "{y}", "%d"]

    text = f"<p>{inner}</p>"
    result = translate(text, TextFormat("html"), invent)
    assert result.text == text
    assert all(line.broken and "not occur" in line.notes[-1] for line in result.lines)


@pytest.mark.parametrize("inner", BREAKING)
def test_a_good_translation_is_asked_for_once(inner: str) -> None:
    requests = list[Request]()

    def decode(request: Request) -> list[Translation]:
        requests.append(request)
        return [Translation(line.upper(), (), 0.0, ()) for line in request.lines]

    (result,) = run_path(
        texts_path([f"<p>{inner}</p>"], TextFormat("html"), RULES), decode
    )
    assert result.text != f"<p>{inner}</p>"
    assert [request.is_retry for request in requests] == [False]


def test_only_broken_sentences_are_translated_again_together() -> None:
    retries = list[Sequence[str]]()

    def decode(request: Request) -> list[Translation]:
        if request.is_retry:
            retries.append(request.lines)
        lines = [re.sub(r"\d", "9", line) for line in request.lines]
        return [Translation(line, (), 0.0, ()) for line in lines]

    texts = ["<p>A <b>dog</b>.</p><p>At <b>7 dogs</b></p>", "<p>Go <i>12 km</i> on</p>"]
    results = run_path(texts_path(texts, TextFormat("html"), RULES), decode)
    assert [result.text for result in results] == texts
    assert retries == [["At dogs", "Go on"]]


def test_without_time_a_broken_sentence_stands() -> None:
    def decode(request: Request) -> list[Translation] | None:
        if request.is_retry:
            return None
        return [Translation(f"{line} {{y}}", (), 0.0, ()) for line in request.lines]

    text = "<p>A <b>dog</b> {x}</p><p>A dog {x}</p>"
    (result,) = run_path(texts_path([text], TextFormat("html"), RULES), decode)
    assert result.text == text
    assert [line.broken for line in result.lines] == [True, True]


def test_no_sentence_ends_in_code() -> None:
    message = "{n, plural, one {A dog. It barks.} other {Dogs. They bark.}}"
    text = f"<p>{message}</p><p>See https://a.org/x.y?z. Then `a. b` ends. Go.</p>"
    result = translate(text, TextFormat("html"), reverse)
    assert result.sources[0] == message
    assert [source for source in result.sources if "`" in source] == [
        "Then `a. b` ends."
    ]


@pytest.mark.parametrize(
    ("beside", "is_broken"),
    [
        ("{0} ate {1,number} at {2,time,short}", True),
        ("{n, plural, other {b}} {x}", False),
    ],
)
def test_the_lines_of_a_text_tell_its_dialect(beside: str, is_broken: bool) -> None:
    """One apostrophe quotes what follows it in the format of Java's messages, not in ICU's."""

    def shorten(words: list[str], draw: random.Random) -> list[str]:
        return [word.replace("dogs", "dog's") for word in words]

    text = f"<p>{beside}</p><p>The <u>dogs</u> are at {{0}} home</p>"
    result = translate(text, TextFormat("html"), shorten)
    assert result.lines[-1].broken == is_broken
    assert ("dogs" in result.text) == is_broken


def test_escapes_are_read_and_written_between_tags() -> None:
    text = "<p>{0} at {1,number}</p><p>It isn''t <b>{0}</b> here</p>"
    requests = requests_of(text, str)
    assert "isn't" in " ".join(requests[0].lines)
    result = translate(text, TextFormat("html"), reverse)
    assert "isn''t" in result.text


def test_each_text_of_a_sentence_has_the_language_code() -> None:
    lines = list[str]()

    def decode(request: Request) -> list[Translation]:
        lines.extend(request.lines)
        return [
            Translation(line.split("<< ")[1].replace("7", ""), (), 0.0, ())
            for line in request.lines
        ]

    text = "<p>A 7 <b>dog</b> is 7</p><p>7 dogs</p>"
    path = texts_path([text], TextFormat("html"), RULES, code=">>deu<<")
    (result,) = run_path(path, decode)
    assert result.text == text
    assert all(line.startswith(">>deu<< ") for line in lines)
    assert not any(line.broken for line in result.lines)


def requests_of(text: str, change: Callable[[str], str]) -> list[Request]:
    """Return what is requested for a text whose lines a model changes."""
    requests = list[Request]()

    def decode(request: Request) -> list[Translation]:
        requests.append(request)
        return [Translation(change(line), (), 0.0, ()) for line in request.lines]

    run_path(texts_path([text], TextFormat("html"), RULES), decode)
    assert all(request.links for request in requests)
    return requests


def test_the_texts_of_a_message_are_translated_by_themselves() -> None:
    text = "<p>A <b>{n, plural, one {dog here} other {two dogs}}</b> on it</p>"
    (first,) = requests_of(text, str.upper)
    assert first.lines == ["A", "dog here", "two dogs", "on it"]


def test_an_attempt_that_would_be_the_same_is_left_out() -> None:
    requests = requests_of("<p>See <b>the</b> dog</p>", lambda line: f"{line} %d {{y}}")
    lines = [request.lines for request in requests]
    assert lines == [["See the dog"], ["See", "the", "dog"]]


def test_a_tag_stands_between_the_characters_beside_it() -> None:
    document = parse_markup("", "html")
    markup = "A <b>7</b>&amp;%<i>s</i>\n <!-- x --> &#37;s"
    assert document.read(markup).replace(TAG, "|") == "A |7|&%|s| | %s"


def one_word(words: list[str], draw: random.Random) -> list[str]:
    return [draw.choice(words)]


class Emptied(Tree):
    """The elements of HTML that have no text."""

    def __init__(self, text: str) -> None:
        self.texts = [""]
        self.empty = list[str]()
        super().__init__(text)

    def handle_starttag(
        self, tag: str, attrs: Sequence[tuple[str, str | None]]
    ) -> None:
        super().handle_starttag(tag, attrs)
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        self.texts = [text + data for text in self.texts]

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        if not self.texts.pop().strip():
            self.empty.append(tag)


MANY = [
    "A <a>dog</a> <b>runs</b> to <i>a small</i> <a>house</a>.",
    "Small <a>dog</a><b>house</b> <i></i> here.",
    "<a>The <b>black</b> <i>dog</i></a> <u>runs</u>.",
    "See <a>page <b>2</b></a> and <a>%s</a> <i>now</i>!",
]


@pytest.mark.parametrize("text", MANY)
@pytest.mark.parametrize("model", [*MODELS, one_word, say_nothing])
def test_no_element_that_held_text_is_left_empty(text: str, model: Model) -> None:
    form = TextFormat("html")
    for seed in range(20):
        result = translate(f"<p>{text}</p>", form, model, seed)
        assert Emptied(result.text).empty == Emptied(text).empty
        assert (
            structure(result.text, "html")[0] == structure(f"<p>{text}</p>", "html")[0]
        )


def test_a_text_whose_elements_would_be_empty_stays_with_a_note() -> None:
    text = "<p>Small <a href='/b'>dog</a> <b>runs</b></p>"
    result = translate(text, TextFormat("html"), say_nothing)
    (line,) = result.lines
    assert result.text == text
    assert line.broken
    assert "<a href='/b'> is left without a text" in line.notes[-1]
