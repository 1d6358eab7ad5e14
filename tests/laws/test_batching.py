"""A sentence alone equals itself in any batch, padding and order, and while other sentences join or
leave.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field, replace

import pytest
import torch
from helpers.time_limits import seeds

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
    with_noise_in_padding,
)
from laws.searching import beam
from regard.common.errors import UsageError
from regard.models import Batch, Model, ModelSettings, Source, State
from regard.search import Hypothesis, LengthPenalty

LENGTHS = (6, 1, 9, 4, 9, 2)
LONGEST = torch.tensor([7, 5, 6, 7, 4, 6])
ORDER = [3, 0, 5, 2, 1, 4]
CLOSE = {"rtol": 1e-6, "atol": 1e-4}


def reordered(batch: Batch) -> Batch:
    assert batch.keep is not None
    return Batch(batch.data[ORDER], batch.keep[ORDER])


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_teacher_forcing_alone_equals_any_batch_padding_and_order(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    target = targets(6, 5)
    original = sources(settings, *LENGTHS)
    noisy = with_noise_in_padding(padded(original, 4))
    rows = [alone(original, row) for row in range(6)]
    features = [model(rows[i], target[i : i + 1]) for i in range(6)]
    expected = torch.cat(features)

    torch.testing.assert_close(model(original, target), expected, **CLOSE)
    torch.testing.assert_close(model(noisy, target), expected, **CLOSE)
    torch.testing.assert_close(
        model(reordered(noisy), target[ORDER]), expected[ORDER], **CLOSE
    )

    unpadded = padded(rows[2], 0)

    assert unpadded.keep is not None
    assert bool(unpadded.keep.all()), "a mask that hides nothing equals no mask"
    torch.testing.assert_close(model(unpadded, target[2:3]), expected[2:3], **CLOSE)

    encoded = model.encoder(noisy)
    own = [model.encoder(row) for row in rows]
    summary = torch.cat([one.summary for one in own])

    for name in ("outputs", "embedded"):
        of_alone = torch.cat([getattr(one, name)[0] for one in own])
        visible = getattr(encoded, name)[encoded.keep]
        torch.testing.assert_close(visible, of_alone, **CLOSE)

    torch.testing.assert_close(encoded.summary, summary, **CLOSE)


@pytest.mark.system
@pytest.mark.parametrize(("settings", "width"), in_turn(pairs(), [4, 1]))
def test_search_alone_equals_any_batch_padding_and_order(
    settings: ModelSettings, width: int
) -> None:
    original = sources(settings, *LENGTHS)

    def search(
        model: Model, batch: Batch, longest: torch.Tensor
    ) -> list[list[Hypothesis]]:
        return beam(model, model.encode(batch), longest, width, LengthPenalty(0.6))

    def is_sharp() -> bool:
        """Return whether no hypotheses tie: weights that differ in their last bits lead to the
        same.
        """
        others = [search(nudged(model, draw), original, LONGEST) for draw in range(2)]
        return all(ids(other) == ids(expected) for other in others)

    for seed in seeds(is_sharp, "no hypotheses tie"):
        model = make(settings, seed, ends=0.1)
        expected = []
        for row in range(6):
            expected += search(model, alone(original, row), LONGEST[row : row + 1])

    assert_same(search(model, original, LONGEST), expected)

    actual = search(model, reordered(padded(original, 4)), LONGEST[ORDER])

    assert_same(actual, [expected[row] for row in ORDER])


@torch.no_grad()
def nudged(model: Model, draw: int) -> Model:
    """Copy a model with weights changed in their last bits."""
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(draw)
    for parameter in other.parameters():
        parameter.mul_(1 + 1e-6 * torch.randn(parameter.shape, generator=generator))
    return other


def ids(beams: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[h.ids for h in hypotheses] for hypotheses in beams]


def assert_same(
    actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]
) -> None:
    assert ids(actual) == ids(expected)
    for hypotheses, references in zip(actual, expected, strict=True):
        scores = [h.score for h in references]
        assert [h.score for h in hypotheses] == pytest.approx(scores, abs=1e-4)


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

    @classmethod
    def of(cls, model: Model, batch: Batch, beams: int) -> RunningBatch:
        target = targets(6 * beams, T)
        features = []
        for row, own in enumerate(target.split(beams)):
            features.append(model(repeated(alone(batch, row), beams), own))
        return cls(model, batch, beams, target, torch.cat(features))

    def join(self, sentences: list[int], portion: int = 0) -> None:
        """Begin sentences; `portion`: decode so many of their tokens before they join."""
        source = self.model.encode(select_rows(self.batch, sentences))
        state = self.model.begin(source).select(beam_rows(len(sentences), self.beams))
        begun = replace(
            self,
            members=sentences,
            done=[0] * len(sentences),
            state=state,
            source=source,
        )
        if portion:
            begun.step(portion)
        if self.state is None or self.source is None:
            self.state = begun.state
            self.source = begun.source
        else:
            assert begun.state is not None
            self.state = self.state.join(begun.state)
            self.source = self.source.join(source)

        self.members = self.members + begun.members
        self.done = self.done + begun.done

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

        rows = self._rows(self.members)[:, None]
        first = torch.tensor(self.done).repeat_interleave(self.beams)

        assert self.state.position.tolist() == first.tolist()

        positions = first[:, None] + torch.arange(portion)  # (N, T)
        tokens = self.target[rows, positions]
        features, self.state = self.model.step(tokens, self.state, self.source)

        torch.testing.assert_close(features, self.expected[rows, positions], **CLOSE)

        self.done = [n + portion for n in self.done]

    def run(self, turns: int) -> None:
        """Let sentences join, step, change places and leave at random."""
        rng = random.Random(3)
        most = 0

        for _ in range(turns):
            free = [row for row in range(6) if row not in self.members]
            staying = [i for i, done in enumerate(self.done) if done < T]
            if free and (not staying or rng.random() < 0.4):
                self.join(
                    rng.sample(free, rng.randint(1, len(free))),
                    rng.choice([0, 0, 1, 5]),
                )
            elif staying and (len(staying) < len(self.members) or rng.random() < 0.3):
                self.select(rng.sample(staying, rng.randint(1, len(staying))))
            elif self.members:
                self.step(rng.randint(1, T - max(self.done)))

            most = max(most, len(set(self.done)))

        assert most > 2, "prefixes of more than two lengths at once"

    def _rows(self, sentences: list[int]) -> torch.Tensor:
        firsts = torch.tensor(sentences) * self.beams
        return (firsts[:, None] + torch.arange(self.beams)).flatten()


@torch.no_grad()
@pytest.mark.parametrize(("settings", "beams"), in_turn(pairs(), [3, 1]))
def test_sentences_join_and_leave_in_any_order(
    settings: ModelSettings, beams: int
) -> None:
    RunningBatch.of(make(settings), sources(settings, *LENGTHS), beams).run(30)


@torch.no_grad()
@pytest.mark.parametrize("settings", kinds())
def test_joining_and_leaving_change_no_existing_tensor(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sources(settings, *LENGTHS)
    begun = []

    for row in (0, 3):
        source = model.encode(alone(batch, row))
        _, state = model.step(targets(1, 3 + row), model.begin(source), source)
        begun.append((source, state))

    (source, state), (other_source, other_state) = begun
    tensors = [
        tensor for pair in begun for value in pair for tensor in tensors_of(value)
    ]
    copies = [tensor.clone() for tensor in tensors]
    joined_source = source.join(other_source)
    joined = state.join(other_state)
    model.step(targets(2, 2), joined, joined_source)
    joined.select(torch.tensor([1]))

    assert all(map(torch.equal, tensors, copies))


# --- states of other decoders, with an axis of source entries


def coverage_state(S: int, axis: int | None = None, width: int = 1) -> State:
    """Return the state of a hypothesis that has read S source entries, as coverage counts them
    (See et al. 2017); `axis` is declared to be that of the entries.
    """
    axes = {} if axis is None else {"coverage": axis}
    tensors = {"hidden": torch.ones(1, 3), "coverage": torch.ones(1, width, S)}
    return State(torch.zeros(1, dtype=torch.long), tensors, {}, axes)


@pytest.mark.parametrize("axis", [2, -1])
def test_joined_states_are_padded_along_their_source_axis(axis: int) -> None:
    short = coverage_state(2, axis)
    long = coverage_state(6, axis)

    for joined, sums in (
        (short.join(long), [[2.0], [6.0]]),
        (long.join(short), [[6.0], [2.0]]),
    ):
        coverage = joined.tensors["coverage"]
        assert coverage.shape == (2, 1, 6)
        assert coverage.sum(2).tolist() == sums
        assert bool(coverage[:, :, :2].all()), "the padding comes last"
        assert joined.join(short).source_axes == short.source_axes


def test_states_that_cannot_be_joined_are_refused_in_a_sentence() -> None:
    """Not padded at a guess: an axis may count target tokens as well."""
    first = coverage_state(6)
    hidden = {"hidden": first.tensors["hidden"]}

    assert len(first.join(first).tensors["coverage"]) == 2, "equal ones are joined"

    for state, other, message in (
        (
            first,
            coverage_state(1),
            r"'coverage' has the shape \[1, 6\] .* and \[1, 1\] of the other; .*`State.source_axes`",
        ),
        (first, replace(first, tensors=hidden), "only one of them has 'coverage'"),
        (
            coverage_state(6, axis=2),
            coverage_state(9, axis=2, width=2),
            r"'coverage' has the shape \[1, 6\]",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            state.join(other)
