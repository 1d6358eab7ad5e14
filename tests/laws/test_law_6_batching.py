"""Law 6: a sentence alone equals itself in any batch, padding and order, and while other sentences join or leave."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field, replace

import pytest
import torch
from limits import seeds

from laws.models import (
    alone,
    beam_rows,
    in_turn,
    kinds,
    make,
    padded,
    pairs,
    repeated,
    select_rows,
    sources,
    targets,
    tensors_of,
)
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
def test_teacher_forcing_alone_equals_any_batch_padding_and_order(settings: ModelSettings) -> None:
    model, target, order, original = make(settings), targets(6, 5), [3, 0, 5, 2, 1, 4], sources(settings, *LENGTHS)
    expected = torch.cat([model(alone(original, row), target[row : row + 1]) for row in range(6)])
    for batch in (original, padded(original, 4)):
        torch.testing.assert_close(model(batch, target), expected, rtol=1e-6, atol=1e-4)
        torch.testing.assert_close(model(reordered(batch, order), target[order]), expected[order], rtol=1e-6, atol=1e-4)
    whole = padded(alone(original, 2), 0)
    assert whole.keep is not None
    assert bool(whole.keep.all()), "a mask that hides nothing equals no mask"
    torch.testing.assert_close(model(whole, target[2:3]), expected[2:3], rtol=1e-6, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_encoder_outputs_alone_equal_those_in_a_batch(settings: ModelSettings) -> None:
    model, batch = make(settings), sources(settings, *LENGTHS)
    encoded = model.encoder(padded(batch, 3))
    assert encoded.outputs.shape == (*encoded.keep.shape, model.encoder.sizes.size)
    assert encoded.embedded.shape == (*encoded.keep.shape, model.encoder.sizes.embedding)
    assert encoded.summary.shape == (6, model.encoder.sizes.summary_rows, model.encoder.sizes.size)
    for row, keep in enumerate(encoded.keep):
        expected = model.encoder(alone(batch, row))
        torch.testing.assert_close(encoded.outputs[row, keep], expected.outputs[0], rtol=1e-6, atol=1e-4)
        torch.testing.assert_close(encoded.embedded[row, keep], expected.embedded[0], rtol=1e-6, atol=1e-4)
        torch.testing.assert_close(encoded.summary[row : row + 1], expected.summary, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize(("settings", "width"), in_turn(pairs(), [4, 1]))
def test_search_alone_equals_any_batch_padding_and_order(settings: ModelSettings, width: int) -> None:
    order, penalty, original = [3, 0, 5, 2, 1, 4], LengthPenalty(0.6), sources(settings, *LENGTHS)

    def search(model: Model, batch: Batch, longest: torch.Tensor) -> list[list[Hypothesis]]:
        source = model.encode(batch)
        if width == 1:
            return [[h] for h in greedy(model, source, longest, penalty)]
        return beam(model, source, longest, width, penalty)

    def is_sharp() -> bool:
        """Return whether no hypotheses tie: weights that differ in their last bits lead to the same."""
        others = [search(nudged(model, draw), original, LONGEST) for draw in range(3)]
        return all(
            [[h.ids for h in row] for row in rows] == [[h.ids for h in row] for row in expected] for rows in others
        )

    for ends in (0.02, 0.2):
        for seed in seeds(is_sharp, "no hypotheses tie"):
            model = make(settings, seed, ends)
            expected = [search(model, alone(original, row), LONGEST[row : row + 1])[0] for row in range(6)]
        assert_same(search(model, original, LONGEST), expected)
        assert_same(search(model, padded(original, 4), LONGEST), expected)
        assert_same(search(model, reordered(original, order), LONGEST[order]), [expected[row] for row in order])


@torch.no_grad()
def nudged(model: Model, draw: int) -> Model:
    """Copy a model with weights changed in their last bits."""
    other, generator = copy.deepcopy(model), torch.Generator().manual_seed(draw)
    for parameter in other.parameters():
        parameter.mul_(1 + 1e-6 * torch.randn(parameter.shape, generator=generator))
    return other


def assert_same(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in row] for row in actual] == [[h.ids for h in row] for row in expected]
    for hypotheses, references in zip(actual, expected, strict=True):
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in references], abs=1e-4)


# --- sentences join and leave


T = 12


@dataclass
class RunningBatch:
    """Sentences that are decoded together, each begun at its own time, and the features of each alone."""

    model: Model
    batch: Batch
    beams: int
    target: torch.Tensor  # (6·K, T) targets of each hypothesis of each sentence
    expected: torch.Tensor  # (6·K, T, D) their features, decoded alone
    members: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)  # tokens that each member has decoded
    state: State | None = None
    source: Source | None = None
    checked: int = 0
    lengths: set[tuple[int, ...]] = field(default_factory=set)

    @classmethod
    def of(cls, settings: ModelSettings, beams: int) -> RunningBatch:
        model, batch = make(settings), sources(settings, *LENGTHS)
        target, features = targets(6 * beams, T), []
        for row, own in enumerate(target.split(beams)):
            features.append(model(repeated(alone(batch, row), beams), own))
        return cls(model, batch, beams, target, torch.cat(features))

    def join(self, sentences: list[int]) -> None:
        source = self.model.encode(select_rows(self.batch, sentences))
        state = self.model.begin(source).select(beam_rows(len(sentences), self.beams))
        self.source = source if self.source is None else self.source.join(source)
        self.state = state if self.state is None else self.state.join(state)
        self.members, self.done = self.members + sentences, self.done + [0] * len(sentences)

    def merge(self, other: RunningBatch) -> None:
        """Take over the sentences of another running batch."""
        assert self.state is not None
        assert self.source is not None
        assert other.state is not None
        assert other.source is not None
        self.state, self.source = self.state.join(other.state), self.source.join(other.source)
        self.members, self.done = self.members + other.members, self.done + other.done

    def select(self, indices: list[int]) -> None:
        """Keep these members, in this order."""
        assert self.state is not None
        assert self.source is not None
        self.state = self.state.select(self._rows(indices))
        self.source = self.source.select(torch.tensor(indices))
        self.members, self.done = [self.members[i] for i in indices], [self.done[i] for i in indices]

    def step(self, portion: int) -> None:
        assert self.state is not None
        assert self.source is not None
        rows = self._rows(self.members)
        positions = torch.tensor(self.done).repeat_interleave(self.beams)[:, None] + torch.arange(portion)  # (N, T)
        assert self.state.position.tolist() == positions[:, 0].tolist()
        features, self.state = self.model.step(self.target[rows[:, None], positions], self.state, self.source)
        torch.testing.assert_close(features, self.expected[rows[:, None], positions], rtol=1e-6, atol=1e-4)
        self.done = [n + portion for n in self.done]
        self.checked += features.shape[0] * portion
        self.lengths.add(tuple(self.done))

    def _rows(self, sentences: list[int]) -> torch.Tensor:
        firsts = torch.tensor(sentences) * self.beams
        return (firsts[:, None] + torch.arange(self.beams)).flatten()


@torch.no_grad()
@pytest.mark.parametrize(("settings", "beams"), in_turn(pairs(), [3, 1]))
def test_sentences_join_and_leave_a_running_batch(settings: ModelSettings, beams: int) -> None:
    running = RunningBatch.of(settings, beams)
    running.join([0])
    running.step(3)
    running.join([1, 2])  # a longer source and a shorter one, which begin later
    running.step(1)
    running.step(2)
    running.select([2, 0])  # one leaves, two swap positions
    running.step(1)
    running.join([3])
    running.join([1])  # the one that left joins again
    running.step(2)
    running.step(1)
    running.select([3, 2])  # the two with the longest prefixes leave
    running.step(4)
    assert running.checked == beams * (3 + 3 + 6 + 2 + 8 + 4 + 8)


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_two_running_batches_merge(settings: ModelSettings) -> None:
    initial = RunningBatch.of(settings, 2)
    for sizes in ((1, 5), (5, 1), (3, 3)):
        first, second = (replace(initial, lengths=set()) for _ in range(2))
        first.join([2, 1])
        first.step(sizes[0])
        second.join([4, 0, 3])
        second.step(sizes[1])
        first.merge(second)
        first.step(1)
        first.step(3)
        first.select([4, 1, 2])
        first.step(2)


@torch.no_grad()
@pytest.mark.parametrize(("settings", "beams"), in_turn(kinds(), [2, 1]))
def test_sentences_join_and_leave_in_any_order(settings: ModelSettings, beams: int) -> None:
    running, rng = RunningBatch.of(settings, beams), random.Random(3)
    for _ in range(60):
        free = [row for row in range(6) if row not in running.members]
        staying = [i for i, done in enumerate(running.done) if done < T]
        if free and (not staying or rng.random() < 0.4):
            running.join(rng.sample(free, rng.randint(1, len(free))))
        elif staying and (len(staying) < len(running.members) or rng.random() < 0.3):
            running.select(rng.sample(staying, rng.randint(1, len(staying))))
        elif running.members:
            running.step(rng.randint(1, T - max(running.done)))
    assert any(len(set(done)) > 2 for done in running.lengths), "prefixes of more than two lengths at once"
    assert running.checked > 50


@torch.no_grad()
@pytest.mark.parametrize("settings", kinds())
def test_joining_and_leaving_change_no_existing_tensor(settings: ModelSettings) -> None:
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
    assert all(torch.equal(copy, tensor) for copy, tensor in zip(before, after, strict=True))
    back = [tensor for value in (source, other_source) for tensor in (value.summary,)]
    assert torch.equal(joined_source.summary, torch.cat(back))
    assert joined.position.tolist() == [3, 6]
