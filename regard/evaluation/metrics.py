"""BLEU, chrF and TER by sacreBLEU, each with the signature that says how it was counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import DataError

__all__ = ["LONGEST_FOR_TER", "Score", "chrf_and_bleu", "scores"]

LONGEST_FOR_TER = 200


@dataclass(frozen=True)
class Score:
    """A number, its name, and its recipe."""

    name: str
    value: float
    signature: str


def scores(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[Score]:
    """Corpus BLEU, chrF and TER of outputs against one or more sets of references, line by line.

    TER is left out where a line has more than 200 words: the time it takes grows with the cube of the length.
    """
    for number, lines in enumerate(references, 1):
        if len(lines) != len(outputs):
            raise DataError(
                f"reference {number} has {len(lines)} lines for {len(outputs)} outputs; give line-aligned files"
            )
    longest = max((len(line.split()) for lines in (outputs, *references) for line in lines), default=0)
    results = []
    for name, metric in (("BLEU", BLEU()), ("chrF", CHRF()), ("TER", TER())):
        if name == "TER" and longest > LONGEST_FOR_TER:
            continue
        result = metric.corpus_score(list(outputs), [list(lines) for lines in references])
        results.append(Score(name, float(result.score), str(metric.get_signature())))
    return results


def chrf_and_bleu(outputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """The two scores that training watches."""
    chrf = CHRF().corpus_score(list(outputs), [list(references)]).score
    return {"chrf": float(chrf), "bleu": float(BLEU().corpus_score(list(outputs), [list(references)]).score)}
