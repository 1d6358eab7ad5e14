"""Law 6: a sentence alone equals the same sentence in any batch, padding and order, when others join or leave."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
import torch

from laws.models import alone, beam_rows, make, padded, pairs, repeated, select_rows, sources, targets, tensors_of
from laws.searching import beam, greedy
from regard.models import Batch, Model, ModelSettings, Source, State
from regard.search import Hypothesis, LengthPenalty

LENGTHS = (6, 1, 9, 4, 9, 2)
LONGEST = torch.tensor([7, 5, 6, 7, 4, 6])


def reordered(batch: Batch, order: list[int]) -> Batch:
    assert batch.keep is not None
    return Batch(batch.data[order], batch.keep[order])


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_teacher_forced_alone_in_a_batch_with_more_padding_and_in_another_order(settings: ModelSettings) -> None:
    model, target, order, given = make(settings), targets(6, 5), [3, 0, 5, 2, 1, 4], sources(settings, *LENGTHS)
    wanted = torch.cat([model(alone(given, row), target[row : row + 1]) for row in range(6)])
    for batch in (given, padded(given, 4)):
        torch.testing.assert_close(model(batch, target), wanted, rtol=0, atol=1e-4)
        torch.testing.assert_close(model(reordered(batch, order), target[order]), wanted[order], rtol=0, atol=1e-4)
    whole = padded(alone(given, 2), 0)
    assert whole.keep is not None
    assert bool(whole.keep.all()), "a mask that hides nothing is as good as none"
    torch.testing.assert_close(model(whole, target[2:3]), wanted[2:3], rtol=0, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_what_the_encoder_says_of_a_sentence_is_the_same_in_company(settings: ModelSettings) -> None:
    model, batch = make(settings), sources(settings, *LENGTHS)
    encoded = model.encoder(padded(batch, 3))
    assert encoded.outputs.shape == (*encoded.keep.shape, model.encoder.sizes.size)
    assert encoded.embedded.shape == (*encoded.keep.shape, model.encoder.sizes.embedding)
    assert encoded.summary.shape == (6, model.encoder.sizes.summary_rows, model.encoder.sizes.size)
    for row, kept in enumerate(encoded.keep):
        wanted = model.encoder(alone(batch, row))
        torch.testing.assert_close(encoded.outputs[row, kept], wanted.outputs[0], rtol=0, atol=1e-4)
        torch.testing.assert_close(encoded.embedded[row, kept], wanted.embedded[0], rtol=0, atol=1e-4)
        torch.testing.assert_close(encoded.summary[row : row + 1], wanted.summary, rtol=0, atol=1e-4)


@pytest.mark.parametrize("settings", pairs(2))
@pytest.mark.parametrize("width", [1, 4])
def test_searched_alone_in_a_batch_with_more_padding_and_in_another_order(settings: ModelSettings, width: int) -> None:
    order, penalty, given = [3, 0, 5, 2, 1, 4], LengthPenalty(0.6), sources(settings, *LENGTHS)

    def look(model: Model, batch: Batch, longest: torch.Tensor) -> list[list[Hypothesis]]:
        source = model.encode(batch)
        if width == 1:
            return [[h] for h in greedy(model, source, longest, penalty)]
        return beam(model, source, longest, width, penalty)

    for seed, ends in enumerate((0.02, 0.2)):
        model = make(settings, seed, ends)
        wanted = [look(model, alone(given, row), LONGEST[row : row + 1])[0] for row in range(6)]
        same(look(model, given, LONGEST), wanted)
        same(look(model, padded(given, 4), LONGEST), wanted)
        same(look(model, reordered(given, order), LONGEST[order]), [wanted[row] for row in order])


def same(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in some] for some in found] == [[h.ids for h in some] for some in wanted]
    for some, others in zip(found, wanted, strict=True):
        assert [h.score for h in some] == pytest.approx([h.score for h in others], abs=1e-4)


# --- others join and leave


T = 12


@dataclass
class Company:
    """Sentences that are decoded together, each from its own beginning, and what each would be told alone."""

    model: Model
    given: Batch
    beams: int
    target: torch.Tensor  # (6·K, T) what each hypothesis of each sentence writes
    wanted: torch.Tensor  # (6·K, T, D) what it is told
    members: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)  # pieces each member has taken in
    state: State | None = None
    source: Source | None = None
    checked: int = 0
    lengths: set[tuple[int, ...]] = field(default_factory=set)

    @classmethod
    def of(cls, settings: ModelSettings, beams: int) -> Company:
        model, given = make(settings), sources(settings, *LENGTHS)
        target, told = targets(6 * beams, T), []
        for row, own in enumerate(target.split(beams)):
            told.append(model(repeated(alone(given, row), beams), own))
        return cls(model, given, beams, target, torch.cat(told))

    def join(self, sentences: list[int]) -> None:
        source = self.model.encode(select_rows(self.given, sentences))
        state = self.model.begin(source).select(beam_rows(len(sentences), self.beams))
        self.source = source if self.source is None else self.source.join(source)
        self.state = state if self.state is None else self.state.join(state)
        self.members, self.done = self.members + sentences, self.done + [0] * len(sentences)

    def merge(self, other: Company) -> None:
        """Two companies in the middle of their work become one."""
        assert self.state is not None
        assert self.source is not None
        assert other.state is not None
        assert other.source is not None
        self.state, self.source = self.state.join(other.state), self.source.join(other.source)
        self.members, self.done = self.members + other.members, self.done + other.done

    def select(self, places: list[int]) -> None:
        """Who stays, and in which order."""
        assert self.state is not None
        assert self.source is not None
        self.state = self.state.select(self._rows(places))
        self.source = self.source.select(torch.tensor(places))
        self.members, self.done = [self.members[i] for i in places], [self.done[i] for i in places]

    def step(self, portion: int) -> None:
        assert self.state is not None
        assert self.source is not None
        rows = self._rows(self.members)
        places = torch.tensor(self.done).repeat_interleave(self.beams)[:, None] + torch.arange(portion)  # (N, T)
        assert self.state.position.tolist() == places[:, 0].tolist()
        found, self.state = self.model.step(self.target[rows[:, None], places], self.state, self.source)
        torch.testing.assert_close(found, self.wanted[rows[:, None], places], rtol=0, atol=1e-4)
        self.done = [n + portion for n in self.done]
        self.checked += found.shape[0] * portion
        self.lengths.add(tuple(self.done))

    def _rows(self, sentences: list[int]) -> torch.Tensor:
        firsts = torch.tensor(sentences) * self.beams
        return (firsts[:, None] + torch.arange(self.beams)).flatten()


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
@pytest.mark.parametrize("beams", [1, 3])
def test_others_join_and_leave_in_the_middle(settings: ModelSettings, beams: int) -> None:
    company = Company.of(settings, beams)
    company.join([0])
    company.step(3)
    company.join([1, 2])  # a longer source and a shorter one, with less behind them
    company.step(1)
    company.step(2)
    company.select([2, 0])  # one leaves, two change places
    company.step(1)
    company.join([3])
    company.join([1])  # the one who left comes again
    company.step(2)
    company.step(1)
    company.select([3, 2])  # the two with the longest past leave
    company.step(4)
    assert company.checked == beams * (3 + 3 + 6 + 2 + 8 + 4 + 8)


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs(2))
def test_two_companies_become_one_in_the_middle(settings: ModelSettings) -> None:
    alone_told = Company.of(settings, 2)
    for sizes in ((1, 5), (5, 1), (3, 3)):
        one, other = (replace(alone_told, lengths=set()) for _ in range(2))
        one.join([2, 1])
        one.step(sizes[0])
        other.join([4, 0, 3])
        other.step(sizes[1])
        one.merge(other)
        one.step(1)
        one.step(3)
        one.select([4, 1, 2])
        one.step(2)


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs(1))
@pytest.mark.parametrize("beams", [1, 2])
def test_any_order_of_joining_and_leaving(settings: ModelSettings, beams: int) -> None:
    company, chance = Company.of(settings, beams), random.Random(3)
    for _ in range(60):
        free = [row for row in range(6) if row not in company.members]
        staying = [i for i, done in enumerate(company.done) if done < T]
        if free and (not staying or chance.random() < 0.4):
            company.join(chance.sample(free, chance.randint(1, len(free))))
        elif staying and (len(staying) < len(company.members) or chance.random() < 0.3):
            company.select(chance.sample(staying, chance.randint(1, len(staying))))
        elif company.members:
            company.step(chance.randint(1, T - max(company.done)))
    assert any(len(set(done)) > 2 for done in company.lengths), "many pasts of different lengths at once"
    assert company.checked > 50


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs(1))
def test_joining_and_leaving_change_nothing_that_was_there(settings: ModelSettings) -> None:
    model, batch, parts = make(settings), sources(settings, *LENGTHS), []
    for row in (0, 3):
        source = model.encode(alone(batch, row))
        parts.append((source, model.step(targets(1, 3 + row), model.begin(source), source)[1]))
    values = [value for part in parts for value in part]
    before = [tensor.clone() for value in values for tensor in tensors_of(value)]
    (source, state), (other_source, other_state) = parts
    joined_source, joined = source.join(other_source), state.join(other_state)
    model.step(targets(2, 2), joined, joined_source)
    joined.select(torch.tensor([1]))
    after = [tensor for value in values for tensor in tensors_of(value)]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    back = [tensor for value in (source, other_source) for tensor in (value.summary,)]
    assert torch.equal(joined_source.summary, torch.cat(back))
    assert joined.position.tolist() == [3, 6]
