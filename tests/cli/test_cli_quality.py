"""regard calibrate, and the options of regard translate about quality."""

from __future__ import annotations

import json
from pathlib import Path

from command import Command
from helpers.calibrated_model import calibrated
from helpers.small_models import SENTENCES, folder

from regard.evaluation.quality_fit import LEAST


def test_lines_below_a_quality_stand_as_they_were(
    tmp_path: Path, regard: Command
) -> None:
    model = calibrated(tmp_path / "run")
    source = tmp_path / "lines.txt"
    source.write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    done = regard("translate", model, source, "--format", "jsonl", "--report")
    rows = [json.loads(row) for row in done.out.splitlines()]
    qualities = sorted(row["quality"] for row in rows)
    assert "can be used as they are" in done.err
    middle = (qualities[0] + qualities[-1]) / 2
    assert qualities[0] < middle < qualities[-1]
    done = regard(
        "translate", model, source, "--format", "jsonl", "--refuse-below", middle
    )
    for line, row, before in zip(
        SENTENCES, map(json.loads, done.out.splitlines()), rows, strict=True
    ):
        is_refused = before["quality"] < middle
        assert row["broken"] == is_refused
        assert row["text"] == (line.strip() if is_refused else before["text"])
    plain = folder(tmp_path / "plain")
    regard.fails(
        "translate", plain, source, "--refuse-below", 0.5, because="is not calibrated"
    )


def test_what_was_not_translated_is_not_refused(
    tmp_path: Path, regard: Command
) -> None:
    """An address has no quality, and needs none."""
    model = calibrated(tmp_path / "run")
    page = tmp_path / "a.html"
    page.write_text('<p>나는 간다</p><input placeholder="you@example.org">', "utf-8")
    options = ("--attributes", "--refuse-below", 1, "--strict", "--output", "b.html")
    done = regard.ended("translate", model, page, *options)
    assert done.status == 1
    assert "1 string is broken, too long or refused" in done.err
    assert Path("b.html").read_text("utf-8") == page.read_text("utf-8")


def test_calibration_by_the_command(tmp_path: Path, regard: Command) -> None:
    model = folder(tmp_path / "run")
    before = (model / "config.json").read_bytes()
    pairs = tmp_path / "pairs.tsv"
    rows = [f"{SENTENCES[i % len(SENTENCES)]} {i}\tI go {i}" for i in range(60)]
    pairs.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    regard.fails(
        "calibrate",
        model,
        "--pairs",
        pairs,
        "--columns",
        "1,2",
        because=f"{LEAST} or more",
    )
    assert (model / "config.json").read_bytes() == before
    regard.fails("calibrate", model, because="give one or the other")
