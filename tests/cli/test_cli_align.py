"""regard align: word alignments of sentence pairs, and the head they come from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command import Command, lines_of, text_of, write_lines
from helpers.system_marks import posix

from regard.attention.alignment import SYMMETRIES
from regard.data.word_alignments import read_gold

SIDES = "--source ko --target en"


@pytest.fixture(autouse=True)
def _pairs(regard: Command, data: Path) -> None:
    """Write both sides of the pairs, and their gold links, into the current folder."""
    for kind in ("ko", "en", "align"):
        write_lines(kind, lines_of(data / f"test.{kind}"))


def _error_rate(line: str) -> float:
    return float(line.split()[1].rstrip("%"))


@posix
def test_links_are_printed_or_written_line_by_line(
    regard: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = regard(f"align run {SIDES} --quiet").lines
    for korean, english, line in zip(
        lines_of("ko"), lines_of("en"), links, strict=True
    ):
        pairs = [tuple(map(int, pair.split("-"))) for pair in line.split()]
        assert pairs == sorted(set(pairs)), "each link once"
        assert pairs
        assert all(source < len(korean.split()) for source, _ in pairs)
        assert all(target < len(english.split()) for _, target in pairs)

    monkeypatch.setattr("regard.cli.align.PAIRS_AT_ONCE", 5)
    Path("real").touch()
    Path("link").symlink_to("real")
    assert regard(f"align run {SIDES} --output link").out == ""
    assert Path("link").is_symlink()
    assert lines_of("real") == links


def test_links_count_the_words_of_the_files(regard: Command, run: Path) -> None:
    """A no-break space parts no words, and a space of no width is a word."""
    links = [read_gold(line)[0] for line in regard(f"align run {SIDES} --quiet").lines]
    korean = [line.replace(" ", "\u00a0", 1) for line in lines_of("ko")]
    write_lines("ko", korean)
    write_lines("en", [f"\u200b {line}" for line in lines_of("en")])
    counted = regard(f"align run {SIDES} --quiet").lines
    for row, line in zip(links, counted, strict=True):
        moved = {(max(0, source - 1), target + 1) for source, target in row}
        assert sorted(read_gold(line)[0]) == sorted(moved)

    both = f"align run {SIDES} --reverse run --symmetry grow-diag"
    gold = regard(both).lines
    write_lines("gold", gold)
    assert _error_rate(regard(f"{both} --gold gold").lines[0]) == 0

    count = len(korean[0].split(" "))
    write_lines("gold", [f"{count}-0", *gold[1:]])
    because = f"gold, line 1: {count}-0 names source word {count}, and the source has {count} words"
    regard.fails(f"align run {SIDES} --gold gold --choose", status=1, because=because)


def test_two_models_are_chosen_together(regard: Command, run: Path) -> None:
    shutil.copytree(run, "back")
    both = f"align run {SIDES} --reverse back"
    done = regard(f"{both} --choose --output links")
    assert "chosen by agreement of both directions" in done.err
    assert len(lines_of("links")) == len(lines_of("ko"))

    few = regard(f"{both} --symmetry intersection").lines
    many = regard(f"{both} --symmetry union").lines
    assert all({*a.split()} <= {*b.split()} for a, b in zip(few, many, strict=True))

    chosen = regard(f"{both} --gold align --choose").lines
    name = json.loads(text_of("run/alignment.json"))["with_reverse"]
    assert name == json.loads(text_of("back/alignment.json"))["with_reverse"]
    assert chosen[0].endswith(f", {name}")
    assert regard(f"{both} --gold align").lines == chosen, "the stored choice is used"

    for symmetry in SYMMETRIES:
        (line, _) = regard(f"{both} --gold align --symmetry {symmetry}").lines
        assert _error_rate(chosen[0]) <= _error_rate(line)


def test_pairs_with_an_empty_side_have_no_links(regard: Command, run: Path) -> None:
    """Lines that others may count otherwise are named, and have the same links."""
    links = regard(f"align run {SIDES} --quiet").lines
    korean, english, gold = (lines_of(kind)[:4] for kind in ("ko", "en", "align"))
    spaced = korean[3].replace(" ", "  ")
    write_lines("ko", ["", f" {korean[0]}", *korean[1:3], "", spaced, korean[0]])
    write_lines("en", [english[0], *english[:3], " ", english[3], ""])
    write_lines("gold", ["", *gold[:3], "", gold[3], ""])
    done = regard(f"align run {SIDES}")
    assert done.lines == ["", *links[:3], "", links[3], ""]
    assert "ko: 2 lines have leading or doubled spaces, or tabs" in done.err

    both = regard(f"align run {SIDES} --reverse run --quiet").lines
    assert [both[0], both[4], both[6]] == ["", "", ""]

    for more, basis in (
        ("", "agreement of its links from source to target"),
        ("--reverse run", "agreement of both directions"),
        ("--gold gold", "gold links, AER"),
    ):
        chosen = regard(f"align run {SIDES} {more} --choose")
        assert f"chosen by {basis}" in chosen.err

    best, last = chosen.lines
    assert last.endswith("last layer, mean of heads")
    assert _error_rate(best) <= _error_rate(last)
    assert regard(f"align run {SIDES} --gold gold").lines == chosen.lines

    write_lines("blank", ["", ""])
    assert regard("align run --source blank --target blank --quiet").out == "\n\n"


def test_pairs_of_a_table_have_the_links_of_two_files(
    regard: Command, run: Path
) -> None:
    links = regard(f"align run {SIDES} --quiet").lines
    rows = zip(lines_of("en"), lines_of("ko"), strict=True)
    write_lines(
        "table.csv",
        ["en;key;ko", *(f"{en};k.{i};{ko}" for i, (en, ko) in enumerate(rows))],
    )
    done = regard("align run --pairs table.csv")
    assert done.lines == links
    assert "columns 3 and 1 of 3 were read, such as" in done.err
    assert regard("align run --pairs table.csv --columns ko,1 --quiet").lines == links
    scores = regard(f"align run {SIDES} --gold align").lines
    assert regard("align run --pairs table.csv --gold align").lines == scores
    write_lines("gold", ["0-0"])
    regard.fails(
        "align run --pairs table.csv --gold gold",
        status=1,
        because="gold: has 1 line for",
    )
    for options in ("", "--source ko", f"{SIDES} --pairs table.csv"):
        regard.fails(
            f"align run {options}", because="give --source and --target, or --pairs"
        )
