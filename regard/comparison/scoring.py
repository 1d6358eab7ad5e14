"""Corpus scores of runs, with paired bootstrap tests against the baseline, and intervals over
seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sacrebleu.metrics.chrf import CHRF

from regard.common.errors import UsageError
from regard.comparison.result import Lead, RunScore, SeedScore, TestSet
from regard.data.bleu_tokenizer import BleuTokenizer
from regard.evaluation.bootstrap import (
    paired_bootstrap,
    student_interval,
    welch_interval,
)
from regard.evaluation.caption_metrics import (
    WordTokenizer,
    caption_scores,
    cider_scores,
)
from regard.evaluation.significance import TestedScore, paired_tests

UNBOUNDED = ("CIDEr-D", "TER")
"""Scores that may be above 100."""


def sentence_scores(
    test: TestSet, outputs: Sequence[str], tokenize: WordTokenizer | None
) -> tuple[float, ...]:
    """Score each output by itself: chrF of translations, CIDEr-D of captions."""
    if tokenize is not None:
        return tuple(cider_scores(outputs, test.references, tokenize))
    metric = CHRF()
    pairs = zip(outputs, test.references, strict=True)
    return tuple(
        float(metric.sentence_score(output, list(references)).score)
        for output, references in pairs
    )


def score_groups(
    test: TestSet,
    groups: Sequence[Sequence[str]],
    outputs: Mapping[str, Sequence[str]],
    tokenize: WordTokenizer | None,
    ter: bool = True,
    bleu: BleuTokenizer = "13a",
) -> dict[str, tuple[RunScore, ...]]:
    """Score the runs of each group, and test each of them against the first, a run of the baseline.

    `groups` holds names of runs. Without `ter`, translations have only BLEU and chrF; `bleu` is the
    tokenizer of BLEU.
    """
    results: dict[str, tuple[RunScore, ...]] = {}
    for group in groups:
        named = [(name, outputs[name]) for name in group]
        if tokenize is None:
            scored = _score_translations(test, named, ter, bleu)
        else:
            scored = _score_captions(test, named, tokenize)
        for name, scores in scored.items():
            results.setdefault(name, scores)
    return results


def _score_translations(
    test: TestSet,
    named: Sequence[tuple[str, Sequence[str]]],
    ter: bool,
    bleu: BleuTokenizer,
) -> dict[str, tuple[RunScore, ...]]:
    """Score translations and test them by sacreBLEU's paired bootstrap.

    Equal scores get p = 1; sacreBLEU would call them different (p = 0.001).
    """

    def lead(score: TestedScore) -> Lead | None:
        if score.p is None or score.difference is None:
            return None
        p = 1.0 if score.equal else score.p
        ends = score.difference.low, score.difference.high
        return Lead(score.difference.value, *ends, p, "paired bootstrap")

    references = [list(lines) for lines in zip(*test.references, strict=True)]
    baseline = named[0][0]
    tested = paired_tests(named, references, ter, bleu)
    results = {}
    for (name, _), scores in zip(named, tested, strict=True):
        results[name] = tuple(
            RunScore(
                name=score.name,
                value=score.value,
                low=score.low,
                high=score.high,
                signature=score.signature,
                mean=score.mean,
                ci=score.ci,
                lead=lead(score),
                against="" if name == baseline else baseline,
            )
            for score in scores
        )
    return results


def _score_captions(
    test: TestSet, named: Sequence[tuple[str, Sequence[str]]], tokenize: WordTokenizer
) -> dict[str, tuple[RunScore, ...]]:
    """Score captions. Only CIDEr-D, which is a mean over images, has an interval and a p-value."""
    ciders = {
        name: cider_scores(outputs, test.references, tokenize)
        for name, outputs in named
    }
    baseline = named[0][0]
    results = dict[str, tuple[RunScore, ...]]()
    zeros = [0.0] * len(test.references)
    for name, outputs in named:
        scores = []
        for score in caption_scores(outputs, test.references, tokenize):
            low = score.value
            high = score.value
            lead = None
            if score.name == "CIDEr-D":
                from_zero = paired_bootstrap(zeros, ciders[name])
                low = from_zero.low
                high = from_zero.high
                if name != baseline:
                    tested = paired_bootstrap(ciders[baseline], ciders[name])
                    ends = tested.low, tested.high
                    lead = Lead(tested.difference, *ends, tested.p, "paired bootstrap")
            run_score = RunScore(
                score.name,
                score.value,
                low,
                high,
                score.signature,
                lead=lead,
                against="" if lead is None else baseline,
            )
            scores.append(run_score)
        results[name] = tuple(scores)
    return results


def over_seeds(scores: Sequence[RunScore], baseline: Sequence[float] = ()) -> SeedScore:
    """Return the mean of one score over the runs of a system, with Student's 95 % interval, cut at
    the ends of the scale, and its difference from the values of the baseline.

    A single run keeps the interval of its bootstrap, and its difference from a single run of the
    baseline by the paired bootstrap.
    """
    if not scores:
        raise UsageError("wanted the score of at least one run")
    first = scores[0]
    values = [score.value for score in scores]
    if len(values) == 1:
        lead = first.lead if len(baseline) == 1 else None
        return SeedScore(first.name, first.value, first.low, first.high, 1, lead)
    mean, low, high = student_interval(values)
    high = high if first.name in UNBOUNDED else min(100.0, high)
    lead = None
    if len(baseline) > 1:
        lead = Lead(*welch_interval(baseline, values), "Welch")
    return SeedScore(first.name, mean, max(0.0, low), high, len(values), lead)
