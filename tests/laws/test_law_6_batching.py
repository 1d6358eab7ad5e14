"""Law 6: a sentence alone equals itself in any batch, padding and order, and while other sentences
join or leave.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field, replace

import pytest
import torch
from limits import seeds
from torch import nn

from laws.models import (
    TARGET_VOCABULARY,
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
from regard.attention import Memory
from regard.common.errors import UsageError
from regard.layers.embedding import Embedding, OutputProjection
from regard.models import Batch, Decoder, Encoded, Ensemble, Model, ModelSettings, Source, State
from regard.runtime.engine.continuous_batching import BatchLimits, DecodeRequest, decode_requests
from regard.search import Hypothesis, LengthPenalty, SearchSettings, Task

LENGTHS = (6, 1, 9, 4, 9, 2)
LONGEST = torch.tensor([7, 5, 6, 7, 4, 6])


def reordered(batch: Batch, order: list[int]) -> Batch:
    assert batch.keep is not None
    return Batch(batch.data[order], batch.keep[order])


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_teacher_forcing_alone_equals_any_batch_padding_and_order(settings: ModelSettings) -> None:
    model = make(settings)
    target = targets(6, 5)
    order = [3, 0, 5, 2, 1, 4]
    original = sources(settings, *LENGTHS)
    expected = torch.cat([model(alone(original, row), target[row : row + 1]) for row in range(6)])
    for batch in (original, padded(original, 4)):
        torch.testing.assert_close(model(batch, target), expected, rtol=1e-6, atol=1e-4)
        torch.testing.assert_close(
            model(reordered(batch, order), target[order]), expected[order], rtol=1e-6, atol=1e-4
        )
    whole = padded(alone(original, 2), 0)
    assert whole.keep is not None
    assert bool(whole.keep.all()), "a mask that hides nothing equals no mask"
    torch.testing.assert_close(model(whole, target[2:3]), expected[2:3], rtol=1e-6, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_encoder_outputs_alone_equal_those_in_a_batch(settings: ModelSettings) -> None:
    model = make(settings)
    batch = sources(settings, *LENGTHS)
    encoded = model.encoder(padded(batch, 3))
    assert encoded.outputs.shape == (*encoded.keep.shape, model.encoder.sizes.size)
    assert encoded.embedded.shape == (*encoded.keep.shape, model.encoder.sizes.embedding)
    assert encoded.summary.shape == (6, model.encoder.sizes.summary_rows, model.encoder.sizes.size)
    for row, keep in enumerate(encoded.keep):
        expected = model.encoder(alone(batch, row))
        torch.testing.assert_close(
            encoded.outputs[row, keep], expected.outputs[0], rtol=1e-6, atol=1e-4
        )
        torch.testing.assert_close(
            encoded.embedded[row, keep], expected.embedded[0], rtol=1e-6, atol=1e-4
        )
        torch.testing.assert_close(
            encoded.summary[row : row + 1], expected.summary, rtol=1e-6, atol=1e-4
        )


@pytest.mark.parametrize(("settings", "width"), in_turn(pairs(), [4, 1]))
def test_search_alone_equals_any_batch_padding_and_order(
    settings: ModelSettings, width: int
) -> None:
    order = [3, 0, 5, 2, 1, 4]
    penalty = LengthPenalty(0.6)
    original = sources(settings, *LENGTHS)

    def search(model: Model, batch: Batch, longest: torch.Tensor) -> list[list[Hypothesis]]:
        source = model.encode(batch)
        if width == 1:
            return [[h] for h in greedy(model, source, longest, penalty)]
        return beam(model, source, longest, width, penalty)

    def is_sharp() -> bool:
        """Return whether no hypotheses tie: weights that differ in their last bits lead to the
        same.
        """
        others = [search(nudged(model, draw), original, LONGEST) for draw in range(3)]
        return all(
            [[h.ids for h in row] for row in rows] == [[h.ids for h in row] for row in expected]
            for rows in others
        )

    for ends in (0.02, 0.2):
        for seed in seeds(is_sharp, "no hypotheses tie"):
            model = make(settings, seed, ends)
            expected = [
                search(model, alone(original, row), LONGEST[row : row + 1])[0] for row in range(6)
            ]
        assert_same(search(model, original, LONGEST), expected)
        assert_same(search(model, padded(original, 4), LONGEST), expected)
        assert_same(
            search(model, reordered(original, order), LONGEST[order]),
            [expected[row] for row in order],
        )


@torch.no_grad()
def nudged(model: Model, draw: int) -> Model:
    """Copy a model with weights changed in their last bits."""
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(draw)
    for parameter in other.parameters():
        parameter.mul_(1 + 1e-6 * torch.randn(parameter.shape, generator=generator))
    return other


def assert_same(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in row] for row in actual] == [[h.ids for h in row] for row in expected]
    for hypotheses, references in zip(actual, expected, strict=True):
        assert [h.score for h in hypotheses] == pytest.approx(
            [h.score for h in references], abs=1e-4
        )


# --- sentences join and leave


T = 12


@dataclass
class RunningBatch:
    """Sentences that are decoded together, each begun at its own time, and the features of each
    alone.
    """

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
        model = make(settings)
        batch = sources(settings, *LENGTHS)
        target = targets(6 * beams, T)
        features = []
        for row, own in enumerate(target.split(beams)):
            features.append(model(repeated(alone(batch, row), beams), own))
        return cls(model, batch, beams, target, torch.cat(features))

    def join(self, sentences: list[int]) -> None:
        source = self.model.encode(select_rows(self.batch, sentences))
        state = self.model.begin(source).select(beam_rows(len(sentences), self.beams))
        self.source = source if self.source is None else self.source.join(source)
        self.state = state if self.state is None else self.state.join(state)
        self.members = self.members + sentences
        self.done = self.done + [0] * len(sentences)

    def merge(self, other: RunningBatch) -> None:
        """Take over the sentences of another running batch."""
        assert self.state is not None
        assert self.source is not None
        assert other.state is not None
        assert other.source is not None
        self.state, self.source = self.state.join(other.state), self.source.join(other.source)
        self.members = self.members + other.members
        self.done = self.done + other.done

    def select(self, indices: list[int]) -> None:
        """Keep these members, in this order."""
        assert self.state is not None
        assert self.source is not None
        self.state = self.state.select(self._rows(indices))
        self.source = self.source.select(torch.tensor(indices))
        self.members = [self.members[i] for i in indices]
        self.done = [self.done[i] for i in indices]

    def step(self, portion: int) -> None:
        assert self.state is not None
        assert self.source is not None
        rows = self._rows(self.members)
        # (N, T)
        positions = torch.tensor(self.done).repeat_interleave(self.beams)[:, None] + torch.arange(
            portion
        )
        assert self.state.position.tolist() == positions[:, 0].tolist()
        features, self.state = self.model.step(
            self.target[rows[:, None], positions], self.state, self.source
        )
        torch.testing.assert_close(
            features, self.expected[rows[:, None], positions], rtol=1e-6, atol=1e-4
        )
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
    running = RunningBatch.of(settings, beams)
    rng = random.Random(3)
    for _ in range(60):
        free = [row for row in range(6) if row not in running.members]
        staying = [i for i, done in enumerate(running.done) if done < T]
        if free and (not staying or rng.random() < 0.4):
            running.join(rng.sample(free, rng.randint(1, len(free))))
        elif staying and (len(staying) < len(running.members) or rng.random() < 0.3):
            running.select(rng.sample(staying, rng.randint(1, len(staying))))
        elif running.members:
            running.step(rng.randint(1, T - max(running.done)))
    assert any(len(set(done)) > 2 for done in running.lengths), (
        "prefixes of more than two lengths at once"
    )
    assert running.checked > 50


@torch.no_grad()
@pytest.mark.parametrize("settings", kinds())
def test_joining_and_leaving_change_no_existing_tensor(settings: ModelSettings) -> None:
    model = make(settings)
    batch = sources(settings, *LENGTHS)
    parts = []
    for row in (0, 3):
        source = model.encode(alone(batch, row))
        parts.append((source, model.step(targets(1, 3 + row), model.begin(source), source)[1]))
    values = [value for part in parts for value in part]
    before = [tensor.clone() for value in values for tensor in tensors_of(value)]
    (source, state), (other_source, other_state) = parts
    joined_source = source.join(other_source)
    joined = state.join(other_state)
    model.step(targets(2, 2), joined, joined_source)
    joined.select(torch.tensor([1]))
    after = [tensor for value in values for tensor in tensors_of(value)]
    assert all(torch.equal(copy, tensor) for copy, tensor in zip(before, after, strict=True))
    back = [tensor for value in (source, other_source) for tensor in (value.summary,)]
    assert torch.equal(joined_source.summary, torch.cat(back))
    assert joined.position.tolist() == [3, 6]


# --- decoders of others, whose state has an axis of source entries


class CoverageDecoder(Decoder):
    """Recurrent decoder whose attention sees what it has read (See et al. 2017): a sum of weights
    for each entry.
    """

    def __init__(self, size: int, is_declared: bool = True, axis: int = 1) -> None:
        super().__init__()
        self.embedding = Embedding(TARGET_VOCABULARY, size, False)
        self.output = OutputProjection(TARGET_VOCABULARY, size)
        self.cell = nn.GRUCell(2 * size, size)
        self.read = nn.Linear(size, size)
        self.convolution = nn.Conv1d(1, 1, 3, padding=1)
        self.axis = axis
        self.axes = {"coverage": axis} if is_declared else {}

    def prepare(self, encoded: Encoded) -> Source:
        entries = encoded.outputs.unsqueeze(1)
        return Source((Memory(entries, entries, encoded.keep),), encoded.summary, encoded.grid)

    def begin(self, source: Source) -> State:
        B = len(source.summary)
        S = source.memories[0].entries
        coverage = source.summary.new_zeros(B, 1, S).movedim(2, self.axis)
        position = torch.zeros(B, dtype=torch.long)
        return State(
            position, {"hidden": source.summary[:, 0], "coverage": coverage}, {}, self.axes
        )

    def step(
        self, tokens: torch.Tensor, state: State, source: Source
    ) -> tuple[torch.Tensor, State]:
        memory = source.memories[0]
        features = []
        times = len(tokens) // memory.rows
        entries = memory.values[:, 0].repeat_interleave(times, 0)  # (N, S, D)
        keep = None if memory.keep is None else memory.keep.repeat_interleave(times, 0)
        hidden = state.tensors["hidden"]
        coverage = state.tensors["coverage"].movedim(self.axis, 2)
        for embedded in self.embedding(tokens).unbind(1):
            scores = (entries * self.read(hidden).unsqueeze(1)).sum(2) + 5 * self.convolution(
                coverage
            )[:, 0]
            weights = (
                scores.softmax(1)
                if keep is None
                else scores.masked_fill(~keep, -torch.inf).softmax(1)
            )
            context = (weights.unsqueeze(2) * entries).sum(1)
            coverage = coverage + weights.unsqueeze(1)
            hidden = self.cell(torch.cat([embedded, context], 1), hidden)
            features.append(hidden)
        tensors = {"hidden": hidden, "coverage": coverage.movedim(2, self.axis)}
        state = replace(state, position=state.position + tokens.shape[1], tensors=tensors)
        return torch.stack(features, 1), state


def coverage_model(is_declared: bool = True, axis: int = 1) -> tuple[Model, Batch]:
    """Return a model of any encoder of text with that decoder, and its sources."""
    settings = next(
        values[0] for parameter in kinds(reads=["text"]) if (values := parameter.values)
    )
    encoder = make(settings).encoder
    torch.manual_seed(2)
    return Model(encoder, CoverageDecoder(encoder.sizes.size, is_declared, axis)), sources(
        settings, *LENGTHS
    )


@torch.no_grad()
@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("beams", [1, 3])
def test_sentences_join_whose_states_have_a_source_axis(beams: int, axis: int) -> None:
    model, batch = coverage_model(axis=axis)
    target = targets(6 * beams, T)
    features = [
        model(repeated(alone(batch, row), beams), own)
        for row, own in enumerate(target.split(beams))
    ]
    assert not torch.allclose(
        features[0][:, 1:], model(repeated(alone(batch, 0), beams), target[:beams] * 0)[:, 1:]
    )
    running = RunningBatch(model, batch, beams, target, torch.cat(features))
    running.join([1])
    running.step(3)
    running.join([0, 2])  # longer sources
    running.step(2)
    running.join([5])  # a shorter one
    running.step(1)
    running.select([3, 1])
    running.join([1, 4])
    running.step(4)
    other = replace(running, members=[], done=[], state=None, source=None)
    other.join([2, 5])
    other.step(5)
    running.merge(other)
    running.step(1)


def test_continuous_batching_of_states_with_a_source_axis_equals_decoding_alone() -> None:
    model, batch = coverage_model()
    requests = [
        DecodeRequest(alone(batch, row).data[0].tolist(), Task(row, int(length)))
        for row, length in enumerate(LONGEST)
    ]
    settings = SearchSettings(beam=2)
    expected = [decode_requests(model, [request], settings)[0] for request in requests]
    assert_same(decode_requests(model, requests, settings, limits=BatchLimits(rows=4)), expected)
    ensemble = Ensemble([model, model])
    assert_same(decode_requests(ensemble, requests, settings, limits=BatchLimits(rows=4)), expected)


@torch.no_grad()
def test_states_that_cannot_be_joined_are_refused_in_a_sentence() -> None:
    """Not padded at a guess: an axis may count target tokens as well."""
    model, batch = coverage_model(is_declared=False)
    first, second = (model.begin(model.encode(alone(batch, row))) for row in (0, 1))
    with pytest.raises(
        UsageError,
        match=r"'coverage' has the shape \[6, 1\] .* and \[1, 1\] of the other; .*`State.source_axes`",
    ):
        first.join(second)
    assert len(first.join(first).tensors["coverage"]) == 2, "equal ones are joined"
    lacking = replace(second, tensors={"hidden": second.tensors["hidden"]})
    with pytest.raises(
        UsageError,
        match="only one of them has 'coverage'; let `begin` make all that `step` returns",
    ):
        first.join(lacking)
    declared = replace(first, source_axes={"coverage": 1})
    wider = replace(second, tensors={**second.tensors, "coverage": torch.zeros(1, 9, 2)})
    with pytest.raises(UsageError, match=r"'coverage' has the shape \[6, 1\]"):
        declared.join(wider)
