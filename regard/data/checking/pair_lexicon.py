"""Scores of pairs of texts by a lexicon: whether their words translate each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.data.checking.key_index import Ints
from regard.data.checking.lexicon import Floats, Lexicon, Stems
from regard.data.checking.separation import separating_score
from regard.data.pairs import Pair

LONGEST_CHECKED = 2_000
"""Characters of a side that are looked at."""
SCORED = 8_000
"""Pairs from which the score of unrelated sides is told."""
SCORED_AT_ONCE = 1_024
"""Pairs whose arrays fit the cache of a processor."""
FEWEST_STEMS = 2
"""Known stems below which the lexicon does not judge."""


@dataclass(frozen=True)
class PairLexicon:
    """A lexicon with the stems of both sides by their ids."""

    tables: tuple[dict[str, int], dict[str, int]]
    lexicon: Lexicon

    @classmethod
    def learn(cls, pairs: Sequence[Pair]) -> PairLexicon | None:
        """Learn from pairs; None if a side has no words, as keys have none."""
        tables = dict[str, int](), dict[str, int]()
        sources, targets = map(Stems, read_texts(pairs), tables)
        sizes = len(tables[0]), len(tables[1])
        if not all(sizes):
            return None
        rows = np.arange(len(pairs))
        return cls(tables, Lexicon.learn(sources, targets, rows, sizes))

    def scores(
        self,
        sources: Sequence[Pair],
        targets: Sequence[Pair],
        is_learnt: npt.NDArray[np.bool_],
    ) -> Floats:
        """Return how well the sources of these pairs and the targets of those translate each other;
        NaN if too few words are known.

        `is_learnt`: which of them, so combined, the lexicon was learnt from.
        """
        sides = (
            Stems(read_texts(sources)[0], self.tables[0], grows=False),
            Stems(read_texts(targets)[1], self.tables[1], grows=False),
        )
        result = np.full(len(sources), math.nan)
        for learnt in (False, True):
            all_rows: Ints = np.flatnonzero(is_learnt == learnt)
            for start in range(0, len(all_rows), SCORED_AT_ONCE):
                rows = all_rows[start : start + SCORED_AT_ONCE]
                scores, known = self.lexicon.scores(*sides, rows, learnt)
                result[rows] = np.where(known >= FEWEST_STEMS, scores, math.nan)
        return result

    def levels(self, pairs: Sequence[Pair]) -> tuple[float, float]:
        """Return the score below which the sides of a pair are unrelated, and the median score of
        the pairs, from which the lexicon was learnt (`separating_score`).
        """
        scored = pairs[:: 1 + len(pairs) // SCORED]
        are_learnt = np.ones(len(scored), np.bool_)
        own = self.scores(scored, scored, are_learnt)
        drawn = np.random.default_rng(0).permutation(len(scored))
        others = [scored[index] for index in drawn.tolist()]
        return separating_score(own, self.scores(scored, others, ~are_learnt))


def read_texts(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """Return the sources and the targets, as far as they are looked at."""
    sources = [pair.source[:LONGEST_CHECKED] for pair in pairs]
    return sources, [pair.target[:LONGEST_CHECKED] for pair in pairs]
