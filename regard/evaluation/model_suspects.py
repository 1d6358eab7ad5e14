"""Suspect pairs that a trained model sees: improbable ones, and those of which its attention leaves
words out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from regard.common.errors import DataError
from regard.data.checking.separation import separating_score
from regard.data.checking.suspects import Suspect
from regard.data.pairs import Pair, chunks
from regard.evaluation.aer import read_all
from regard.pipeline import FolderTranslator, last_layer

SCORED = 4_000
"""Pairs from which it is learnt how probable unrelated sides are."""
ODD_DEVIATIONS = 4.0
"""Deviations below the usual coverage."""
LEAST_DEVIATION = 0.01
"""Least deviation of coverage."""
FEWEST_WORDS = 4
"""Words of a source below which nothing is said of coverage."""
NAMED = 3
"""Words that are named."""
PAIRS_AT_ONCE = 500
"""Pairs whose attention weights are in memory at a time."""

Floats = npt.NDArray[np.float64]


def improbable_pairs(
    pairs: Sequence[Pair],
    forward: FolderTranslator,
    backward: FolderTranslator | None = None,
) -> list[Suspect]:
    """Return the pairs to which a model gives hardly more probability than to sides that are drawn
    at random, and with the model of the reverse direction, those on which both disagree.

    The score is the dual conditional cross-entropy of Junczys-Dowmunt (2018, equation 1), negated;
    of one model, the mean log-probability of a token.
    """
    own = _scores(pairs, pairs, forward, backward)
    scored = pairs[:: 1 + len(pairs) // SCORED]
    drawn = np.random.default_rng(0).permutation(len(scored)).tolist()
    others = [scored[index] for index in drawn]
    random = _scores(scored, others, forward, backward)
    level, usual = separating_score(own[:: 1 + len(pairs) // SCORED], random)
    if -math.inf < usual <= level:
        raise DataError(
            "the model finds most pairs no likelier than unrelated sides: it is of other "
            "languages, or hardly trained; leave it out, or give another"
        )
    return [
        _suspect(pairs[row], "improbable")
        for row in np.flatnonzero(own < level).tolist()
    ]


def _scores(
    sources: Sequence[Pair],
    targets: Sequence[Pair],
    forward: FolderTranslator,
    backward: FolderTranslator | None,
) -> Floats:
    """Return how probable the sources of these pairs with the targets of those are; NaN for pairs
    that are too long.
    """
    sides = [pair.source for pair in sources], [pair.target for pair in targets]
    forth = forward.mean_log_probs(*sides)
    if backward is None:
        return forth
    back = backward.mean_log_probs(*sides[::-1])
    return (forth + back) / 2 - np.abs(forth - back)


def uncovered_pairs(
    pairs: Sequence[Pair], translator: FolderTranslator
) -> list[Suspect]:
    """Return the pairs whose targets attend to far less of the source than usual, with the words
    that receive least.

    The coverage of a source word is the attention that it receives from all target words, at most 1
    (Wu et al. 2016, equation 14).
    """
    known = [pair for pair in pairs if len(pair.source.split()) >= FEWEST_WORDS]
    coverages = list[tuple[Pair, float, str]]()
    for chunk in chunks(known, PAIRS_AT_ONCE):
        coverages += _coverages(chunk, translator)
    if not coverages:
        return []
    means = np.array([mean for _, mean, _ in coverages])
    low, usual = np.quantile(means, (0.16, 0.5))
    least = usual - ODD_DEVIATIONS * max(usual - low, LEAST_DEVIATION)
    return [
        _suspect(pair, "uncovered", words)
        for pair, mean, words in coverages
        if mean < least
    ]


def _coverages(
    pairs: Sequence[Pair], translator: FolderTranslator
) -> Iterator[tuple[Pair, float, str]]:
    """Yield each pair with the mean coverage of its source, and the words that are covered least;
    pairs that are too long are left out.
    """
    sources = [pair.source for pair in pairs]
    targets = [pair.target for pair in pairs]
    fits = ~np.isnan(translator.mean_log_probs(sources, targets))
    usable = [pairs[row] for row in np.flatnonzero(fits).tolist()]
    readings = read_all(
        translator,
        [pair.source for pair in usable],
        [pair.target for pair in usable],
    )
    for pair, reading in zip(usable, readings, strict=True):
        choice = translator.choice or last_layer(reading)
        words = reading.words(choice.layer, choice.head, choice.shifted)
        coverage = np.minimum(words.weights.sum(0), 1)
        least = [reading.source_text[index] for index in np.argsort(coverage)[:NAMED]]
        yield pair, float(coverage.mean()), ", ".join(least)


def _suspect(pair: Pair, kind: str, detail: str = "") -> Suspect:
    return Suspect(pair.line, kind, pair.source, pair.target, detail)
