"""A line of a runtime file takes no more calls of Python functions than it did: the limits are the
numbers reached.

`pytest -s tests/runtime/test_counted_calls.py` prints the numbers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import counted_calls
import pytest
from counted_calls import Counts, count_calls
from small import SENTENCES, folder

from regard.interchange.runtime import export
from regard.pipeline import RuntimeTranslator
from regard.runtime import native

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

LIMITS = {
    "a plain line of many": Counts(22, 22),
    "a line with a span of many": Counts(199, 387),
    "a single sentence": Counts(69, 69),
    "a single sentence from the shell": Counts(380, 1900),
}
"""Most calls; whoever makes a number smaller lowers its limit. From the shell some calls depend on
the machine's folders.

Those of C functions are compared on one version of Python: others count them in other ways.
"""
PYTHON_OF_C_CALLS = (3, 11)
FEW = 10
MANY = 60
TOKENS = 4
"""Length of each target, so that what is done for a token is counted equally often everywhere."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a runtime file that nothing is warned of."""
    run = folder(
        tmp_path_factory.mktemp("counted") / "run",
        score_threshold=-1000.0,
        beam=1,
        min_length=TOKENS,
        max_length=TOKENS,
    )
    sentences = run.with_name("sentences.txt")
    sentences.write_text("\n".join(SENTENCES), encoding="utf-8")
    export(run, run.with_suffix(".regard"), source=sentences)
    return run.with_suffix(".regard")


@pytest.fixture(scope="module")
def translator(file: Path) -> RuntimeTranslator:
    return RuntimeTranslator(file)


def compare(name: str, counts: Counts) -> None:
    """Print a count, and compare it with its limit."""
    print(f'\n    "{name}": {counts},')
    limit = LIMITS[name]
    advice = f"{name}: {counts}, more than {limit}; find what calls more, and raise a limit only with a reason"
    assert counts.python <= limit.python, advice
    if sys.version_info[:2] == PYTHON_OF_C_CALLS:
        assert counts.c <= limit.c, advice


def count_a_line(translator: RuntimeTranslator, line: str) -> Counts:
    """Count what a line adds to a call of several."""

    def calls_of(count: int) -> Counts:
        lines = [line] * count
        translator.translate(lines)  # what is done once is done
        return count_calls(lambda: translator.translate(lines))

    few = calls_of(FEW)
    many = calls_of(MANY)
    return Counts(*(round((b - a) / (MANY - FEW)) for a, b in zip(few, many, strict=True)))


def test_a_plain_line(translator: RuntimeTranslator) -> None:
    compare("a plain line of many", count_a_line(translator, SENTENCES[0]))


def test_a_line_with_a_span(translator: RuntimeTranslator) -> None:
    compare("a line with a span of many", count_a_line(translator, "나는 {name} 집에 간다"))


def test_a_single_sentence(translator: RuntimeTranslator) -> None:
    translator.translate(SENTENCES[1])
    compare("a single sentence", count_calls(lambda: translator.translate(SENTENCES[0])))


def test_a_single_sentence_from_the_shell(file: Path) -> None:
    command = [sys.executable, counted_calls.__file__, "translate", str(file), "--threads=1"]
    done = subprocess.run(
        command, input=f"{SENTENCES[0]}\n", capture_output=True, text=True, check=True, timeout=120
    )
    *warned, counts = done.stderr.splitlines()
    assert not warned, "a warning loads the command line"
    compare("a single sentence from the shell", Counts(*json.loads(counts)))


def test_comprehensions_and_imports_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "regard_like.py"
    module.write_text("def own():\n    return [len('a') for _ in 'ab']\nown()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def load() -> None:
        import regard_like  # type: ignore[import-not-found]

        regard_like.__name__ = "regard.like"
        regard_like.own()

    assert count_calls(load) == Counts(1, 2)
