"""regard align: word alignments of sentence pairs, and the head they come from."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
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
        pairs = [pair.split("-") for pair in line.split()]
        linked = sorted(int(target) for _, target in pairs)
        assert linked == list(range(len(english.split()))), (
            "each target word has one link"
        )
        assert all(int(source) < len(korean.split()) for source, _ in pairs)

    monkeypatch.setattr("regard.cli.align.PAIRS_AT_ONCE", 5)
    Path("real").touch()
    Path("link").symlink_to("real")
    assert regard(f"align run {SIDES} --output link").out == ""
    assert Path("link").is_symlink()
    assert lines_of("real") == links

    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as reader:
        received = reader.submit(lines_of, "pipe")
        regard(f"align run {SIDES} --output pipe")
        assert received.result() == links


def test_links_count_the_words_of_the_files(regard: Command, run: Path) -> None:
    """A no-break space parts no words, and a space of no width is a word."""
    links = [read_gold(line)[0] for line in regard(f"align run {SIDES} --quiet").lines]
    korean = [line.replace(" ", "\u00a0", 1) for line in lines_of("ko")]
    write_lines("ko", korean)
    write_lines("en", [f"\u200b {line}" for line in lines_of("en")])
    expected = [sorted({(max(0, s - 1), t + 1) for s, t in row}) for row in links]
    counted = [
        read_gold(line)[0] for line in regard(f"align run {SIDES} --quiet").lines
    ]
    assert [sorted(row) for row in counted] == expected

    for more in ("", "--reverse run --symmetry grow-diag"):
        gold = regard(f"align run {SIDES} {more}").lines
        write_lines("gold", gold)
        assert (
            _error_rate(regard(f"align run {SIDES} {more} --gold gold").lines[0]) == 0
        )

    count = len(korean[0].split(" "))
    write_lines("gold", [f"{count}-0", *gold[1:]])
    because = f"gold, line 1: {count}-0 names source word {count}, and the source has {count} words"
    regard.fails(f"align run {SIDES} --gold gold --choose", status=1, because=because)


def test_lines_that_others_may_count_otherwise_are_named(
    regard: Command, run: Path
) -> None:
    links = regard(f"align run {SIDES} --quiet").lines
    first, *others, last = lines_of("ko")
    write_lines("ko", [f" {first}", *others, last.replace(" ", "  ")])
    done = regard(f"align run {SIDES}")
    assert (
        "ko: 2 lines have leading or doubled spaces, or tabs, between which" in done.err
    )
    assert done.lines == links


def test_the_chosen_head_is_stored_and_used(regard: Command, run: Path) -> None:
    chosen = regard(f"align run {SIDES} --gold align --choose")
    assert "chosen by gold links, AER" in chosen.err

    best, last = chosen.lines
    assert last.endswith("last layer, mean of heads")
    assert _error_rate(best) <= _error_rate(last)

    stored = json.loads(text_of("run/alignment.json"))
    assert set(stored) == {
        "layer",
        "head",
        "shifted",
        "symmetry",
        "with_reverse",
        "seal",
    }
    assert regard(f"align run {SIDES} --gold align").lines == chosen.lines

    done = regard(f"align run {SIDES} --choose")
    assert "chosen by agreement of its links from source to target" in done.err


def test_two_models_are_chosen_together(regard: Command, run: Path) -> None:
    shutil.copytree(run, "back")
    both = f"align run {SIDES} --reverse back"
    done = regard(f"{both} --choose --output links")
    assert "chosen by agreement of both directions" in done.err
    assert len(lines_of("links")) == len(lines_of("ko"))

    few = regard(f"{both} --symmetry intersection").lines
    many = regard(f"{both} --symmetry union").lines
    assert all({*a.split()} <= {*b.split()} for a, b in zip(few, many, strict=True))

    chosen = regard(f"{both} --gold align --choose")
    name = json.loads(text_of("run/alignment.json"))["with_reverse"]
    assert name == json.loads(text_of("back/alignment.json"))["with_reverse"]
    assert chosen.lines[0].endswith(f", {name}")
    assert regard(f"{both} --gold align").lines == chosen.lines, (
        "the stored choice is used"
    )

    rates = {}
    for symmetry in SYMMETRIES:
        line = regard(f"{both} --gold align --symmetry {symmetry}").lines[0]
        assert line.endswith(f", {symmetry}")
        rates[symmetry] = _error_rate(line)
    assert _error_rate(chosen.lines[0]) == min(rates.values()) == rates[name]


def test_bad_files_are_refused(regard: Command, transformer: Path) -> None:
    write_lines("short", ["하나"])
    write_lines("bad", ["0-0 1:1"])
    for files, because in (
        (
            "--source short --target en",
            "en has 12 lines and short has 1; give files whose",
        ),
        (
            "--source short --target short --gold bad",
            "bad, line 1: wanted pairs such as 0-0",
        ),
        (
            "--source short --target short --gold ''",
            ".: is a folder; give a text file in it",
        ),
    ):
        regard.fails(f"align {transformer} {files}", status=1, because=because)


def test_pairs_with_an_empty_side_have_no_links(regard: Command, run: Path) -> None:
    links = regard(f"align run {SIDES} --quiet").lines
    korean, english, gold = (lines_of(kind)[:4] for kind in ("ko", "en", "align"))
    write_lines("ko", ["", *korean[:3], "", korean[3], korean[0]])
    write_lines("en", [english[0], *english[:3], " ", english[3], ""])
    write_lines("gold", ["", *gold[:3], "", gold[3], ""])
    assert regard(f"align run {SIDES} --quiet").lines == [
        "",
        *links[:3],
        "",
        links[3],
        "",
    ]

    both = regard(f"align run {SIDES} --reverse run --quiet").lines
    assert [both[0], both[4], both[6]] == ["", "", ""]

    for more in ("--reverse run", "--gold gold"):
        regard(f"align run {SIDES} {more} --choose")

    write_lines("blank", ["", ""])
    assert regard("align run --source blank --target blank --quiet").out == "\n\n"
