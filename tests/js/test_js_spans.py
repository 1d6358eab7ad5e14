"""The JavaScript module keeps spans by copy tokens, and parts them by the rules of the package."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small import SENTENCES

from regard.data.sentences import TextLayout
from regard.pipeline import RuntimeTranslator
from regard.text.protected_line import protect_line
from tests.data.test_spans import LINES as SPANS
from tests.js.test_module import run

FRAMES = ["{a} 집 {b}", "집 {a}.", "({a})집", "{a}{b}을 집", "“{a}” 家{b}", "집:{a} _{b}"]
LINES = [
    *(
        f"{SENTENCES[n % len(SENTENCES)]} {span} 집"
        for n, spans in enumerate(SPANS.values())
        for span in spans
    ),
    *(
        frame.format(a=a, b=b)
        for frame in FRAMES
        for a, b in [("%s", "{0}"), ("me@x.org", "👍🏽"), ("`가`", "$x")]
    ),
    *(
        "{a} {b} {c} 집",
        "<b>{a}</b> 집",
        "{n, plural, other {집}} {a}",
        "집",
        "{a}",
        "",
        *SENTENCES,
    ),
]


@pytest.mark.parametrize("copy_tokens", [0, 1, 24])
def test_spans_come_back_as_by_the_package(
    node: str, wasm: Path, make: Callable[..., Path], copy_tokens: int
) -> None:
    native = RuntimeTranslator(make(copy_tokens=copy_tokens), threads=1).model
    options = native.options()
    options.beam = options.nbest = 3
    answers = run(node, wasm, native.path, lines=LINES, options={"beam": 3, "nbest": 3})["answers"]
    whole = run(
        node, wasm, native.path, lines=LINES, options={"beam": 3, "nbest": 3, "keep": False}
    )["answers"]
    changed = 0
    for line, answer, plain in zip(LINES, answers, whole, strict=True):
        protected = protect_line(line, False, native.copies)
        marked = line
        restore = str
        if protected is not None and isinstance(protected.document, TextLayout):
            marked = protected.document.join(protected.lines)
            restore = protected.copied.restore
        (expected,) = native.translate([marked], options)
        for one, other in zip(answer["nbest"], expected.hypotheses, strict=True):
            assert one["text"] == restore(other.text), line
            assert one["tokens"] == [restore(token) for token in native.tokens(other.ids, True)]
        assert answer["sourceTokens"] == [
            restore(token) for token in native.tokens(expected.source, False)
        ]
        (expected,) = native.translate([line], options)
        assert [one["text"] for one in plain["nbest"]] == [one.text for one in expected.hypotheses]
        changed += answer["text"] != plain["text"]
    assert (changed > 0) == (copy_tokens > 0)


def test_a_search_that_is_recorded_shows_the_spans(
    node: str, wasm: Path, make: Callable[..., Path]
) -> None:
    options: dict[str, Any] = {"trace": True, "attention": "cross", "alignments": True}
    (answer,) = run(
        node, wasm, make(copy_tokens=24), lines=["나는 {name} 집에 간다"], options=options
    )["answers"]
    tokens = [candidate["token"] for step in answer["steps"] for candidate in step["candidates"]]
    assert "{name}" in tokens
    assert answer["alignments"]
    assert all(source < len(answer["sourceWords"]["texts"]) for source, _ in answer["alignments"])
    assert sum("{name}" in word for word in answer["targetWords"]["texts"]) == 1
    assert not re.search("[\U000f1900-\U000f1917]", str(answer))


def test_streams_keep_spans_and_capitals_as_by_the_package(
    node: str, wasm: Path, make: Callable[..., Path]
) -> None:
    translator = RuntimeTranslator(make(copy_tokens=24), threads=1)
    lines = [*LINES[::9], "OPEN {a} THE FILE", "열기(_O)"]
    streams = run(node, wasm, translator.model.path, lines=[], options={}, streamed=lines)[
        "streams"
    ]
    assert streams == [list(translator.begin_stream(line)) for line in lines]
