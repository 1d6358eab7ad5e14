"""Caption metrics with several references: BLEU-1 to BLEU-4, chrF, CIDEr-D and exact match."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.common.counting import counted
from regard.common.version import __version__
from regard.data.bleu_tokenizer import BleuTokenizer
from regard.data.text import clean
from regard.data.tokenizer import TokenizerSettings
from regard.evaluation.bootstrap import paired_bootstrap
from regard.evaluation.cider import MAX_N, SIGMA, cider_d
from regard.evaluation.significance import TestedScore, score_with_intervals
from regard.evaluation.text_metrics import MetricScore
from regard.training.journal import ValidationScores

WordTokenizer = Callable[[str], list[str]]

CIDER_MEANING = (
    "CIDEr-D is high where a caption has words in a row that people wrote for this image and for "
    "few others; it is 0 where it has none, and of few images it tells little"
)
NO_WORD = "∅"  # stands for a reference without words
_CJK = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
_CLITIC = re.compile(r"(?<=\w)(n't|'(?:s|re|ve|ll|d|m))\b")


def _combining_marks() -> str:
    """Return the combining marks (accents, vowel signs of Hindi and Thai) and the zero-width
    joiners.
    """
    marks = [
        code
        for code in range(0x300, 0x1F000)
        if unicodedata.category(chr(code))[0] == "M"
    ]
    return "".join(map(chr, marks)) + "\u200c\u200d"


_LETTERS = f"(?:[^\\W_][{_combining_marks()}]*)+"
_WORD = re.compile(rf"'(?:s|re|ve|ll|d|m)\b|{_LETTERS}(?:['.-]{_LETTERS})*")


def words(text: str) -> list[str]:
    """Split a caption into lower-case words without punctuation, in the way of coco-caption.

    "don't" becomes do + n't; each Chinese or Japanese character is a word.
    """
    text = _CLITIC.sub(r" \1", clean(text).lower().replace("’", "'"))
    return _WORD.findall(_CJK.sub(r" \1 ", text))


def tokens(text: str) -> list[str]:
    """Split a formula at spaces."""
    return clean(text).split()


def tokenizer_for(tokenizer: TokenizerSettings) -> WordTokenizer:
    """Return the function that splits the outputs of a model for scoring.

    Formulas and the like are split at spaces, everything else into words.
    """
    return tokens if tokenizer.kind in ("char", "whitespace") else words


def cider_scores(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: WordTokenizer = words,
) -> list[float]:
    """Return the CIDEr-D of each caption; `references` are the reference captions of each image."""
    return cider_d(
        [tokenize(text) for text in outputs],
        [[tokenize(text) for text in refs] for refs in references],
    )


def caption_scores(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: WordTokenizer = words,
) -> list[MetricScore]:
    """Return all scores with their signatures; `references` are the reference captions of each
    image.
    """
    counts = {len(refs) for refs in references}
    tested_on = (
        f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}|images:{len(outputs)}"
    )
    version = f"regard:{__version__}"
    tokenized_by = f"tok:{tokenize.__name__}|{version}"
    bleu = [_bleu(n, outputs, references, tokenize) for n in range(1, 5)]
    results = [
        MetricScore(f"BLEU-{n}", value, f"{tested_on}|smooth:none|{tokenized_by}")
        for n, value in enumerate(bleu, 1)
    ]
    chrf = CHRF()
    value = float(chrf.corpus_score(list(outputs), _streams(references)).score)
    results.append(MetricScore("chrF", value, str(chrf.get_signature())))
    ciders = cider_scores(outputs, references, tokenize)
    cider_signature = (
        f"{tested_on}|n:{MAX_N}|sigma:{SIGMA:g}|idf:references|{tokenized_by}"
    )
    results.append(
        MetricScore("CIDEr-D", sum(ciders) / max(1, len(ciders)), cider_signature)
    )
    exact = _exact(outputs, references)
    results.append(MetricScore("exact", exact, f"{tested_on}|case:mixed|{version}"))
    return results


def score_captions(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: WordTokenizer,
    tokenizer: BleuTokenizer,
) -> list[TestedScore]:
    """Return chrF, BLEU and CIDEr-D with their 95 % intervals."""
    tested = [*score_with_intervals(outputs, _streams(references), tokenizer)]
    ciders = cider_scores(outputs, references, tokenize)
    cider = paired_bootstrap([0.0] * len(ciders), ciders)
    signature = next(
        score.signature
        for score in caption_scores(outputs, references, tokenize)
        if score.name == "CIDEr-D"
    )
    half = (cider.high - cider.low) / 2
    ends = cider.low, cider.high
    mean = cider.second
    tested.append(TestedScore("CIDEr-D", mean, mean, half, *ends, None, signature))
    return tested


def validation_scores(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: WordTokenizer = words,
) -> ValidationScores:
    """Return the scores that are logged when a captioner is validated during training."""
    scores = {
        score.name: score.value
        for score in caption_scores(outputs, references, tokenize)
    }
    return {
        "chrf": scores["chrF"],
        "bleu": scores["BLEU-4"],
        "cider": scores["CIDEr-D"],
    }


def is_exact(output: str, references: Sequence[str]) -> bool:
    """Return whether a caption equals one of the references of its image."""
    return clean(output) in map(clean, references)


def describe_captions(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: WordTokenizer = words,
) -> str:
    """Say in a sentence how many captions are exactly right, and how many of their words are."""
    exact = sum(map(is_exact, outputs, references))
    total = 0
    shared = 0
    for output, refs in zip(outputs, references, strict=True):
        known = {word for reference in refs for word in tokenize(reference)}
        spoken = tokenize(output)
        total += len(spoken)
        shared += sum(word in known for word in spoken)
    verb = "is" if exact == 1 else "are"
    return (
        f"{exact:,} of {counted(len(outputs), 'caption')} {verb} exactly one that people wrote for "
        f"the image; {shared:,} of {counted(total, 'word')} are in what they wrote"
    )


def _bleu(
    n: int,
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: WordTokenizer,
) -> float:
    """Return corpus BLEU up to n-grams, unsmoothed as in coco-caption."""
    metric = BLEU(tokenize="none", force=True, smooth_method="none", max_ngram_order=n)
    split_outputs = [" ".join(tokenize(text)) for text in outputs]
    split_references = [
        [" ".join(tokenize(text)) or NO_WORD for text in refs] for refs in references
    ]
    score = metric.corpus_score(split_outputs, _streams(split_references))
    return float(score.score)


def _streams(references: Sequence[Sequence[str]]) -> Any:
    """Transpose references into the first of each image, the second of each, and so on.

    An image with fewer references has None, since an empty text would count as a reference without
    words; sacreBLEU's types do not admit None.
    """
    return [list(stream) for stream in zip_longest(*references, fillvalue=None)]


def _exact(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the percentage of outputs that equal one of their references."""
    return 100 * sum(map(is_exact, outputs, references)) / max(1, len(outputs))
