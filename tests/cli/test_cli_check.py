"""regard check: suspect pairs as a report, a table and JSON."""

from __future__ import annotations

import csv
import json
import os
import pkgutil
import re
import shlex
import signal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import Command, lines_of, write_lines
from helpers.system_marks import posix

from regard.cli import main
from regard.learn.samples import AlignedPair, korean_english


@cache
def sample() -> tuple[AlignedPair, ...]:
    return korean_english(sizes={"train": 600}).splits["train"]


@pytest.fixture
def damaged(regard: Command) -> tuple[str, str]:
    """Write a file of pairs with two that are damaged; return both sides of the first."""
    pairs = [[pair.source, pair.target] for pair in sample()]
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

    values = [
        json.loads(line) for line in regard("check pairs.tsv --format json").lines
    ]
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


STRINGS = (
    ("Delete %s?", "Smazać %s?"),
    ("%1$d of %2$d files", "%1$d z %1$d dataj"),
    ("100%% of it", "100 % z toho"),
)


def test_strings_of_programs_are_judged(regard: Command) -> None:
    write_lines("de.c,1.tsv", map("\t".join, STRINGS))
    call = "check de.c,1.tsv --dialect c"
    values = [*map(json.loads, regard(f"{call} --format json").lines)]
    broken = {v["line"]: v["detail"] for v in values if v["kind"] == "broken string"}
    assert "%2$d" in broken[2]
    assert "%%" in broken[3]
    assert 1 not in broken

    (run,) = json.loads(regard(f"{call} --format sarif").out)["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert {place["region"]["startLine"] for place in places} == {2, 3}
    assert {place["artifactLocation"]["uri"] for place in places} == {"de.c,1.tsv"}
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == rules

    line = regard(f"{call} --format github").lines[-1]
    head, _, message = line.partition("::")[2].partition("::")
    assert head.startswith("warning file=de.c%2C1.tsv,line=3,title=")
    assert "%25%25" in message
    assert "%%" not in line

    assert regard.ended(f"{call} --strict").status == 1
    recognised = regard(call.replace("--dialect c", "--dialect auto")).lines
    assert "3 strings judged as c (recognised from all together)" in recognised
    regard.fails("check de.c,1.tsv --dialect d", because="dialect 'd' is not known")


CATALOGUE = """msgid "Delete %s?"
msgstr "{}"

msgid "Quit"
msgstr "Beenden"
"""
XLIFF = """<xliff version="1.2"><file source-language="en" target-language="de"><body>
<trans-unit id="1">
<source>Open {{name}}</source><target>{} öffnen</target></trans-unit>
</body></file></xliff>
"""


@pytest.fixture
def translated(regard: Command) -> Command:
    """Write three translation files, of which two have a broken string each."""
    for name, text in {
        "de.po": CATALOGUE.format("%s löschen?"),
        "cs.po": CATALOGUE.format("Smazat?"),
        "de.xlf": XLIFF.format("{nam}"),
    }.items():
        Path(name).write_text(text, encoding="utf-8")
    return regard


def test_each_file_of_pairs_is_checked_by_itself(translated: Command) -> None:
    regard = translated
    files = "de.po cs.po de.xlf"
    call = f"check {files} --dialect auto --strict --only 'broken string'"
    places = {("cs.po", 1), ("de.xlf", 2)}

    done = regard.ended(f"{call} --format json")
    values = [*map(json.loads, done.lines)]
    assert {(value["file"], value["line"]) for value in values} == places
    assert done.status == 1
    (run,) = json.loads(regard.ended(f"{call} --format sarif").out)["runs"]
    physical = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places == {
        (place["artifactLocation"]["uri"], place["region"]["startLine"])
        for place in physical
    }
    lines = regard.ended(f"{call} --format github").lines
    heads = [re.match(r"::warning file=(.+),line=(\d+),", line) for line in lines]
    assert {(head[1], int(head[2])) for head in heads if head} == places
    lines = regard.ended(call).lines
    assert [line for line in lines if " suspect" in line] == [
        "de.po: 2 pairs: 0 suspect",
        "cs.po: 2 pairs: 1 suspect",
        "de.xlf: 1 pair: 1 suspect",
    ]
    assert regard(call.replace("cs.po de.xlf", "de.po")).out
    assert regard(call.replace("broken string", "garbled")).out


def test_flags_of_a_catalogue_name_the_dialects_of_its_entries(
    translated: Command,
) -> None:
    flagged = f"#, c-format\n{CATALOGUE.format('Smazat?')}"
    Path("flagged.po").write_text(flagged, encoding="utf-8")
    done = translated("check flagged.po --format github")
    assert "flagged.po: 1 string judged as c (by flag)" in done.err
    (line,) = done.lines
    assert line.startswith("::warning file=flagged.po,line=1,title=broken string::")
    lines = translated("check flagged.po cs.po --dialect auto").lines
    assert "1 string judged as c (by flag)" in lines
    assert "1 string judged as plain (recognised from all together)" in lines
    assert "2 strings judged as c (recognised from all together)" in lines


def test_all_causes_of_several_files_are_named(translated: Command) -> None:
    regard = translated
    write_lines("a.de", ["Beenden"])
    for name in ("bad.xlf", "worse.xlf"):
        write_lines(name, ["<xliff"])
    causes = ["bad.xlf: damaged", "worse.xlf: damaged"]
    regard.fails("check bad.xlf de.po worse.xlf", because=causes, status=1)
    regard.fails("check de.po a.de", because="no file of pairs: a.de")
    regard.fails("check de.po cs.po --suspects a.tsv", because="check each alone")
    regard.fails("check de.po --only broken", because="broken string, several")


def test_the_hook_of_pre_commit_is_a_command_that_finds_broken_strings(
    translated: Command,
) -> None:
    regard = translated
    yaml = pytest.importorskip("yaml")
    root = Path(__file__).parents[2]
    text = (root / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    (hook,) = yaml.safe_load(text)
    program, *words = [*shlex.split(hook["entry"]), *hook["args"]]
    names = ["de.po", "cs.po", "de.xlf"]
    assert program == "regard"
    assert hook["id"] == "regard-check"
    assert hook["language"] == "python"
    assert all(re.search(hook["files"], f"locale/{name}") for name in names)
    assert not re.search(hook["files"], "package.json")
    done = regard.ended(*words, *names)
    assert done.status == 1
    assert "line 1: Delete %s?" in done.out
    assert regard(*words, "de.po").status == 0


MOMENTS = [
    "regard.data.checking.pair_checker.PairChecker.learn",
    "regard.data.checking.pair_checker.PairChecker.check",
    "regard.data.checking.check.where_translations_stand",
    "regard.data.checking.check.CheckReport.write",
    "regard.common.atomic._private_folder",
    "pathlib.Path.write_bytes",
    "os.replace",
]


def _killed(command: str, call: str, stage: str) -> bool:
    """Run a command in a forked process that is killed at a call; return whether it was."""
    child = os.fork()
    if child == 0:
        try:
            owner, _, name = call.rpartition(".")
            holder = pkgutil.resolve_name(owner)
            make = getattr(holder, name)

            def die(*arguments: Any, **options: Any) -> None:
                if stage == "amid" and name == "write_bytes":
                    make(arguments[0], arguments[1][: len(arguments[1]) // 2])
                elif stage == "after":
                    make(*arguments, **options)
                os.kill(os.getpid(), signal.SIGKILL)

            setattr(holder, name, die)
            main(shlex.split(command))
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_threads_change_nothing(regard: Command, damaged: tuple[str, str]) -> None:
    write_lines("pairs.tsv", lines_of("pairs.tsv")[:220])
    command = "check pairs.tsv --suspects suspects.tsv"
    report = regard(command).out
    table = Path("suspects.tsv").read_bytes()
    assert regard(f"{command} --threads 2").out == report
    assert Path("suspects.tsv").read_bytes() == table
    values = regard("check pairs.tsv --format json").out
    assert regard("check pairs.tsv --format json --threads 1").out == values


@posix
@pytest.mark.system
# Fork beside idle threads.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("stage", ["before", "amid", "after"])
def test_a_killed_check_leaves_no_half_file_and_begins_again(
    regard: Command, damaged: tuple[str, str], stage: str
) -> None:
    write_lines("pairs.tsv", lines_of("pairs.tsv")[:110])
    command = "check pairs.tsv --suspects suspects.tsv"
    report = regard(command).out
    table = Path("suspects.tsv").read_bytes()
    values = regard("check pairs.tsv --format json").out

    for call in MOMENTS if stage != "amid" else ["pathlib.Path.write_bytes"]:
        Path("suspects.tsv").write_bytes(b"earlier")
        assert _killed(command, call, stage), call
        assert Path("suspects.tsv").read_bytes() in (b"earlier", table), call
        assert regard(command).out == report, call
        assert Path("suspects.tsv").read_bytes() == table, call
        others = {*os.listdir()} - {"pairs.tsv", "suspects.tsv"}
        kept = {name for name in others if re.fullmatch(r"suspects-\d+\.tsv", name)}
        assert others == kept, call
        assert {Path(name).read_bytes() for name in kept} <= {b"earlier"}, call
    assert regard("check pairs.tsv --format json").out == values
