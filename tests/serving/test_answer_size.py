"""Sizes of answers: estimated, refused, and in all no more than a limit; weights as JSON."""

from __future__ import annotations

import json
import threading

import msgspec
import numpy as np
import pytest

from regard.common.errors import UsageError
from regard.common.stopping import Stopped, stopped_by
from regard.serving.answer_size import AnswerLimit
from regard.serving.results import weights_json


def test_a_size_counts_hypotheses_heads_lengths_and_the_search() -> None:
    limit = AnswerLimit(1_000_000, {"encoder": 16, "cross": 16, "decoder": 16})
    roles = ("encoder", "cross", "decoder")
    one = limit.size([(10, 12)], 1, roles)
    assert one == 8 * 16 * (100 + 120 + 144) + 12 * 40
    assert limit.size([(10, 12)] * 3, 5, roles) == 15 * one
    assert limit.size([(10, 12)], 1, ("cross",)) < one
    assert limit.size([(10, 12)], 1, roles, traced=5) > one
    with pytest.raises(
        UsageError, match=r"`answer_limit` is 1,000,000; ask for fewer hypotheses"
    ):
        limit.check(limit.size([(10, 12)], 100, roles))


def test_answers_wait_until_there_is_room() -> None:
    room = AnswerLimit(10, {})
    begun = threading.Event()

    def wait() -> None:
        with room.holding(5):
            begun.set()

    waiting = threading.Thread(target=wait)
    with room.holding(6):
        waiting.start()
        assert not begun.wait(0.2)

    assert begun.wait(60)

    waiting.join()
    stop = threading.Event()
    stop.set()
    with room.holding(10), stopped_by(stop), pytest.raises(Stopped), room.holding(1):
        pass

    with room.holding(10):
        pass


def test_weights_are_written_with_five_digits() -> None:
    weights = np.array([[[0.123456, 1.0], [float("nan"), 0.0]]], np.float32)
    assert (
        msgspec.json.encode({"a": weights_json(weights)})
        == b'{"a":[[[0.12346,1.0],[0.0,0.0]]]}'
    )

    long = np.random.default_rng(1).random((2, 70, 90), np.float32)
    for array in (long, long[:0]):
        written = np.array(json.loads(bytes(weights_json(array)))).reshape(array.shape)
        assert np.abs(written - array).max(initial=0) <= 6e-6
