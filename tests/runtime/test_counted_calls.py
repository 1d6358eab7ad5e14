"""A line of a runtime file takes no more calls of Python functions than it did: the limits are the
numbers reached.

`pytest -s tests/runtime/test_counted_calls.py` prints the numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers.counted_calls import Counts, count_calls
from helpers.small_models import SENTENCES, folder

from regard.interchange.runtime import export
from regard.pipeline import RuntimeTranslator
from regard.runtime import native

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

LIMITS = {
    "a plain line of many": Counts(22, 22),
    "a line with a span of many": Counts(290, 460),
    "a single sentence": Counts(69, 69),
}
"""Most calls; whoever makes a number smaller lowers its limit.

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


def compare(name: str, counts: Counts) -> None:
    """Print a count, and compare it with its limit."""
    print(f'\n    "{name}": {counts},')
    limit = LIMITS[name]
    advice = f"{name}: {counts}, more than {limit}; find what calls more"

    assert counts.python <= limit.python, advice

    if sys.version_info[:2] == PYTHON_OF_C_CALLS:
        assert counts.c <= limit.c, advice


def test_a_line_takes_few_calls(file: Path) -> None:
    translator = RuntimeTranslator(file)

    def calls_of(*lines: str) -> Counts:
        translator.translate(lines)  # what is done once is done
        return count_calls(lambda: translator.translate(lines))

    for name, line in (
        ("plain line", SENTENCES[0]),
        ("line with a span", "나는 {name} 집에 간다"),
    ):
        few = calls_of(*[line] * FEW)
        many = calls_of(*[line] * MANY)
        python = round((many.python - few.python) / (MANY - FEW))
        c = round((many.c - few.c) / (MANY - FEW))
        compare(f"a {name} of many", Counts(python, c))

    sentence = SENTENCES[0]
    compare("a single sentence", count_calls(lambda: translator.translate(sentence)))
