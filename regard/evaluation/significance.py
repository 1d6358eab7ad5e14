"""Significance of differences in BLEU, chrF and TER, by sacreBLEU's paired bootstrap test (Koehn
2004; Post 2018).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sacrebleu.significance import PairedTest

from regard.common.errors import DataError
from regard.data.bleu_tokenizer import BleuTokenizer
from regard.evaluation.text_metrics import make_metrics

SEED = "12345"
"""sacreBLEU's default seed, which the environment could change."""
SEED_VARIABLE = "SACREBLEU_SEED"
DRAWS = 1000
"""Number of resamples, the same as in sacreBLEU's test."""


@dataclass(frozen=True)
class TestedScore:
    """A corpus score with its mean over the resamples, and its 95 % interval.

    `ci` is half the width of the interval; `low` and `high`, its ends, do not exceed the scale (TER
    has no upper end). `p` is how often a difference from the first system as large as this one
    would come from equally good systems; None for the first system. `equal` means that the score is
    that of the first system, for which sacreBLEU's test reports its smallest p.
    """

    name: str
    value: float
    mean: float
    ci: float
    low: float
    high: float
    p: float | None
    signature: str
    equal: bool = False


def paired_tests(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    ter: bool = True,
    tokenizer: BleuTokenizer = "13a",
) -> list[tuple[TestedScore, ...]]:
    """Score named systems against line-aligned references, and test each against the first.

    The figures are those of `sacrebleu --paired-bs` to the digit, with 1,000 resamples. TER is left
    out without `ter`, and if a line has more than 200 words. Raises DataError if the outputs and
    references differ in number.
    """
    for name, outputs in systems:
        if any(len(lines) != len(outputs) for lines in references) or not outputs:
            raise DataError(
                f"{name}: wanted an output for each of {len(references[0]):,} references, got "
                f"{len(outputs):,}"
            )
    named: list[tuple[str, Sequence[str]]] = [
        (name, list(outputs)) for name, outputs in systems
    ]
    streams = [list(lines) for lines in references]
    texts = (*streams, *(outputs for _, outputs in named))
    metrics = make_metrics(tokenizer, texts, ter)
    with _fixed_seed():
        test = PairedTest(named, metrics, streams, test_type="bs")
        signatures, results = test()
    names = dict(zip(signatures, metrics, strict=True))  # sacreBLEU calls chrF chrF2
    return [
        tuple(_tested(names, signatures, results, number))
        for number in range(len(named))
    ]


def score_with_intervals(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenizer: BleuTokenizer = "13a",
) -> tuple[TestedScore, ...]:
    """Score one system with the 95 % intervals of `paired_tests`."""
    return paired_tests(
        [("outputs", outputs), ("outputs again", outputs)], references, False, tokenizer
    )[0]


def _tested(
    names: Mapping[str, str],
    signatures: Mapping[str, object],
    results: Mapping[str, Any],
    number: int,
) -> Iterator[TestedScore]:
    for sacrebleu_name, name in names.items():
        result = results[sacrebleu_name][number]
        mean = float(result.mean)
        ci = float(result.ci)
        low = max(0.0, mean - ci)
        high = max(0.0, mean + ci)
        if name != "TER":
            low = min(100.0, low)
            high = min(100.0, high)
        p = None if result.p_value is None else float(result.p_value)
        first_score = results[sacrebleu_name][0].score
        is_equal = number > 0 and result.score == first_score
        yield TestedScore(
            name,
            float(result.score),
            mean,
            ci,
            low,
            high,
            p,
            str(signatures[sacrebleu_name]),
            is_equal,
        )


@contextmanager
def _fixed_seed() -> Iterator[None]:
    before = os.environ.get(SEED_VARIABLE)
    os.environ[SEED_VARIABLE] = SEED
    try:
        yield
    finally:
        if before is None:
            del os.environ[SEED_VARIABLE]
        else:
            os.environ[SEED_VARIABLE] = before
