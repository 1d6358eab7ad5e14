"""Every tensor of a model is made on its device, as a run on PyTorch's device `meta` shows
without a GPU.

There tensors have shapes and no values, and whatever is made without a device is made on the
processor.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from laws.models import (
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    beam_rows,
    kinds,
    sources,
    targets,
)
from regard.data.batch import TrainingBatch
from regard.models import Batch, Model, ModelSettings, build
from regard.training.loss import Objective

LENGTHS = (6, 2, 4)
T = 5
WANTS_VALUES = {"recurrent": "packs a padded batch by the lengths of its rows"}
"""Encoders whose padding is left out, because something needs the values of the mask."""


class OneDevice(TorchDispatchMode):
    """Refuses tensors on any other device than `meta`."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))

        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                assert leaf.is_meta, f"{func} made a tensor on {leaf.device}"

        return result


@pytest.fixture(autouse=True)
def no_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave autocast out, which does not know this device."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())


def on_meta(settings: ModelSettings) -> tuple[Model, TrainingBatch]:
    """Return a model and a batch without values; the batch has padding if the encoder needs no
    values of its mask.
    """
    model = build(settings, SOURCE_VOCABULARY, TARGET_VOCABULARY, joint=False).to(
        "meta"
    )
    batch = sources(settings, *LENGTHS)
    target = targets(len(LENGTHS), T)
    keep = None if settings.encoder.kind in WANTS_VALUES else batch.keep
    return model, TrainingBatch(
        batch.data, keep, target, target, target.numel(), [0, 1, 2]
    ).to("meta")


@pytest.mark.system
@pytest.mark.parametrize("settings", kinds())
def test_every_tensor_is_made_on_the_device_of_the_model(
    settings: ModelSettings,
) -> None:
    model, batch = on_meta(settings)
    rows = beam_rows(len(LENGTHS), 2).to("meta")

    with OneDevice():
        Objective(0.1)(model, batch).smoothed.backward()
        with torch.no_grad():
            source = model.eval().encode(Batch(batch.source, batch.source_keep))
            _, state = model.step(batch.target_in[:, :3], model.begin(source), source)
            state = state.select(rows)
            source = source.select(rows)
            state = state.join(state)
            source = source.join(source)
            rows = torch.cat([rows, rows])
            features, _ = model.step(batch.target_in[rows, 3:], state, source)
            model.project(features)

    assert all(
        parameter.grad is None or parameter.grad.is_meta
        for parameter in model.parameters()
    )


@pytest.mark.system
def test_every_tensor_of_the_other_losses_is_made_on_the_device_of_the_model() -> None:
    model, batch = on_meta(kinds(reads=["text"])[0].values[0])
    with OneDevice():
        Objective(0.1, rdrop=1.0, doubly_stochastic=1.0)(
            model, batch
        ).smoothed.backward()
