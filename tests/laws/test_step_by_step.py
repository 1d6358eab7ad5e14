"""Step-by-step decoding, in any split of the target, equals one step over all of it; states are
values.
"""

import random

import pytest
import torch

from laws.models import (
    beam_rows,
    kinds,
    make,
    pairs,
    sources,
    targets,
    tensors_of,
    trainable,
)
from regard.models import Batch, Model, ModelSettings

T = 8


def composition(length: int, rng: random.Random) -> list[int]:
    """Return a random split of a target into portions."""
    bounds = sorted(rng.sample(range(1, length), rng.randrange(length)))
    return [b - a for a, b in zip([0, *bounds], [*bounds, length], strict=True)]


def decode_in(
    model: Model, batch: Batch, target: torch.Tensor, split: list[int]
) -> torch.Tensor:
    """Return the features of a target that is decoded in portions."""
    source = model.encode(batch)
    state = model.begin(source)
    outputs = []
    done = 0

    for portion in target.split(split, 1):
        assert state.position.tolist() == [done] * len(target)
        features, state = model.step(portion, state, source)
        outputs.append(features)
        done += portion.shape[1]

    return torch.cat(outputs, 1)


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_step_by_step_equals_all_at_once_for_any_split(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sources(settings, 5, 1, 7)
    target = targets(3, T)
    rng = random.Random(5)
    expected = model(batch, target)

    for split in ([1] * T, [T - 1, 1], composition(T, rng)):
        actual = decode_in(model, batch, target, split)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)
        torch.testing.assert_close(
            model.project(actual), model.project(expected), rtol=1e-4, atol=1e-4
        )


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_a_state_can_be_stepped_again_with_the_same_result(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    target = targets(3, T)
    source = model.encode(sources(settings, 5, 1, 7))
    _, state = model.step(target[:, :3], model.begin(source), source)
    tensors = [*tensors_of(state), *tensors_of(source)]
    copies = [tensor.clone() for tensor in tensors]
    first, _ = model.step(target[:, 3:6], state, source)
    # Another continuation of the same state.
    model.step(targets(3, 4, seed=8), state, source)
    again, _ = model.step(target[:, 3:6], state, source)

    assert torch.equal(first, again)
    assert all(map(torch.equal, tensors, copies))


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_a_state_follows_its_beams(settings: ModelSettings) -> None:
    """Rows that share a source, are repeated, reordered and dropped, continue as if each had been
    decoded from the start with a source of its own.
    """
    model = make(settings)
    target = targets(6, T)
    source = model.encode(sources(settings, 5, 1, 7))
    begun = model.begin(source).select(beam_rows(3, 2))
    _, state = model.step(target[:, :3], begun, source)
    rows = torch.tensor([1, 1, 3, 2, 4, 4])
    further = targets(6, 2, seed=4)
    actual, _ = model.step(further, state.select(rows), source)
    own = source.select(beam_rows(3, 2))
    full = torch.cat([target[rows, :3], further], 1)
    expected, _ = model.step(full, model.begin(own), own)

    torch.testing.assert_close(actual, expected[:, 3:], rtol=0, atol=1e-4)


@pytest.mark.parametrize("settings", kinds())
def test_gradients_step_by_step_equal_those_of_all_at_once(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sources(settings, 5, 1, 7)
    target = targets(3, T)
    weights = trainable(model)
    whole = model(batch, target)
    direction = torch.randn(T, whole.shape[-1])
    expected = torch.autograd.grad((whole * direction).sum(), weights)
    stepwise = decode_in(model, batch, target, [2, 1, 5])
    actual = torch.autograd.grad((stepwise * direction).sum(), weights)

    for gradient, reference in zip(actual, expected, strict=True):
        # Small entries are sums of terms as large as this.
        largest = max(1.0, float(reference.abs().max()))
        torch.testing.assert_close(gradient, reference, rtol=1e-4, atol=1e-4 * largest)


@torch.no_grad()
@pytest.mark.parametrize("norm", ["pre", "post", "batch"])
def test_without_a_causal_mask_step_by_step_differs(norm: str) -> None:
    """All at once the decoder reads what it is to predict: teacher forcing says nothing of what it
    can write.
    """
    side = {
        "kind": "transformer",
        "size": 16,
        "heads": 2,
        "feedforward": 24,
        "norm": norm,
    }
    values = {
        "encoder": side,
        "decoder": {**side, "causal": False},
        "share": "none",
    }
    settings = ModelSettings.parse(values, "a law")
    model = make(settings)
    target = targets(3, T)
    batch = sources(settings, 5, 1, 7)
    whole = model(batch, target)
    stepwise = decode_in(model, batch, target, [1] * T)
    differences = (whole - stepwise).abs().amax((0, 2))

    assert (differences[:-1] > 1e-3).all(), "earlier positions read later ones"

    changed = target.clone()
    changed[:, -1] += 1
    difference = (model(batch, changed) - whole)[:, 0].abs()

    assert (difference > 1e-4).any(), "the last token reaches the first position"
