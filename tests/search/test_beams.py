"""Beams of many sentences: sentences join during decoding, leave it, and never depend on each
other.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from tables import Table, random_table, source

from regard.data.vocabulary import EOS
from regard.models import Source
from regard.runtime.engine import BatchLimits, DecodeRequest, decode_requests
from regard.search import (
    Beams,
    Decoding,
    Hypothesis,
    SearchSettings,
    StepCandidates,
    SuppressTokens,
    Task,
    decode,
    search,
)

B = 12
V = 9
RULES = (SuppressTokens(),)


def sources(tasks: list[Task]) -> Source:
    return source(B).select(torch.tensor([task.id for task in tasks]))


def decode_alone(
    model: Table, settings: SearchSettings, tasks: list[Task]
) -> dict[int, list[Hypothesis]]:
    return {task.id: decode(model, sources([task]), [task], settings)[0] for task in tasks}


@pytest.mark.parametrize("width", [1, 2, 5])
def test_sentences_that_join_and_leave_are_decoded_as_if_alone(width: int) -> None:
    settings = SearchSettings(beam=width, length_penalty=0.6)
    rng = random.Random(width)
    for seed in range(6):
        model = random_table(B, V, end=(-1.0, 1.0, 2.0)[seed % 3], seed=seed)
        tasks = [Task(id, rng.randint(1, 30)) for id in range(B)]
        waiting = list(tasks)
        results = dict[int, list[Hypothesis]]()
        decoding = None
        sizes = set[int]()
        lengths = set[int]()
        while waiting or decoding:
            finished = []
            if waiting and (not decoding or rng.random() < 0.6):
                count = rng.randint(1, 6)
                entering = waiting[:count]
                waiting = waiting[count:]
                begun, finished = Decoding.begin(
                    model, sources(entering), entering, settings, RULES
                ).step(model)
                decoding = decoding.join(begun) if decoding and begun else decoding or begun
            if decoding:
                sizes.add(len(decoding))
                lengths.add(len(set(decoding.beams.lengths.tolist())))
                decoding, ended = decoding.step(model)
                finished += ended
            results |= {task.id: hypotheses for task, hypotheses in finished}
        assert results == decode_alone(model, settings, tasks)
        assert max(sizes) > 2
        assert max(lengths) > 1, "prefixes of different lengths side by side"


@pytest.mark.parametrize("width", [1, 3])
def test_continuous_batching_of_tables_equals_decoding_alone(width: int) -> None:
    model = random_table(B, V, end=1.0)
    settings = SearchSettings(beam=width)
    tasks = [Task(id, 5 + id) for id in range(B)]
    requests = [
        DecodeRequest([id, *range(4, 4 + id % 5), EOS], task) for id, task in enumerate(tasks)
    ]
    results = decode_requests(model, requests, settings, limits=BatchLimits(3 * width, 30))
    assert dict(enumerate(results)) == decode_alone(model, settings, tasks)


@pytest.mark.parametrize("width", [1, 3])
def test_a_step_leaves_its_beams_unchanged(width: int) -> None:
    model = random_table(B, V, end=-1.0)
    tasks = [Task(id, 9) for id in range(4)]
    decoding = Decoding.begin(model, sources(tasks), tasks, SearchSettings(beam=width), RULES)
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
    flat = StepCandidates(np.full((3, 4), -1.0), np.tile([4, 5, 6, 7], (3, 1)), np.full(3, -1.0))
    beams = (
        Beams.initial([Task(i, 9) for i in range(3)], SearchSettings(beam=3)).advance(flat).beams
    )
    assert beams.tokens.tolist() == [4, 5, 6] * 3
    wide = StepCandidates(*(np.repeat(array, 3, 0) for array in flat))
    result = beams.advance(wide)
    assert result.beams.tokens.tolist() == [4, 5, 6] * 3
    assert result.parent_rows is not None
    assert result.parent_rows.tolist() == [0, 0, 0, 3, 3, 3, 6, 6, 6]


def test_greedy_search_selects_no_rows_until_a_sentence_ends() -> None:
    beams = Beams.initial([Task(i, 9) for i in range(2)], SearchSettings(beam=1))
    result = beams.advance(
        StepCandidates(np.full((2, 1), -1.0), np.array([[5], [6]]), np.full(2, -9.0))
    )
    assert result.parent_rows is None
    assert result.kept_sentences is None
    assert result.finished == []
    step = StepCandidates(np.full((2, 1), -1.0), np.array([[EOS], [7]]), np.array([-1.0, -9.0]))
    result = result.beams.advance(step)
    assert result.parent_rows is not None
    assert result.kept_sentences is not None
    assert (result.parent_rows.tolist(), result.kept_sentences.tolist()) == ([1], [1])
    (finished,) = result.finished
    assert (finished.task.id, finished.hypotheses[0].ids, finished.hypotheses[0].log_prob) == (
        0,
        (5,),
        -2.0,
    )


def test_the_history_grows_for_long_prefixes() -> None:
    model = random_table(2, V, end=-60.0)
    results = decode(model, source(2), [Task(0, 100), Task(1, 41)], SearchSettings(beam=2))
    assert [len(hypotheses[0].ids) for hypotheses in results] == [99, 40]


def test_a_search_of_no_sentences_is_empty() -> None:
    assert search(random_table(1, V), source(0), [], SearchSettings()) == []
