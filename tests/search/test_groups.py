"""Diverse beam search against a plain implementation, hypothesis by hypothesis."""

from __future__ import annotations

from collections import Counter

import pytest
from laws.searching import recomputed
from tables import Table, random_table, source, tasks_of

from regard.data.vocabulary import BOS, EOS
from regard.search import SearchSettings, decode

V = 9
LONGEST = 7
Ids = tuple[int, ...]


def plain_search(
    table: Table,
    sentence: int,
    groups: int,
    width: int,
    diversity: float,
) -> set[Ids]:
    """Keep a list of (score, ids) per group; at each step, extend one group after the other,
    candidate by candidate.
    """
    log_probs = table.logits[sentence].double().log_softmax(-1)
    beams: list[list[tuple[float, Ids]]] = [[(0.0, ())] for _ in range(groups)]
    finished: list[list[Ids]] = [[] for _ in range(groups)]

    for position in range(LONGEST):
        is_last = position + 1 == LONGEST
        counts: Counter[int] = Counter()

        for g in range(groups):
            if len(finished[g]) >= width:
                continue
            candidates = []

            for score, ids in beams[g]:
                for token in [EOS] if is_last else range(EOS, V):
                    gain = float(log_probs[position, (BOS, *ids)[-1], token])
                    total = score - diversity * counts[token]
                    candidates.append(
                        (total if is_last else total + gain, (*ids, token))
                    )

            candidates.sort(key=lambda candidate: -candidate[0])
            finished[g] += [ids[:-1] for _, ids in candidates[:width] if ids[-1] == EOS]
            going_on = [
                candidate for candidate in candidates if candidate[1][-1] != EOS
            ]
            beams[g] = going_on[:width]
            counts.update(ids[-1] for _, ids in beams[g])

    return {ids for group in finished for ids in group}


@pytest.mark.parametrize("diversity", [0.0, 0.7])
@pytest.mark.parametrize(("groups", "width"), [(3, 2), (5, 1)])
def test_groups_equal_a_plain_implementation(
    groups: int,
    width: int,
    diversity: float,
) -> None:
    settings = SearchSettings(
        beam=groups * width,
        groups=groups,
        diversity=diversity,
    )
    table = random_table(6, V, LONGEST, end=0.5)
    results = decode(table, source(6), tasks_of(6, LONGEST), settings)

    for n, hypotheses in enumerate(results):
        scores = {}
        for ids in plain_search(table, n, groups, width, diversity):
            scores[ids] = recomputed(table, n, ids) / ((6 + len(ids)) / 6)
        # A hypothesis that several groups found is returned once.
        ranked = sorted(scores, key=scores.__getitem__, reverse=True)

        assert [h.ids for h in hypotheses] == ranked[: groups * width]
