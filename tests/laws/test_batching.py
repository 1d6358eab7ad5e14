"""A sentence alone equals itself in any batch, padding and order, and while other sentences join or
leave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from laws.models import (
    alone,
    beam_rows,
    in_turn,
    make,
    padded,
    pairs,
    repeated,
    select_rows,
    sources,
    targets,
    with_noise_in_padding,
)
from regard.common.errors import UsageError
from regard.models import Batch, ModelSettings, Source, State

LENGTHS = (6, 1, 9, 4, 9, 2)
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


# --- sentences join and leave


T = 12


@dataclass(frozen=True)
class Running:
    """Sentences that are decoded together, and how many of their tokens are done."""

    members: list[int]
    done: torch.Tensor
    state: State
    source: Source


@torch.no_grad()
@pytest.mark.parametrize(("settings", "beams"), in_turn(pairs(), [3, 1]))
def test_sentences_join_and_leave_in_any_order(
    settings: ModelSettings, beams: int
) -> None:
    model = make(settings)
    batch = sources(settings, *LENGTHS)
    target = targets(6 * beams, T).view(6, beams, T)
    features = []

    for row in range(6):
        features.append(model(repeated(alone(batch, row), beams), target[row]))

    expected = torch.stack(features)  # (6, K, T, D)

    def begin(*members: int) -> Running:
        source = model.encode(select_rows(batch, members))
        state = model.begin(source).select(beam_rows(len(members), beams))
        return Running([*members], torch.zeros(len(members)).long(), state, source)

    def step(running: Running, portion: int) -> Running:
        """Decode the next tokens, and compare with those of each sentence alone."""
        members = torch.tensor(running.members)[:, None]
        positions = running.done[:, None] + torch.arange(portion)  # (B, portion)
        tokens = target[members, :, positions].transpose(1, 2).flatten(0, 1)
        wanted = expected[members, :, positions].transpose(1, 2).flatten(0, 1)
        first = running.done.repeat_interleave(beams)

        assert torch.equal(running.state.position, first)

        actual, state = model.step(tokens, running.state, running.source)

        torch.testing.assert_close(actual, wanted, **CLOSE)

        return replace(running, done=running.done + portion, state=state)

    def join(running: Running, other: Running) -> Running:
        return Running(
            running.members + other.members,
            torch.cat([running.done, other.done]),
            running.state.join(other.state),
            running.source.join(other.source),
        )

    def select(running: Running, *indices: int) -> Running:
        chosen = torch.tensor(indices)
        rows = (chosen[:, None] * beams + torch.arange(beams)).flatten()
        return Running(
            [running.members[i] for i in indices],
            running.done[chosen],
            running.state.select(rows),
            running.source.select(chosen),
        )

    running = step(join(step(begin(4, 1, 2), 3), step(begin(3), 1)), 2)
    running = step(join(select(running, 3, 0), begin(5)), 1)
    running = step(join(begin(1), select(running, 2, 1, 0)), 4)

    assert running.done.tolist() == [4, 5, 10, 8]
    assert running.members == [1, 5, 4, 3]


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
