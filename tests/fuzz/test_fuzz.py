"""A small part of the fuzzer in every run of the tests, and a larger one in the slow tests; `make
fuzz` runs ten thousand cases.
"""

from __future__ import annotations

import random
import sys

import pytest
from helpers.cached_folders import FolderCache

pytest.importorskip(
    "resource",
    reason="the fuzzer forks processes and limits them, as on Linux and macOS",
)
from fuzz import cases, fuzzer, planted
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


PROGRAMS = {
    "raise RuntimeError('an error')": "internal",
    "sys.exit(1)": "internal",  # without a sentence
    "print('regard: no', file=sys.stderr); sys.exit(2)": "refused",
    "print('other'); print('warning: hm', file=sys.stderr)": "aloud",
    "print('other')": "silent",
    "pass": "unchanged",
    "print('untrue')": "wrong",
    "open('planted-code-was-run', 'w').close()": "executed",
    "open('../outside/secret', 'a').write('x')": "followed",
    "print(open('../outside/secret').read())": "followed",
}
"""Commands that do what the fuzzer looks for, and what it says of them."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_verdicts(program: str, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(_: list[str]) -> None:
        exec(program, {"sys": sys})
        sys.exit(0)

    monkeypatch.setattr("regard.cli.main", main)
    judge.references["translator:none"] = (b"",)
    case = Case(
        "deliberate",
        [],
        reference="translator:none",
        is_right=lambda out: b"untrue" not in out,
    )
    result = judge(case)
    assert result.verdict == PROGRAMS[program], result.outcome


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.slow if first else ())
        for first in range(0, 48, 3)
    ],
)
def test_no_case_goes_badly(first: int, material: Material, judge: Judge) -> None:
    """Three cases by default, 45 more in the slow tests; `make fuzz` runs thousands, with other
    seeds, and judges seconds too.
    """
    for number in range(first, first + 3):
        result = judge(fuzzer.draw(number, 0, material))
        assert result.verdict not in {*cases.BAD} - {"slow"}, (
            result.case.name,
            result.outcome,
        )


PLANTED = [
    name
    for name, generator in KINDS.items()
    if generator.__module__ == planted.__name__
]


@pytest.mark.parametrize("name", PLANTED)
def test_nothing_planted_goes_badly(
    name: str, material: Material, judge: Judge
) -> None:
    """One case of each kind of what lies where a command works."""
    result = judge(KINDS[name](random.Random(f"default {name}"), material))
    assert result.verdict not in {*cases.BAD} - {"slow"}, (
        result.case.name,
        result.outcome,
    )
