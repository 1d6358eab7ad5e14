"""Significance of differences in BLEU, chrF and TER, by sacreBLEU's paired bootstrap test (Koehn
2004; Post 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import estimate_ci

from regard.common.errors import DataError
from regard.data.bleu_tokenizer import BleuTokenizer
from regard.evaluation.text_metrics import make_metrics

SEED = 12345
"""sacreBLEU's default seed."""
DRAWS = 1000
"""Number of resamples, the same as in sacreBLEU's test."""
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ScoreDifference:
    """Score of a system minus that of the first one, and the 2.5th and 97.5th percentile of the
    differences in the paired resamples.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class TestedScore:
    """A corpus score with its mean over the resamples, and its 95 % interval.

    `ci` is half the width of the interval; `low` and `high`, its ends, do not exceed the scale (TER
    has no upper end). `p` is how often a difference from the first system as large as this one
    would come from equally good systems, `difference` its size; None for the first system. `equal`
    means that the score is that of the first system, for which sacreBLEU's test reports its
    smallest p.
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
    difference: ScoreDifference | None = None


def paired_tests(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    ter: bool = True,
    tokenizer: BleuTokenizer = "13a",
) -> list[tuple[TestedScore, ...]]:
    """Score named systems against line-aligned references, and test each against the first.

    The figures are those of `sacrebleu --paired-bs` to the digit, with 1,000 resamples, of which
    the intervals of the differences are taken too. TER is left out without `ter`, and if a line has
    more than 200 words. Raises DataError if the outputs and references differ in number.
    """
    for name, outputs in systems:
        if any(len(lines) != len(outputs) for lines in references) or not outputs:
            raise DataError(
                f"{name}: wanted an output for each of {len(references[0]):,} references, got "
                f"{len(outputs):,}"
            )
    texts = (*references, *(outputs for _, outputs in systems))
    metrics = make_metrics(tokenizer, texts, ter)
    by_metric = [
        _test(name, metric, [outputs for _, outputs in systems], references)
        for name, metric in metrics.items()
    ]
    return list(zip(*by_metric, strict=True))


def score_with_intervals(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenizer: BleuTokenizer = "13a",
) -> tuple[TestedScore, ...]:
    """Score one system with the 95 % intervals of `paired_tests`."""
    return paired_tests([("outputs", outputs)], references, False, tokenizer)[0]


def _test(
    name: str,
    metric: Metric,
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
) -> list[TestedScore]:
    """Compute one score of all systems on the same resamples."""
    lines = len(references[0])
    rows = np.random.default_rng(SEED).choice(lines, size=(DRAWS, lines), replace=True)
    streams = [list(stream) for stream in references]
    results = list[TestedScore]()
    first_resamples = np.zeros(DRAWS)
    for outputs in systems:
        counts = metric._extract_corpus_statistics(list(outputs), streams)
        table = np.array(counts, np.float32)
        resamples = np.array(
            [metric._compute_score_from_stats(table[row].sum(0)).score for row in rows]
        )
        mean, ci = map(float, estimate_ci(resamples))
        signature = metric.get_signature()
        signature.update("seed", str(SEED))
        signature.update("bs", DRAWS)
        # TER has no upper end.
        low, high = np.clip((mean - ci, mean + ci), 0, None if name == "TER" else 100)
        result = TestedScore(
            name,
            float(metric._aggregate_and_compute(counts).score),
            mean,
            ci,
            float(low),
            float(high),
            None,
            str(signature),
        )
        if not results:
            first_resamples = resamples
        else:
            result = _compared(result, results[0], resamples - first_resamples)
        results.append(result)
    return results


def _compared(
    result: TestedScore, first: TestedScore, resamples: Scores
) -> TestedScore:
    """Return a score with its difference from that of the first system, whose paired resamples are
    given, and sacreBLEU's p-value.
    """
    value = result.value - first.value
    sizes = np.abs(resamples)
    larger = int((sizes - sizes.mean() > abs(value)).sum())
    low, high = np.quantile(resamples, [0.025, 0.975])
    return replace(
        result,
        p=(larger + 1) / (DRAWS + 1),
        equal=not value,
        difference=ScoreDifference(value, float(low), float(high)),
    )
