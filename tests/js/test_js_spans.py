"""The JavaScript module keeps spans by copy tokens: it finds those of the package, and parts them by the same rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small import SENTENCES

from regard.data.copy_tokens import COPIED
from regard.data.sentences import TextLayout
from regard.data.spans import KEPT, KINDS
from regard.pipeline import RuntimeTranslator
from regard.text.protected_line import MOST_COPIED, protect_line
from tests.data.test_spans import LINES as SPANS
from tests.js.test_module import run

SOURCE = (Path(__file__).parents[2] / "regard" / "runtime" / "js" / "regard.js").read_text(encoding="utf-8")
ASCII_SPACE = r" \t\n\r\f\v"
FRAMES = ["{a} 집 {b}", "집 {a}.", "({a})집", "{a}{b}을 집", "“{a}” 家{b}", "집:{a} _{b}"]
LINES = [
    *(f"{SENTENCES[n % len(SENTENCES)]} {span} 집" for n, spans in enumerate(SPANS.values()) for span in spans),
    *(frame.format(a=a, b=b) for frame in FRAMES for a, b in [("%s", "{0}"), ("me@x.org", "👍🏽"), ("`가`", "$x")]),
    *("{a} {b} {c} 집", "<b>{a}</b> 집", "{n, plural, other {집}} {a}", "집", "{a}", "", *SENTENCES),
]


def test_the_pattern_is_that_of_the_package() -> None:
    """Write the pattern of regard.data.spans as JavaScript has it, where white space is more than that of ASCII."""
    from regard.data.spans import _PATTERN

    parts, inside = list[str](), False
    for token in re.findall(r"\\U[0-9a-f]{8}|\\.|\(\?P<|.", _PATTERN.pattern, re.DOTALL):
        inside = token == "[" or (inside and token != "]")
        other = {"(?P<": "(?<", r"\#": "#", "`": r"\x60", r"\S": f"[^{ASCII_SPACE}]"}.get(token, token)
        if token == r"\s":
            other = ASCII_SPACE if inside else f"[{ASCII_SPACE}]"
        elif token.startswith(r"\U"):
            other = rf"\u{{{token[2:].lstrip('0')}}}"
        parts.append(other)
    assert f"String.raw`{''.join(parts)}`" in SOURCE


def test_the_kinds_are_those_of_the_package() -> None:
    named = {
        name: {*re.findall(r'"(\w+)"', kinds)}
        for name, kinds in re.findall(r"(\w*COPIED) = new Set\(\[(.*?)\]", SOURCE)
    }
    assert named == {"COPIED": COPIED & KINDS.keys(), "NOT_COPIED": KEPT - COPIED}
    assert f"MOST_COPIED = {MOST_COPIED};" in SOURCE


@pytest.mark.parametrize("copy_tokens", [0, 1, 24])
def test_spans_come_back_as_by_the_package(node: str, wasm: Path, make: Callable[..., Path], copy_tokens: int) -> None:
    native = RuntimeTranslator(make(copy_tokens=copy_tokens), threads=1).model
    options = native.options()
    options.beam = options.nbest = 3
    answers = run(node, wasm, native.path, lines=LINES, options={"beam": 3, "nbest": 3})["answers"]
    whole = run(node, wasm, native.path, lines=LINES, options={"beam": 3, "nbest": 3, "keep": False})["answers"]
    changed = 0
    for line, answer, plain in zip(LINES, answers, whole, strict=True):
        protected = protect_line(line, False, native.copies)
        marked, restore = line, str
        if protected is not None and isinstance(protected.document, TextLayout):
            marked, restore = protected.document.join(protected.lines), protected.copied.restore
        (expected,) = native.translate([marked], options)
        for one, other in zip(answer["nbest"], expected.hypotheses, strict=True):
            assert one["text"] == restore(other.text), line
            assert one["tokens"] == [restore(token) for token in native.tokens(other.ids, True)]
        assert answer["sourceTokens"] == [restore(token) for token in native.tokens(expected.source, False)]
        (expected,) = native.translate([line], options)
        assert [one["text"] for one in plain["nbest"]] == [one.text for one in expected.hypotheses]
        changed += answer["text"] != plain["text"]
    assert (changed > 0) == (copy_tokens > 0)


def test_a_search_that_is_recorded_shows_the_spans(node: str, wasm: Path, make: Callable[..., Path]) -> None:
    options: dict[str, Any] = {"trace": True, "attention": "cross"}
    (answer,) = run(node, wasm, make(copy_tokens=24), lines=["나는 {name} 집에 간다"], options=options)["answers"]
    tokens = [candidate["token"] for step in answer["steps"] for candidate in step["candidates"]]
    assert "{name}" in tokens
    assert sum("{name}" in word for word in answer["targetWords"]["texts"]) == 1
    assert not re.search("[\U000f1900-\U000f1917]", str(answer))
