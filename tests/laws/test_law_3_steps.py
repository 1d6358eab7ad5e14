"""Law 3: step-by-step decoding, in any split of the target, equals one step over all of it; states are values."""

import random

import pytest
import torch

from laws.models import beam_rows, make, pairs, sources, targets, tensors_of
from regard.models import ModelSettings

T = 8


def composition(length: int, chance: random.Random) -> list[int]:
    """A random way to cut a target into portions."""
    cuts = sorted(chance.sample(range(1, length), chance.randrange(length)))
    return [b - a for a, b in zip([0, *cuts], [*cuts, length], strict=True)]


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_step_by_step_is_all_at_once_for_any_split(settings: ModelSettings) -> None:
    model, batch, target, chance = make(settings), sources(settings, 5, 1, 7), targets(3, T), random.Random(5)
    wanted = model(batch, target)
    source = model.encode(batch)
    for split in ([1] * T, [T - 1, 1], *(composition(T, chance) for _ in range(4))):
        state, found = model.begin(source), []
        for done, portion in zip(_starts(split), target.split(split, 1), strict=True):
            assert state.position.tolist() == [done] * 3
            features, state = model.step(portion, state, source)
            found.append(features)
        torch.testing.assert_close(torch.cat(found, 1), wanted, rtol=0, atol=1e-4)
        torch.testing.assert_close(model.project(torch.cat(found, 1)), model.project(wanted), rtol=1e-4, atol=1e-4)


def _starts(split: list[int]) -> list[int]:
    return [sum(split[:i]) for i in range(len(split))]


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_a_state_may_be_stepped_from_again(settings: ModelSettings) -> None:
    model, batch, target = make(settings), sources(settings, 5, 1, 7), targets(3, T)
    source = model.encode(batch)
    _, state = model.step(target[:, :3], model.begin(source), source)
    before = [part.clone() for value in (state, source) for part in tensors_of(value)]
    first, after = model.step(target[:, 3:6], state, source)
    kept = [part.clone() for part in tensors_of(after)]
    model.step(targets(3, 4, seed=8), state, source)  # somewhere else, from the same state
    model.step(target[:, 6:7], after, source)
    again, after_again = model.step(target[:, 3:6], state, source)
    assert torch.equal(first, again)
    now = [part for value in (state, source) for part in tensors_of(value)]
    for these, those in ((now, before), (tensors_of(after), kept), (tensors_of(after_again), kept)):
        assert len(these) == len(those)
        assert all(torch.equal(one, other) for one, other in zip(these, those, strict=True))


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs(2))
def test_a_state_follows_its_beams(settings: ModelSettings) -> None:
    """Rows repeated, reordered and dropped go on as if they had been so from the start."""
    model, batch, target = make(settings), sources(settings, 5, 1, 7), targets(6, T)
    source = model.encode(batch)
    _, state = model.step(target[:, :3], model.begin(source).select(beam_rows(3, 2)), source)
    rows = torch.tensor([1, 1, 3, 2, 4, 4])
    further = targets(6, 2, seed=4)
    found, _ = model.step(further, state.select(rows), source)
    whole = torch.cat([target[rows, :3], further], 1)
    wanted, _ = model.step(whole, model.begin(source).select(beam_rows(3, 2)), source)
    torch.testing.assert_close(found, wanted[:, 3:], rtol=0, atol=1e-4)


@pytest.mark.parametrize("settings", pairs(1))
def test_gradients_step_by_step_are_those_of_all_at_once(settings: ModelSettings) -> None:
    model, batch, target = make(settings), sources(settings, 5, 1, 7), targets(3, T)
    direction = torch.randn(T, model(batch, target).shape[-1])
    whole = model(batch, target)
    source = model.encode(batch)
    state, found = model.begin(source), []
    for portion in target.split([2, 1, 5], 1):
        features, state = model.step(portion, state, source)
        found.append(features)
    results = []
    for features in (whole, torch.cat(found, 1)):
        learnt = [
            p for name, p in model.named_parameters() if p.requires_grad and not name.startswith("decoder.output")
        ]
        results.append(torch.autograd.grad((features * direction).sum(), learnt))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
