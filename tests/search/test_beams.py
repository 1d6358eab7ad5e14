"""Beams of many sentences: a step leaves its beams as they were, and equals are decided in order."""

from __future__ import annotations

import numpy as np
from tables import random_table, source, tasks_of

from regard.search import (
    Beams,
    SearchSettings,
    StepCandidates,
    Task,
    decode,
    search,
)

V = 9


def test_of_equal_scores_the_lower_token_is_selected_in_any_batch() -> None:
    tokens = np.tile([4, 5, 6, 7], (3, 1))
    flat = StepCandidates(np.full((3, 4), -1.0), tokens, np.full(3, -1.0))
    initial = Beams.initial(tasks_of(3, 9), SearchSettings(beam=3))
    beams = initial.advance(flat).beams

    assert beams.tokens.tolist() == [4, 5, 6] * 3

    wide = StepCandidates(*(np.repeat(array, 3, 0) for array in flat))
    result = beams.advance(wide)

    assert result.beams.tokens.tolist() == [4, 5, 6] * 3
    assert result.parent_rows is not None
    assert result.parent_rows.tolist() == [0, 0, 0, 3, 3, 3, 6, 6, 6]


def test_the_history_grows_for_long_prefixes() -> None:
    model = random_table(2, V, end=-60.0)
    results = decode(
        model,
        source(2),
        [Task(0, 100), Task(1, 41)],
        SearchSettings(beam=2),
    )

    assert [len(hypotheses[0].ids) for hypotheses in results] == [99, 40]


def test_a_search_of_no_sentences_is_empty() -> None:
    assert search(random_table(1, V), source(0), [], SearchSettings()) == []
