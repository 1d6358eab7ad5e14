"""Diverse beam search against a plain one, hypothesis by hypothesis."""

from __future__ import annotations

from collections import Counter

import pytest
from laws.searching import recomputed
from tables import Table, random_table, source

from regard.data.vocabulary import BOS, EOS
from regard.search import SearchSettings, Task, decode

V, LONGEST = 9, 7
Ids = tuple[int, ...]


def plain(table: Table, sentence: int, groups: int, width: int, diversity: float) -> set[Ids]:
    """Every group a list of (rank, ids); each step, each group in its turn, each continuation looked at by itself."""
    likely = table.logits[sentence].double().log_softmax(-1)
    beams: list[list[tuple[float, Ids]]] = [[(0.0, ())] for _ in range(groups)]
    found: list[list[Ids]] = [[] for _ in range(groups)]
    for place in range(LONGEST):
        taken: Counter[int] = Counter()
        for g in range(groups):
            if len(found[g]) >= width:
                continue
            pieces = [EOS] if place + 1 == LONGEST else range(EOS, V)
            options = [
                (
                    rank + float(likely[place, (BOS, *ids)[-1], piece]) * (len(pieces) > 1) - diversity * taken[piece],
                    ids,
                    piece,
                )
                for rank, ids in beams[g]
                for piece in pieces
            ]
            options.sort(key=lambda option: -option[0])
            found[g] += [ids for _, ids, piece in options[:width] if piece == EOS]
            beams[g] = [(rank, (*ids, piece)) for rank, ids, piece in options if piece != EOS][:width]
            taken.update(ids[-1] for _, ids in beams[g])
    return {ids for some in found for ids in some}


@pytest.mark.parametrize("diversity", [0.0, 0.7, 3.0])
@pytest.mark.parametrize(("groups", "width"), [(2, 1), (2, 2), (3, 2), (5, 1)])
def test_groups_find_what_a_plain_search_finds(groups: int, width: int, diversity: float) -> None:
    settings = SearchSettings(beam=groups * width, groups=groups, diversity=diversity)
    table = random_table(6, V, LONGEST, end=0.5)
    found = decode(table, source(6), [Task(n, LONGEST) for n in range(6)], settings)
    for n, some in enumerate(found):
        told = {
            ids: recomputed(table, n, ids) / ((6 + len(ids)) / 6) for ids in plain(table, n, groups, width, diversity)
        }
        assert [h.ids for h in some] == sorted(told, key=told.__getitem__, reverse=True)[: groups * width]
        assert len({h.ids for h in some}) == len(some), "what several groups found is given once"
        for h in some:
            assert h.log_prob == pytest.approx(recomputed(table, n, h.ids), abs=1e-4)


def test_one_group_is_a_beam() -> None:
    table, tasks = random_table(6, V, LONGEST), [Task(n, LONGEST) for n in range(6)]
    assert decode(table, source(6), tasks, SearchSettings(beam=4, groups=1)) == decode(
        table, source(6), tasks, SearchSettings(beam=4)
    )


def test_groups_that_avoid_each_other_begin_differently() -> None:
    table, tasks = random_table(6, V, LONGEST, end=-60.0), [Task(n, LONGEST) for n in range(6)]
    alike, diverse = (
        decode(table, source(6), tasks, SearchSettings(beam=4, groups=4, diversity=strength))
        for strength in (0.0, 50.0)
    )
    assert all(len(some) == 1 for some in alike), "without a penalty all groups find the same"
    assert all(len({h.ids[:1] for h in some}) == 4 for some in diverse)
