"""Judge the probability that a translation is good: fitted on half of some pairs, judged on the
other, over five seeded splits.

    python benchmarks/quality.py MODEL SOURCE REFERENCE

Good is a chrF of 50 or more, bad one below 30. Printed are means over the splits: by how much the
Brier score is better than that of the base rate; the share of the bad lines that the least trusted
fifth holds, and of what a perfect order would hold; the error of calibration over tenths, less that
of scores from which the outcomes were drawn; how far the share that is told to be usable is off;
and how many lines a threshold of 80 % takes.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
import regard
from regard.evaluation.quality_fit import calibrate
from regard.evaluation.text_metrics import sentence_chrf
from regard.text.quality import GOOD

BAD = 30.0
SURE = 0.8
SPLITS, DRAWS, TENTHS = 5, 50, 10
Array = npt.NDArray[np.float64]


def error(told: Array, good: Array) -> float:
    """Return the error of calibration over tenths of the lines by what is told of them."""
    tenths = np.array_split(np.argsort(told, kind="stable"), TENTHS)
    gaps = [abs(told[t].mean() - good[t].mean()) * len(t) for t in tenths if len(t)]
    return float(sum(gaps) / len(told))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "source", "reference"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sources = options.source.read_text(encoding="utf-8").splitlines()
    references = options.reference.read_text(encoding="utf-8").splitlines()
    translations = regard.load(options.model).translate(sources)
    pairs = [
        (translation, reference)
        for translation, reference in zip(translations, references, strict=True)
        if translation.parts
    ]
    chrf = np.array([sentence_chrf(t.text, reference) for t, reference in pairs])
    good, bad = (chrf >= GOOD).astype(np.float64), chrf < BAD
    rows = []
    for seed in range(SPLITS):
        random = np.random.default_rng(seed)
        first, second = np.array_split(random.permutation(len(pairs)), 2)
        quality = calibrate(*zip(*(pairs[i] for i in first), strict=True))
        if quality is None:
            raise SystemExit("too few pairs for half of them")
        told = np.array(
            [
                min(quality.probability(*part[:3]) for part in pairs[i][0].parts)
                for i in second
            ]
        )
        outcome, is_bad = good[second], bad[second]
        base = np.mean((good[first].mean() - outcome) ** 2)
        fifth = np.argsort(told, kind="stable")[: len(told) // 5]
        held = is_bad[fifth].sum() / max(1, is_bad.sum())
        perfect = min(1.0, len(fifth) / max(1, is_bad.sum()))
        drawn = [
            error(told, (random.random(len(told)) < told).astype(np.float64))
            for _ in range(DRAWS)
        ]
        rows.append(
            (
                1 - np.mean((told - outcome) ** 2) / base,
                held,
                held / perfect,
                error(told, outcome) - np.mean(drawn),
                told.mean() - outcome.mean(),
                np.mean(told >= SURE),
                outcome[told >= SURE].mean() if np.any(told >= SURE) else np.nan,
            )
        )
    brier, held, of_perfect, excess, off, sure, right = np.mean(rows, axis=0)
    print(
        f"{len(pairs):,} lines, {good.mean():.0%} good, {bad.mean():.0%} bad: Brier {brier:.1%} "
        f"better; the fifth holds {held:.0%} of the bad lines, {of_perfect:.0%} of what a perfect "
        f"order would; error {excess:+.3f}; usable {100 * off:+.1f} points; "
        f"told {SURE:.0%} or more: {sure:.0%} of the lines, of which {right:.0%} are good"
    )


if __name__ == "__main__":
    main()
