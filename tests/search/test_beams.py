"""Beams of many sentences: a step leaves its beams as they were, and equals are decided in order."""

from __future__ import annotations

import numpy as np
import pytest
from tables import random_table, source

from regard.search import (
    Beams,
    Decoding,
    SearchSettings,
    StepCandidates,
    SuppressTokens,
    Task,
    decode,
    search,
)

V = 9


@pytest.mark.parametrize("width", [1, 3])
def test_a_step_leaves_its_beams_unchanged(width: int) -> None:
    model = random_table(4, V, end=-1.0)
    tasks = [Task(id, 9) for id in range(4)]
    rules = (SuppressTokens(),)
    decoding = Decoding.begin(
        model, source(4), tasks, SearchSettings(beam=width), rules
    )
    names = ("tokens", "history", "log_probs", "scores", "lengths")

    for _ in range(4):
        before = [getattr(decoding.beams, name).copy() for name in names]
        first, _ = decoding.step(model)
        after = [getattr(decoding.beams, name) for name in names]
        assert all(map(np.array_equal, before, after))
        second, _ = decoding.step(model)
        assert np.array_equal(first.beams.history, second.beams.history)
        assert np.array_equal(first.beams.log_probs, second.beams.log_probs)
        decoding = first


def test_of_equal_scores_the_lower_token_is_selected_in_any_batch() -> None:
    tokens = np.tile([4, 5, 6, 7], (3, 1))
    flat = StepCandidates(np.full((3, 4), -1.0), tokens, np.full(3, -1.0))
    initial = Beams.initial([Task(i, 9) for i in range(3)], SearchSettings(beam=3))
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
        model, source(2), [Task(0, 100), Task(1, 41)], SearchSettings(beam=2)
    )

    assert [len(hypotheses[0].ids) for hypotheses in results] == [99, 40]


def test_a_search_of_no_sentences_is_empty() -> None:
    assert search(random_table(1, V), source(0), [], SearchSettings()) == []
