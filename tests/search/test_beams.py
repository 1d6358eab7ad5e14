"""The front alone: sentences enter in the middle, leave, change places, and never know of each other."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from tables import chance, source

from regard.data.vocabulary import EOS
from regard.models import Source, State
from regard.search import Beams, DecodingModel, Hypothesis, SearchSettings, StepCandidates, Task, decode, search
from regard.search.loop import best

B, V = 12, 9


class Company:
    """A front and its model, step by step, as whoever serves sentences that come and go would drive them."""

    def __init__(self, verbs: DecodingModel, settings: SearchSettings, tasks: list[Task]) -> None:
        self.verbs, self.settings = verbs, settings
        self.front, self.source = Beams.open(tasks, settings), self._source(tasks)
        self.state = verbs.begin(self.source)
        self.done: dict[int, list[Hypothesis]] = {}

    def _source(self, tasks: list[Task]) -> Source:
        return source(B).select(torch.tensor([task.name for task in tasks]))

    def step(self) -> None:
        features, state = self.verbs.step(torch.from_numpy(self.front.tokens)[:, None], self.state, self.source)
        moved = self.front.advance(best(self.verbs, features, self.front))
        self._follow(moved.beams, state, moved.rows, moved.staying)
        self.done |= {task.name: hypotheses for task, hypotheses in moved.finished}

    def _follow(self, front: Beams, state: State, rows: object, staying: object) -> None:
        self.front = front
        self.state = state if rows is None else state.select(torch.as_tensor(rows))
        self.source = self.source if staying is None else self.source.select(torch.as_tensor(staying))

    def join(self, tasks: list[Task], at_once: bool) -> None:
        """New sentences enter: widened before their first step, or after they have made it by themselves."""
        new = Company(self.verbs, self.settings, tasks)
        if at_once:
            front, rows = new.front.widened()
            new._follow(front, new.state, rows, None)
        else:
            new.step()
        if self.front.width < new.front.width:
            front, rows = self.front.widened()
            self._follow(front, self.state, rows, None)
        self.front, self.state = self.front.join(new.front), self.state.join(new.state)
        self.source, self.done = self.source.join(new.source), self.done | new.done

    def select(self, places: list[int]) -> None:
        rows = [a * self.front.width + k for a in places for k in range(self.front.width)]
        self._follow(self.front.select(np.array(places)), self.state, rows, places)


def alone(verbs: DecodingModel, settings: SearchSettings, tasks: list[Task]) -> dict[int, list[Hypothesis]]:
    return {
        task.name: decode(verbs, source(B).select(torch.tensor([task.name])), [task], settings)[0] for task in tasks
    }


@pytest.mark.parametrize("width", [1, 2, 5])
def test_sentences_that_come_and_go_are_written_as_if_alone(width: int) -> None:
    settings, dice = SearchSettings(beam=width, length_penalty=0.6), random.Random(width)
    for seed in range(6):
        verbs = chance(B, V, end=(-1.0, 1.0, 2.0)[seed % 3], seed=seed)
        tasks = [Task(name, dice.randint(1, 30)) for name in range(B)]
        wanted, waiting = alone(verbs, settings, tasks), tasks[2:]
        company, sizes, lengths = Company(verbs, settings, tasks[:2]), set[int](), set[int]()
        while waiting or len(company.front):
            if waiting and (not len(company.front) or dice.random() < 0.4):
                count = dice.randint(1, 3)
                company.join(waiting[:count], dice.random() < 0.5)
                waiting = waiting[count:]
            if dice.random() < 0.3 and len(company.front):
                company.select(dice.sample(range(len(company.front)), len(company.front)))
            if len(company.front):
                sizes.add(len(company.front))
                lengths.add(len(set(company.front.lengths.tolist())))
                company.step()
        assert company.done == wanted
        assert max(sizes) > 2
        assert max(lengths) > 1, "beginnings of different lengths side by side"


@pytest.mark.parametrize("width", [1, 3])
def test_a_front_is_a_value(width: int) -> None:
    verbs = chance(B, V, end=-1.0)
    company = Company(verbs, SearchSettings(beam=width), [Task(name, 9) for name in range(4)])
    for _ in range(4):
        front, state, own = company.front, company.state, company.source
        before = [getattr(front, name).copy() for name in ("tokens", "history", "totals", "ranks", "lengths")]
        company.step()
        first = company.front
        after = [getattr(front, name) for name in ("tokens", "history", "totals", "ranks", "lengths")]
        assert all(map(np.array_equal, before, after))
        company.front, company.state, company.source = front, state, own
        company.step()
        assert np.array_equal(first.history, company.front.history)
        assert np.array_equal(first.totals, company.front.totals)


def test_of_equally_good_continuations_the_lower_number_is_taken_in_any_company() -> None:
    flat = StepCandidates(np.full((3, 4), -1.0), np.tile([4, 5, 6, 7], (3, 1)), np.full(3, -1.0))
    front = Beams.open([Task(i, 9) for i in range(3)], SearchSettings(beam=3)).advance(flat).beams
    assert front.tokens.tolist() == [4, 5, 6] * 3
    wide = StepCandidates(*(np.repeat(some, 3, 0) for some in flat))
    moved = front.advance(wide)
    assert moved.beams.tokens.tolist() == [4, 5, 6] * 3
    assert moved.rows is not None
    assert moved.rows.tolist() == [0, 0, 0, 3, 3, 3, 6, 6, 6]


def test_greedy_search_of_sentences_that_all_go_on_needs_no_rows() -> None:
    front = Beams.open([Task(i, 9) for i in range(2)], SearchSettings(beam=1))
    moved = front.advance(StepCandidates(np.full((2, 1), -1.0), np.array([[5], [6]]), np.full(2, -9.0)))
    assert moved.rows is None
    assert moved.staying is None
    assert moved.finished == []
    moved = moved.beams.advance(StepCandidates(np.full((2, 1), -1.0), np.array([[EOS], [7]]), np.array([-1.0, -9.0])))
    assert moved.rows is not None
    assert moved.staying is not None
    assert (moved.rows.tolist(), moved.staying.tolist()) == ([1], [1])
    (done,) = moved.finished
    assert (done.task.name, done.hypotheses[0].ids, done.hypotheses[0].log_prob) == (0, (5,), -2.0)


def test_beginnings_longer_than_the_room_for_them() -> None:
    verbs = chance(2, V, end=-60.0)
    found = decode(verbs, source(2), [Task(0, 100), Task(1, 41)], SearchSettings(beam=2))
    assert [len(some[0].ids) for some in found] == [99, 40]


def test_no_sentences_no_search() -> None:
    assert search(chance(1, V), source(0), [], SearchSettings()) == []
