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
from fuzz import fuzzer, planted
from fuzz.cases import BAD, KINDS, Case, Judge
from fuzz.material import Material

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def material(cached: FolderCache) -> Material:
    """Make the folders to attack once, until the sources change."""
    return fuzzer.material(cached.in_process("fuzz", fuzzer.material))


@pytest.fixture(scope="module")
def judge(material: Material, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(material, tmp_path_factory.mktemp("fuzz"))


def assert_right(case: Case, judge: Judge) -> None:
    """Run a case; how long it takes depends on the machine."""
    result = judge(case)
    assert result.verdict not in {*BAD} - {"slow"}, (case.name, result.outcome)


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


def test_verdicts(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(arguments: list[str]) -> None:
        exec(arguments[0], {"sys": sys})
        sys.exit(0)

    monkeypatch.setattr("regard.cli.main", main)
    judge.references["nothing"] = [b""]
    is_right = lambda out: b"untrue" not in out  # noqa: E731
    for program, verdict in PROGRAMS.items():
        case = Case(
            "", [program], lambda _: None, reference="nothing", is_right=is_right
        )
        assert judge(case).verdict == verdict, program


NUMBERS = [
    pytest.param(number, marks=pytest.mark.slow if number > 2 else ())
    for number in range(48)
]


@pytest.mark.parametrize("number", NUMBERS)
def test_no_case_goes_badly(number: int, material: Material, judge: Judge) -> None:
    """Three cases by default, 45 more in the slow tests; `make fuzz` runs thousands, with other
    seeds, and judges seconds too.
    """
    assert_right(fuzzer.draw(number, 2, material), judge)


PLANTED = [name for name in KINDS if hasattr(planted, name)]


@pytest.mark.parametrize("name", PLANTED)
def test_nothing_planted_goes_badly(
    name: str, material: Material, judge: Judge
) -> None:
    """One case of each kind of what lies where a command works."""
    assert_right(KINDS[name](random.Random(f"default {name}"), material), judge)
