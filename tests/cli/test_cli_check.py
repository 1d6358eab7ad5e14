"""regard check: suspect pairs as a report, a table and JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from command import Command, write_lines

from regard.learn.samples import korean_english


@pytest.fixture
def damaged(regard: Command) -> tuple[str, str]:
    """Write a file of pairs with two that are damaged; return both sides of the first."""
    sample = korean_english(sizes={"train": 600})
    pairs = [[pair.source, pair.target] for pair in sample.splits["train"]]
    source, target = pairs[99]
    pairs[99] = [target, source]
    pairs[199][1] = "#REF!"
    write_lines("pairs.tsv", ["\t".join(pair) for pair in pairs])
    return source, target


def test_suspects_are_told_with_lines_and_proposals(
    regard: Command, damaged: tuple[str, str]
) -> None:
    done = regard("check pairs.tsv --suspects suspects.csv")
    assert done.lines[0].startswith("600 pairs: ")
    assert any(line.startswith("swapped: 1 pair repaired") for line in done.lines)
    assert any("line 200: " in line and "#REF!" in line for line in done.lines)
    assert "wrote suspects.csv (" in done.err

    with Path("suspects.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {row["kinds"]: row for row in csv.DictReader(file)}
    swapped = rows["swapped"]
    assert swapped["line"] == "100"
    assert (swapped["proposed source"], swapped["proposed target"]) == damaged
    assert rows["spreadsheet error"]["line"] == "200"

    values = [json.loads(line) for line in regard("check pairs.tsv --json").lines]
    by_kind = {value["kind"]: value for value in values}
    assert by_kind["swapped"]["proposal"] == list(damaged)
    assert by_kind["swapped"]["action"] == "repaired"
    assert by_kind["spreadsheet error"]["action"] == "dropped"
    assert len(values) < 0.03 * 600


def test_a_line_that_is_lost_is_named(
    regard: Command, damaged: tuple[str, str]
) -> None:
    lines = Path("pairs.tsv").read_text(encoding="utf-8").splitlines()
    sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
    write_lines("source", sources[:-1])
    write_lines("target", (*targets[:300], *targets[301:]))
    shown = regard("check source target").lines[1]

    assert shown.endswith("translations stand 1 line above")
    assert abs(int(shown.split()[1]) - 301) <= 30


def test_a_model_that_has_learnt_nothing_does_not_judge(
    regard: Command, transformer: Path, data: Path
) -> None:
    call = f"check {data}/train.ko {data}/train.en --model {transformer}"
    regard.fails(call, because="hardly trained", status=1)
    regard.fails("check pairs.tsv --reverse run", because="only with --model")
