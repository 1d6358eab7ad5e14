"""Diverse beam search against a plain implementation, hypothesis by hypothesis."""

from __future__ import annotations

from collections import Counter

import pytest
from laws.searching import recomputed
from tables import Table, random_table, source

from regard.data.vocabulary import BOS, EOS
from regard.search import SearchSettings, Task, decode

V = 9
LONGEST = 7
Ids = tuple[int, ...]


def plain_search(
    table: Table, sentence: int, groups: int, width: int, diversity: float
) -> set[Ids]:
    """Keep a list of (score, ids) per group; at each step, extend one group after the other,
    candidate by candidate.
    """
    log_probs = table.logits[sentence].double().log_softmax(-1)
    beams: list[list[tuple[float, Ids]]] = [[(0.0, ())] for _ in range(groups)]
    finished: list[list[Ids]] = [[] for _ in range(groups)]
    for position in range(LONGEST):
        counts: Counter[int] = Counter()
        for g in range(groups):
            if len(finished[g]) >= width:
                continue
            tokens = [EOS] if position + 1 == LONGEST else range(EOS, V)
            candidates = [
                (
                    score
                    + float(log_probs[position, (BOS, *ids)[-1], token]) * (len(tokens) > 1)
                    - diversity * counts[token],
                    ids,
                    token,
                )
                for score, ids in beams[g]
                for token in tokens
            ]
            candidates.sort(key=lambda candidate: -candidate[0])
            finished[g] += [ids for _, ids, token in candidates[:width] if token == EOS]
            beams[g] = [(score, (*ids, token)) for score, ids, token in candidates if token != EOS][
                :width
            ]
            counts.update(ids[-1] for _, ids in beams[g])
    return {ids for group in finished for ids in group}


@pytest.mark.parametrize("diversity", [0.0, 0.7, 3.0])
@pytest.mark.parametrize(("groups", "width"), [(2, 1), (2, 2), (3, 2), (5, 1)])
def test_groups_equal_a_plain_implementation(groups: int, width: int, diversity: float) -> None:
    settings = SearchSettings(beam=groups * width, groups=groups, diversity=diversity)
    table = random_table(6, V, LONGEST, end=0.5)
    results = decode(table, source(6), [Task(n, LONGEST) for n in range(6)], settings)
    for n, hypotheses in enumerate(results):
        expected = {
            ids: recomputed(table, n, ids) / ((6 + len(ids)) / 6)
            for ids in plain_search(table, n, groups, width, diversity)
        }
        assert [h.ids for h in hypotheses] == sorted(
            expected, key=expected.__getitem__, reverse=True
        )[: groups * width]
        assert len({h.ids for h in hypotheses}) == len(hypotheses), (
            "a hypothesis that several groups found is returned once"
        )
        for h in hypotheses:
            assert h.log_prob == pytest.approx(recomputed(table, n, h.ids), abs=1e-4)


def test_one_group_equals_beam_search() -> None:
    table = random_table(6, V, LONGEST)
    tasks = [Task(n, LONGEST) for n in range(6)]
    assert decode(table, source(6), tasks, SearchSettings(beam=4, groups=1)) == decode(
        table, source(6), tasks, SearchSettings(beam=4)
    )


def test_a_strong_diversity_penalty_makes_groups_begin_differently() -> None:
    table = random_table(6, V, LONGEST, end=-60.0)
    tasks = [Task(n, LONGEST) for n in range(6)]
    alike, diverse = (
        decode(table, source(6), tasks, SearchSettings(beam=4, groups=4, diversity=strength))
        for strength in (0.0, 50.0)
    )
    assert all(len(hypotheses) == 1 for hypotheses in alike), (
        "without a penalty all groups find the same"
    )
    assert all(len({h.ids[:1] for h in hypotheses}) == 4 for hypotheses in diverse)
