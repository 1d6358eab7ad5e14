"""A loss of any span that people have listed for a string is a breach of its contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.text.contracts import breaches

FILE = Path(__file__).parents[2] / "benchmarks" / "strings" / "further.jsonl"
LINES = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
FOREIGN = "bidi"
"""Kind of strings with words of another script, which a translator keeps by its vocabulary."""


@pytest.mark.parametrize(
    "line",
    [line for line in LINES if line["kind"] != FOREIGN],
    ids=lambda line: line["text"],
)
def test_a_lost_span_is_seen(line: dict[str, Any]) -> None:
    text = line["text"]
    for span in line["spans"]:
        lost = text.replace(span.removeprefix("~"), "word", 1)
        assert breaches(text, lost), (span, lost)
    assert not breaches(text, text)
