"""In bfloat16 products are rounded and recurrent states are not, and outputs, attention weights and
gradients stay close.
"""

from __future__ import annotations

import pytest
import torch
from helpers.time_limits import seeds

from laws.models import kinds, make, pairs, sources, targets, tensors_of, trainable
from regard.attention import record_attention
from regard.models import Model, ModelSettings

LENGTHS = (6, 1, 4)


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_bfloat16_is_close_and_recurrent_states_stay_float32(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    target = targets(3, 6)
    batch = sources(settings, *LENGTHS)
    with record_attention(model) as exact:
        expected = model.project(model(batch, target)).log_softmax(-1)

    with torch.autocast("cpu", torch.bfloat16):
        source = model.encode(batch)
        features, state = model.step(target, model.begin(source), source)
        actual = model.project(features).float().log_softmax(-1)
        with record_attention(model) as readings:
            assert torch.equal(model(batch, target), features), (
                "watching changes nothing"
            )

    assert float((actual - expected).norm() / expected.norm()) < 0.1
    assert all(tensor.dtype == torch.float32 for tensor in state.tensors.values())
    assert all(bool(tensor.isfinite().all()) for tensor in tensors_of(state))

    for name, weights in readings.items():
        # Ones, and zeros in rows that attend to nothing.
        sums = weights.float().sum(-1)
        assert float((sums - sums.round()).abs().max()) < 0.02
        assert float((weights.float() - exact[name]).abs().mean()) < 0.05


@pytest.mark.parametrize("settings", kinds())
def test_gradients_in_bfloat16_are_close(settings: ModelSettings) -> None:
    target = targets(3, 6)
    batch = sources(settings, *LENGTHS)

    def gradient(model: Model, dtype: torch.dtype) -> torch.Tensor:
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            loss = model(batch, target).float().square().sum()
        gradients = torch.autograd.grad(loss, trainable(model))
        return torch.cat([each.flatten().float() for each in gradients])

    changes = list[float]()

    for seed in seeds(
        lambda: changes[0] < 0.1,
        "weights rounded to bfloat16 hardly change the gradient",
    ):
        model = make(settings, seed)
        expected = gradient(model, torch.float32)
        actual = gradient(model, torch.bfloat16)
        rounded = gradient(model.bfloat16().float(), torch.float32)
        changes.clear()
        for other in (rounded, actual):
            changes.append(float((other - expected).norm() / expected.norm()))

    assert changes[1] < 0.3
