"""BLEU, chrF and TER by sacreBLEU, with their signatures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.bleu_tokenizer import BleuTokenizer
from regard.training.journal import ValidationScores

MAX_TER_WORDS = 200
BLEU_WORDS = 4
"""Words in a row that BLEU compares at most."""
MOST = 0.5
"""Share of lines with fewer words from which on BLEU means nothing."""
QUOTATION_MARKS = frozenset("\"“”„‟«»‹›'‘’‚‛`´「」『』〝〞〟＂＇")


@dataclass(frozen=True)
class MetricScore:
    """A score with its name and its sacreBLEU signature, which records how it was computed."""

    name: str
    value: float
    signature: str


def make_metrics(
    tokenizer: BleuTokenizer, texts: Iterable[Sequence[str]], ter: bool = True
) -> dict[str, Metric]:
    """Return BLEU, chrF and TER by name; TER is left out without `ter`, and if a line of the texts
    has more than 200 words.
    """
    metrics: dict[str, Metric] = {"BLEU": _bleu(tokenizer), "chrF": CHRF()}
    if ter and longest_line(texts) <= MAX_TER_WORDS:
        metrics["TER"] = TER()
    return metrics


def _bleu(tokenizer: BleuTokenizer) -> BLEU:
    """Return BLEU without sacreBLEU's advice on full stops, which names a parameter of its own."""
    return BLEU(tokenize=tokenizer, force=True)


def short_lines(references: Sequence[str], tokenizer: BleuTokenizer) -> float:
    """Return the share of lines that have fewer words than BLEU compares in a row."""
    split = _bleu(tokenizer).tokenizer
    lengths = [len(split(line).split()) for line in references]
    return sum(length < BLEU_WORDS for length in lengths) / max(1, len(lengths))


def score_notes(
    outputs: Sequence[str], references: Sequence[str], tokenizer: BleuTokenizer = "13a"
) -> Iterator[str]:
    """Yield sentences on scores that mislead: BLEU of short lines, and other quotation marks."""
    share = short_lines(references, tokenizer)
    if share > MOST:
        yield (
            f"BLEU means nothing here: it compares {BLEU_WORDS} words in a row, and {share:.0%} of "
            "the lines have fewer; look at chrF"
        )
    pairs = [tuple(map(_marks, pair)) for pair in zip(outputs, references, strict=True)]
    differing = Counter(pair for pair in pairs if all(pair) and pair[0] != pair[1])
    if differing:
        ((output, reference), _) = differing.most_common(1)[0]
        lines = counted(differing.total(), "line has", "lines have")
        yield (
            f"{lines} other quotation marks than the reference, such as {output} for {reference}, "
            "which lowers the scores; make those of training and test alike"
        )


def _marks(text: str) -> str:
    """Return the different quotation marks of a text, in order of code points."""
    return " ".join(sorted(QUOTATION_MARKS & {*text}))


def longest_line(texts: Iterable[Sequence[str]]) -> int:
    """Return the largest number of words in a line of the texts."""
    return max((len(line.split()) for lines in texts for line in lines), default=0)


def scores(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenizer: BleuTokenizer = "13a",
) -> list[MetricScore]:
    """Compute corpus BLEU, chrF and TER against one or more line-aligned sets of references.

    TER is left out if a line has more than 200 words, since its time grows with the cube of the
    length.
    """
    for number, lines in enumerate(references, 1):
        if len(lines) != len(outputs):
            raise DataError(
                f"reference {number} has {counted(len(lines), 'line')} for "
                f"{counted(len(outputs), 'output')}; give line-aligned files"
            )
    metrics = make_metrics(tokenizer, (outputs, *references))
    output_list = list(outputs)
    reference_lists = [list(lines) for lines in references]
    results = list[MetricScore]()
    for name, metric in metrics.items():
        value = float(metric.corpus_score(output_list, reference_lists).score)
        results.append(MetricScore(name, value, str(metric.get_signature())))
    return results


def chrf_and_bleu(
    outputs: Sequence[str], references: Sequence[str], tokenizer: BleuTokenizer = "13a"
) -> ValidationScores:
    """Return the scores that are logged when a translator is validated during training."""
    streams = [list(references)]
    bleu = _bleu(tokenizer).corpus_score(list(outputs), streams).score
    return {"chrf": corpus_chrf(outputs, references), "bleu": float(bleu)}


def sentence_chrf(output: str, reference: str) -> float:
    """Return the chrF of one output against its reference."""
    return float(CHRF().sentence_score(output, [reference]).score)


def corpus_chrf(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Return the chrF of outputs against one reference each."""
    return float(CHRF().corpus_score(list(outputs), [list(references)]).score)
