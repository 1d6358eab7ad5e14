"""The start page marks sentences whose meaning gets lost, and few others.

`lost_words.tsv` has sentences of words that the model knows, with their translations, judged by a
reader: the meaning is lost, or the translation is good. Thirty of each were there to choose the
rules by, thirty were held out.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import live
import pytest

LEAST_LOST = 0.8
MOST_GOOD = 0.05
ROWS = [
    line.split("\t")
    for line in Path(__file__)
    .with_name("lost_words.tsv")
    .read_text(encoding="utf-8")
    .splitlines()
]


@pytest.fixture(scope="module")
def marks(
    node: str, wasm: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, object]]:
    """Return what the script of the start page tells of each sentence."""
    script = tmp_path_factory.mktemp("start") / "regard.js"
    script.write_text(live.start_script(), encoding="utf-8")
    program = Path(__file__).with_name("lost_words.mjs")
    lines = json.dumps([line for _, _, line, _ in ROWS])
    done = subprocess.run(
        [node, program, wasm, live.MODEL, script],
        input=lines.encode(),
        capture_output=True,
        check=True,
    )
    marks: list[dict[str, object]] = json.loads(done.stdout)
    return marks


@pytest.mark.parametrize("part", ["tune", "held out"])
def test_lost_sentences_are_marked_and_good_ones_are_not(
    part: str, marks: list[dict[str, object]]
) -> None:
    shares = {}
    for kind in ("lost", "good"):
        of_kind = [
            bool(mark["doubtful"] or mark["unread"])
            for (own, judged, _, _), mark in zip(ROWS, marks, strict=True)
            if (own, judged) == (part, kind)
        ]
        assert len(of_kind) == 30
        shares[kind] = sum(of_kind) / 30
    assert shares["lost"] >= LEAST_LOST
    assert shares["good"] <= MOST_GOOD


def test_the_translations_are_those_that_were_judged(
    marks: list[dict[str, object]],
) -> None:
    assert [mark["text"] for mark in marks] == [text for *_, text in ROWS]


def test_the_lost_word_is_named(marks: list[dict[str, object]]) -> None:
    (mark,) = (
        mark
        for (_, _, line, _), mark in zip(ROWS, marks, strict=True)
        if line == "나는 친구와 집에 간다"
    )
    assert (mark["doubtful"], mark["unread"]) == (False, ["친구와"])
