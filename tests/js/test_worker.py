"""The worker of the live page gives up what nobody waits for: counted are the parts of sentences that
it decodes.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parent / "worker.mjs"
PLAIN = "1 best, attention none"
RANKED = "3 best, attention none"
FIGURE = "3 best, attention all"


def log_of(
    node: str, messages: Sequence[Mapping[str, Any]], parts: Mapping[str, int]
) -> list[str]:
    """Return what the worker decodes and answers; a message arrives after the entry `after`."""
    request = json.dumps({"messages": messages, "parts": parts})
    done = subprocess.run(
        [node, str(PROGRAM)],
        input=request,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    entries: list[str] = json.loads(done.stdout)
    return entries


def translate(number: int, after: str, *sentences: str) -> dict[str, Any]:
    message = {"kind": "translate", "id": number, "direction": 0}
    return {**message, "after": after, "sentences": sentences}


def explain(after: str, sentence: str | None) -> dict[str, Any]:
    message = {"kind": "explain", "direction": 0}
    return {**message, "after": after, "sentence": sentence}


def steps(sentence: str, last: int, count: int, kind: str) -> list[str]:
    """Return the log of decoding a sentence up to one of its parts, and of giving it up there."""
    parts = [f"{part} of {sentence}, {kind}" for part in range(count, last - 1, -1)]
    return [*parts, f"end of {sentence}, {kind}"]


def test_a_newer_text_ends_the_translation_of_an_older_one(node: str) -> None:
    messages = [
        translate(1, "ready", "long", "never"),
        translate(2, f"90 of long, {PLAIN}", "new"),
    ]
    log = log_of(node, messages, {"long": 99, "never": 1, "new": 1})
    long = [entry for entry in log if " of long" in entry]

    assert long == steps("long", 90, 99, PLAIN)
    assert not any("never" in entry for entry in log)
    assert log[-1] == "translated NEW"


def test_of_a_sentence_in_parts_no_attention_is_computed(node: str) -> None:
    messages = [
        translate(1, "ready", "long"),
        explain(f"98 of long, {PLAIN}", "long"),
    ]
    log = log_of(node, messages, {"long": 99})
    is_of_figure = [entry for entry in log if FIGURE in entry]
    ranked = [entry for entry in log if RANKED in entry]

    assert is_of_figure == steps("long", 99, 99, FIGURE)
    assert ranked == steps("long", 1, 99, RANKED)
    assert log.index("translated LONG") < log.index(ranked[0])
    assert log[-1] == "explained LONG"


def test_an_explanation_that_is_not_wanted_any_more_ends(node: str) -> None:
    messages = [
        translate(1, "ready", "long"),
        explain("translated LONG", "long"),
        explain(f"80 of long, {RANKED}", None),
    ]
    log = log_of(node, messages, {"long": 99})
    ranked = [entry for entry in log if RANKED in entry]

    assert ranked == steps("long", 80, 99, RANKED)
    assert "explained LONG" not in log
