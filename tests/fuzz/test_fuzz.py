"""A small part of the fuzzer in every run of the tests, and a larger one in the slow tests; `make
fuzz` runs ten thousand cases.
"""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path

import pytest
from cached import FolderCache

pytest.importorskip(
    "resource", reason="the fuzzer forks processes and limits them, as on Linux and macOS"
)
from fuzz import cases, fuzzer, planted, process
from fuzz.cases import KINDS, Case, Judge
from fuzz.material import Material

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def material(cached: FolderCache) -> Material:
    """Make the folders to attack once, until the sources change."""
    return fuzzer.material(cached.in_process("fuzz", fuzzer.material))


@pytest.fixture(scope="module")
def judge(material: Material, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(material, tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("count", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_every_kind_is_drawn(material: Material, count: int) -> None:
    names = {fuzzer.draw(number, 1, material).name for number in range(count)}
    assert len(names) > count * 5 // 6
    assert len(KINDS) == len(fuzzer.SHARES) > 8


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("def main(arguments): raise RuntimeError('an error')", "internal"),
        (
            "import faulthandler, os\ndef main(arguments): faulthandler.disable(); os.abort()",
            "internal",
        ),
        ("import sys\ndef main(arguments): sys.exit(1)", "internal"),  # without a sentence
        (
            "import sys\ndef main(arguments): print('regard: no', file=sys.stderr); sys.exit(2)",
            "refused",
        ),
        (
            "import sys\ndef main(arguments): print('other'); print('warning: hm', file=sys.stderr); sys.exit(0)",
            "aloud",
        ),
        ("import sys\ndef main(arguments): print('other'); sys.exit(0)", "silent"),
        ("import sys\ndef main(arguments): sys.exit(0)", "unchanged"),
        ("import sys\ndef main(arguments): print('untrue'); sys.exit(0)", "wrong"),
        ("def main(arguments): open('planted-code-was-run', 'w').close()", "executed"),
        ("def main(arguments): open('../outside/secret', 'a').write('x')", "followed"),
        ("def main(arguments): print(open('../outside/secret').read())", "followed"),
        (
            "def main(arguments): open('out', 'w').write(open('../outside/secret').read())",
            "followed",
        ),
        ("import time\ndef main(arguments):\n  while time.process_time() < 600: pass", "slow"),
    ],
)
def test_verdicts(
    code: str, verdict: str, material: Material, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fuzzer sees what it looks for, in commands that do it."""
    own: dict[str, object] = {}
    exec(code, own)
    monkeypatch.setattr("regard.cli.main", own["main"])
    monkeypatch.setattr(cases, "SLOW", 0.5)
    monkeypatch.setattr(process, "PROCESSOR_SECONDS", 1)
    judge.references["translator:none"] = (b"",)
    result = judge(
        Case(
            "deliberate", [], reference="translator:none", is_right=lambda out: b"untrue" not in out
        )
    )
    assert result.verdict == verdict, result.outcome


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("import sys\ndef main(arguments): print('kept'); sys.exit(0)", "done"),
        ("import sys\ndef main(arguments): print('lost'); sys.exit(0)", "silent"),
        (
            "import sys\ndef main(arguments): print('lost'); print('warning: hm', file=sys.stderr); sys.exit(0)",
            "aloud",
        ),
        (
            "import sys\ndef main(arguments): print('regard: no', file=sys.stderr); sys.exit(2)",
            "wrong",
        ),
    ],
)
def test_verdicts_on_promises(
    code: str, verdict: str, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is lost has to be said, and what is known may not be refused."""
    own: dict[str, object] = {}
    exec(code, own)
    monkeypatch.setattr("regard.cli.main", own["main"])
    result = judge(Case("deliberate", [], is_kept=lambda out: b"kept" in out, is_known=True))
    assert result.verdict == verdict, result.outcome


def test_garbage_of_the_tests_is_not_collected_in_a_fork(tmp_path: Path) -> None:
    """A translator of CTranslate2 that is garbage would join its threads there, and abort the
    command.
    """

    class Garbage:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            (tmp_path / str(os.getpid())).touch()

    gc.disable()
    try:
        Garbage()
        assert process.run(["--version"], tmp_path, before=gc.collect).status == 0
    finally:
        gc.enable()
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == [str(os.getpid())]


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=pytest.mark.slow if first else ()) for first in range(0, 48, 6)],
)
def test_no_case_goes_badly(first: int, material: Material, judge: Judge) -> None:
    """Six cases by default, 42 more in the slow tests; `make fuzz` runs thousands, with other
    seeds.
    """
    results = [judge(fuzzer.draw(number, 0, material)) for number in range(first, first + 6)]
    bad = [result for result in results if result.verdict in cases.BAD and result.verdict != "slow"]
    assert [(result.case.name, result.verdict, result.outcome) for result in bad] == [], (
        "make fuzz judges seconds too"
    )


PLANTED = [name for name, generator in KINDS.items() if generator.__module__ == planted.__name__]


@pytest.mark.parametrize("name", PLANTED)
def test_nothing_planted_goes_badly(name: str, material: Material, judge: Judge) -> None:
    """One case of each kind of what lies where a command works."""
    result = judge(KINDS[name](random.Random(f"default {name}"), material))
    assert result.verdict not in {*cases.BAD} - {"slow"}, (result.case.name, result.outcome)
