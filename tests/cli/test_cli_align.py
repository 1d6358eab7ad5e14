"""regard align: word alignments of sentence pairs, and the head they come from."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command import Command
from systems import posix

from regard.attention.alignment import SYMMETRIES
from regard.data.word_alignments import read_gold


@pytest.fixture
def run(model: Path, tmp_path: Path) -> Path:
    """Copy a model folder, since --choose writes into it."""
    return Path(
        shutil.copytree(model, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    )


@pytest.fixture
def pairs(data: Path) -> list[object]:
    return ["--source", data / "test.ko", "--target", data / "test.en"]


def test_links_are_printed_line_by_line(
    regard: Command, run: Path, data: Path, pairs: list[object]
) -> None:
    lines = [
        (data / f"test.{side}").read_text(encoding="utf-8").splitlines() for side in ("ko", "en")
    ]
    links = regard("align", run, *pairs, "--quiet").lines
    assert len(links) == len(lines[0])
    for korean, english, line in zip(*lines, links, strict=True):
        word_links = [tuple(map(int, pair.split("-"))) for pair in line.split()]
        assert sorted(t for _, t in word_links) == list(range(len(english.split()))), (
            "each target word has one link"
        )
        assert all(0 <= s < len(korean.split()) for s, _ in word_links)
    assert regard("align", run, *pairs, "--output", "links").out == ""
    assert Path("links").read_text(encoding="utf-8").splitlines() == links


def test_links_count_the_words_of_the_files(
    regard: Command, run: Path, data: Path, pairs: list[object]
) -> None:
    korean, english = (
        (data / f"test.{side}").read_text(encoding="utf-8").splitlines() for side in ("ko", "en")
    )
    links = [read_gold(line)[0] for line in regard("align", run, *pairs, "--quiet").lines]
    given = {
        "ko": [line.replace(" ", "\u00a0", 1) for line in korean],
        "en": [f"\u200b {line}" for line in english],
    }
    for side, lines in given.items():
        Path(side).write_text("\n".join(lines) + "\n", encoding="utf-8")
    sides = ["--source", "ko", "--target", "en"]
    expected = [sorted({(max(0, s - 1), t + 1) for s, t in row}) for row in links]
    assert regard("align", run, *sides, "--quiet").lines == [
        " ".join(f"{s}-{t}" for s, t in row) for row in expected
    ]
    for more in ([], ["--reverse", run, "--symmetry", "grow-diag"]):
        gold = regard("align", run, *sides, *more).lines
        Path("gold").write_text("\n".join(gold) + "\n", encoding="utf-8")
        assert _error_rate(regard("align", run, *sides, *more, "--gold", "gold").lines[0]) == 0
    count = len(korean[0].split()) - 1
    Path("gold").write_text("\n".join([f"{count}-0", *gold[1:]]) + "\n", encoding="utf-8")
    done = regard.ended("align", run, *sides, "--gold", "gold")
    assert f"the source has {count} words, 0 to {count - 1}" in done.causes[0]


def test_lines_that_others_may_count_otherwise_are_named(
    regard: Command, run: Path, data: Path, pairs: list[object]
) -> None:
    lines = (data / "test.ko").read_text(encoding="utf-8").splitlines()
    uneven = [f" {lines[0]}", *lines[1:3], lines[3].replace(" ", "  "), *lines[4:]]
    Path("ko").write_text("\n".join(uneven) + "\n", encoding="utf-8")
    done = regard("align", run, "--source", "ko", "--target", data / "test.en")
    assert (
        "ko: 2 lines have leading or doubled spaces, or tabs, between which links count no words (lines 1, 4)"
        in done.err
    )
    assert done.lines == regard("align", run, *pairs, "--quiet").lines


def test_splitting_the_pairs_into_chunks_changes_nothing(
    regard: Command, run: Path, data: Path, pairs: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["align", run, *pairs, "--reverse", run]
    whole = [regard(*arguments, *more).out for more in ([], ["--gold", data / "test.align"])]
    monkeypatch.setattr("regard.cli.align.PAIRS_AT_ONCE", 5)
    assert [
        regard(*arguments, *more).out for more in ([], ["--gold", data / "test.align"])
    ] == whole


def test_the_chosen_head_is_stored_and_used(
    regard: Command, run: Path, data: Path, pairs: list[object]
) -> None:
    chosen = regard("align", run, *pairs, "--gold", data / "test.align", "--choose")
    assert "chosen by gold links, AER" in chosen.err
    best, last = chosen.lines
    assert best.startswith("AER ")
    assert last.endswith("last layer, mean of heads")
    assert float(best.split()[1].rstrip("%")) <= float(last.split()[1].rstrip("%"))
    stored = json.loads((run / "alignment.json").read_text(encoding="utf-8"))
    assert set(stored) == {"layer", "head", "shifted", "symmetry", "with_reverse", "seal"}
    assert regard("align", run, *pairs, "--gold", data / "test.align").lines == chosen.lines, (
        "the stored choice is used"
    )


def test_without_gold_links_agreement_chooses_the_head(
    regard: Command, run: Path, data: Path, pairs: list[object]
) -> None:
    assert (
        "chosen by agreement of its links from source to target"
        in regard("align", run, *pairs, "--choose").err
    )
    backwards = Path(shutil.copytree(run, "backwards"))
    (backwards / "alignment.json").unlink()
    done = regard("align", run, *pairs, "--reverse", backwards, "--choose", "--output", "links")
    assert "chosen by agreement of both directions" in done.err
    assert (backwards / "alignment.json").is_file()
    assert len(Path("links").read_text().splitlines()) == 12
    intersection = regard(
        "align", run, *pairs, "--reverse", backwards, "--symmetry", "intersection"
    ).lines
    more = regard("align", run, *pairs, "--reverse", backwards, "--symmetry", "union").lines
    assert all(
        set(few.split()) <= set(many.split()) for few, many in zip(intersection, more, strict=True)
    )


def test_two_models_are_chosen_together(
    regard: Command, run: Path, data: Path, pairs: list[object]
) -> None:
    backwards = Path(shutil.copytree(run, "backwards"))
    gold = ["--gold", data / "test.align"]
    arguments = ["align", run, *pairs, "--reverse", backwards, *gold]
    chosen = regard(*arguments, "--choose")
    stored = [
        json.loads((model / "alignment.json").read_text(encoding="utf-8"))
        for model in (run, backwards)
    ]
    assert stored[0]["with_reverse"] == stored[1]["with_reverse"]
    assert chosen.lines[0].endswith(f", {stored[0]['with_reverse']}")
    assert regard(*arguments).lines == chosen.lines, "the stored choice is used"
    error_rates = {
        symmetry: _error_rate(regard(*arguments, "--symmetry", symmetry).lines[0])
        for symmetry in SYMMETRIES
    }
    assert (
        _error_rate(chosen.lines[0])
        == min(error_rates.values())
        == error_rates[stored[0]["with_reverse"]]
    )
    assert regard(*arguments, "--symmetry", "union").lines[0].endswith(", union"), (
        "the printed name says what was computed"
    )


def _error_rate(line: str) -> float:
    return float(line.split()[1].rstrip("%"))


def test_bad_files_are_refused(regard: Command, transformer: Path, data: Path) -> None:
    Path("short").write_text("하나\n", encoding="utf-8")
    Path("bad").write_text("0-0 1:1\n", encoding="utf-8")
    uneven = "test.en has 12 lines and short has 1; give files whose lines belong together"
    regard.fails(
        "align",
        transformer,
        "--source",
        "short",
        "--target",
        data / "test.en",
        status=1,
        because=uneven,
    )
    sides = ["--source", "short", "--target", "short"]
    regard.fails(
        "align",
        transformer,
        *sides,
        "--gold",
        "bad",
        status=1,
        because="bad, line 1: wanted pairs such as 0-0",
    )
    regard.fails(
        "align",
        transformer,
        *sides,
        "--gold",
        "",
        status=1,
        because=".: is a folder; give a text file in it",
    )


def test_pairs_with_an_empty_side_have_no_links(
    regard: Command, run: Path, data: Path, pairs: list[object]
) -> None:
    korean, english, gold = (
        (data / f"test.{kind}").read_text(encoding="utf-8").splitlines()
        for kind in ("ko", "en", "align")
    )
    links = regard("align", run, *pairs, "--quiet").lines
    blank = {
        "ko": ["", *korean[:3], "", korean[3], korean[4]],
        "en": [*english[:1], *english[:3], " ", english[3], ""],
    }
    for side, lines in blank.items():
        Path(side).write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("gold").write_text("\n".join(["", *gold[:3], "", gold[3], ""]) + "\n", encoding="utf-8")
    sides = ["--source", "ko", "--target", "en", "--quiet"]
    reverse = ["--reverse", run]
    assert regard("align", run, *sides).lines == ["", *links[:3], "", links[3], ""]
    both = regard("align", run, *sides, *reverse).lines
    assert [both[number] for number in (0, 4, 6)] == [""] * 3
    for more in ([], reverse, ["--gold", "gold"], ["--gold", "gold", *reverse]):
        regard("align", run, *sides, *more, "--choose")
    Path("blank").write_text("\n\n", encoding="utf-8")
    assert regard("align", run, "--source", "blank", "--target", "blank", "--quiet").out == "\n\n"


def test_gold_links_between_missing_words_are_refused(
    regard: Command, run: Path, data: Path, pairs: list[object]
) -> None:
    lines = (data / "test.align").read_text(encoding="utf-8").splitlines()
    Path("gold").write_text("\n".join(["99-0", *lines[1:]]) + "\n", encoding="utf-8")
    done = regard.ended("align", run, *pairs, "--gold", "gold", "--choose")
    assert "gold, line 1: 99-0 names source word 99" in done.causes[0]
    assert not (run / "alignment.json").exists()


@posix
def test_a_symbolic_link_is_kept_and_a_pipe_is_written_to(
    regard: Command, run: Path, pairs: list[object]
) -> None:
    links = regard("align", run, *pairs, "--quiet").lines
    Path("real").write_text("before")
    Path("link").symlink_to("real")
    regard("align", run, *pairs, "--output", "link")
    assert Path("link").is_symlink()
    assert Path("real").read_text(encoding="utf-8").splitlines() == links
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as reader:
        received = reader.submit(Path("pipe").read_text, encoding="utf-8")
        regard("align", run, *pairs, "--output", "pipe")
        assert received.result().splitlines() == links
    assert Path("pipe").is_fifo()
