"""Law 3: step-by-step decoding, in any split of the target, equals one step over all of it; states
are values.
"""

import random

import pytest
import torch

from laws.models import beam_rows, kinds, make, pairs, sources, targets, tensors_of
from regard.models import ModelSettings

T = 8


def composition(length: int, rng: random.Random) -> list[int]:
    """Return a random split of a target into portions."""
    bounds = sorted(rng.sample(range(1, length), rng.randrange(length)))
    return [b - a for a, b in zip([0, *bounds], [*bounds, length], strict=True)]


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_step_by_step_equals_all_at_once_for_any_split(settings: ModelSettings) -> None:
    model = make(settings)
    batch = sources(settings, 5, 1, 7)
    target = targets(3, T)
    rng = random.Random(5)
    expected = model(batch, target)
    source = model.encode(batch)
    for split in ([1] * T, [T - 1, 1], *(composition(T, rng) for _ in range(4))):
        state = model.begin(source)
        outputs = []
        for done, portion in zip(_starts(split), target.split(split, 1), strict=True):
            assert state.position.tolist() == [done] * 3
            features, state = model.step(portion, state, source)
            outputs.append(features)
        torch.testing.assert_close(torch.cat(outputs, 1), expected, rtol=0, atol=1e-4)
        torch.testing.assert_close(
            model.project(torch.cat(outputs, 1)), model.project(expected), rtol=1e-4, atol=1e-4
        )


def _starts(split: list[int]) -> list[int]:
    return [sum(split[:i]) for i in range(len(split))]


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_a_state_can_be_stepped_again_with_the_same_result(settings: ModelSettings) -> None:
    model = make(settings)
    batch = sources(settings, 5, 1, 7)
    target = targets(3, T)
    source = model.encode(batch)
    _, state = model.step(target[:, :3], model.begin(source), source)
    before = [part.clone() for value in (state, source) for part in tensors_of(value)]
    first, after = model.step(target[:, 3:6], state, source)
    saved = [part.clone() for part in tensors_of(after)]
    model.step(targets(3, 4, seed=8), state, source)  # another continuation of the same state
    model.step(target[:, 6:7], after, source)
    again, after_again = model.step(target[:, 3:6], state, source)
    assert torch.equal(first, again)
    now = [part for value in (state, source) for part in tensors_of(value)]
    for tensors, copies in (
        (now, before),
        (tensors_of(after), saved),
        (tensors_of(after_again), saved),
    ):
        assert len(tensors) == len(copies)
        assert all(torch.equal(tensor, copy) for tensor, copy in zip(tensors, copies, strict=True))


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_a_state_follows_its_beams(settings: ModelSettings) -> None:
    """Rows that are repeated, reordered and dropped continue as if they had been selected from the
    start.
    """
    model = make(settings)
    batch = sources(settings, 5, 1, 7)
    target = targets(6, T)
    source = model.encode(batch)
    _, state = model.step(target[:, :3], model.begin(source).select(beam_rows(3, 2)), source)
    rows = torch.tensor([1, 1, 3, 2, 4, 4])
    further = targets(6, 2, seed=4)
    actual, _ = model.step(further, state.select(rows), source)
    full = torch.cat([target[rows, :3], further], 1)
    expected, _ = model.step(full, model.begin(source).select(beam_rows(3, 2)), source)
    torch.testing.assert_close(actual, expected[:, 3:], rtol=0, atol=1e-4)


@pytest.mark.parametrize("settings", kinds())
def test_gradients_step_by_step_equal_those_of_all_at_once(settings: ModelSettings) -> None:
    model = make(settings)
    batch = sources(settings, 5, 1, 7)
    target = targets(3, T)
    direction = torch.randn(T, model(batch, target).shape[-1])
    whole = model(batch, target)
    source = model.encode(batch)
    state = model.begin(source)
    outputs = []
    for portion in target.split([2, 1, 5], 1):
        features, state = model.step(portion, state, source)
        outputs.append(features)
    results = []
    for features in (whole, torch.cat(outputs, 1)):
        trainable = [
            p
            for name, p in model.named_parameters()
            if p.requires_grad and not name.startswith("decoder.output")
        ]
        results.append(torch.autograd.grad((features * direction).sum(), trainable))
    for gradient, stepwise in zip(*results, strict=True):
        # Small entries are sums of terms as large as this.
        largest = max(1.0, float(gradient.abs().max()))
        torch.testing.assert_close(gradient, stepwise, rtol=1e-4, atol=1e-4 * largest)


@torch.no_grad()
@pytest.mark.parametrize("norm", ["pre", "post", "batch", "pre_batch", "none"])
def test_without_a_causal_mask_step_by_step_differs(norm: str) -> None:
    """All at once the decoder reads what it is to predict: teacher forcing says nothing of what it
    can write.
    """
    side = {
        "kind": "transformer",
        "layers": 2,
        "size": 16,
        "heads": 2,
        "feedforward": 24,
        "norm": norm,
    }
    values = {"encoder": side, "decoder": {**side, "causal": False}, "share": "none"}
    model = make(ModelSettings.parse(values, "a law"))
    target = targets(3, T)
    batch = sources(ModelSettings.parse(values, "a law"), 5, 1, 7)
    whole = model(batch, target)
    source = model.encode(batch)
    state = model.begin(source)
    outputs = []
    for token in target.split(1, 1):
        features, state = model.step(token, state, source)
        outputs.append(features)
    stepwise = torch.cat(outputs, 1)
    differences = (whole - stepwise).abs().amax((0, 2))
    assert (differences[:-1] > 1e-3).all(), "earlier positions read later ones"
    changed = target.clone()
    changed[:, -1] = target[:, -1] + 1
    assert ((model(batch, changed) - whole)[:, 0].abs() > 1e-4).any(), (
        "the last token reaches the first position"
    )
    values["decoder"]["causal"] = True  # type: ignore[index]
    masked = make(ModelSettings.parse(values, "a law"))
    assert torch.equal(masked(batch, changed)[:, :-1], masked(batch, target)[:, :-1])
