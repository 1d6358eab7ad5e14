"""Sharded training: which weights are gathered while a model computes."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from regard.common.errors import ConfigurationError
from regard.data.batch import Example, collate
from regard.data.vocabulary import EOS
from regard.models import Model, ModelSettings, build
from regard.models.interface import ShardUnit
from regard.training.gradient_workers import autocast
from regard.training.loss import Objective
from regard.training.recipe import Recipe
from regard.training.sharding import reshard, set_last_of_update, shard

SIDE = {
    "kind": "transformer",
    "layers": 3,
    "size": 8,
    "heads": 2,
    "feedforward": 16,
    "dropout": 0.0,
}
BATCH = collate([Example([5, 6, 7, EOS], [8, 9, 4, EOS]), Example([4, EOS], [6, EOS])])


@pytest.fixture
def group() -> Iterator[None]:
    """Process group of one: each shard is the whole tensor, all else is as with many processes."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def _model() -> Model:
    torch.manual_seed(3)
    settings = ModelSettings.parse({"encoder": SIDE, "decoder": SIDE}, "the test")
    return build(settings, 20, 20, joint=True)


def _gathered(model: Model) -> list[str]:
    """Return the layers whose own weights, cross-attention aside, are gathered."""
    names = []
    for name, module in model.named_modules():
        if isinstance(module, ShardUnit):
            weight = module.self_attention.key.weight
            if not isinstance(weight, DTensor):
                names.append(name)

    return names


@pytest.mark.parametrize(
    ("layers", "precision"),
    [(False, "float32"), (True, "float32"), (True, "bfloat16")],
)
def test_layers_are_gathered_only_while_they_compute(
    group: None, layers: bool, precision: str
) -> None:
    model = _model()
    plain = _model()
    names = _gathered(model)

    assert len(names) == 6

    shard(model, layers=layers)

    assert _gathered(model) == []

    forward: dict[str, list[str]] = {}
    backward: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        if isinstance(module, ShardUnit):
            module.feedforward.register_forward_hook(
                lambda *_, name=name: forward.update({name: _gathered(model)})
            )
            module.feedforward.register_full_backward_hook(
                lambda *_, name=name: backward.update({name: _gathered(model)})
            )

    for last in (False, True):
        set_last_of_update(model, last)
        for trained in (model, plain):
            with autocast(precision, torch.device("cpu")):
                loss = Objective(0.1)(trained, BATCH)
            loss.smoothed.backward()

        assert list(forward) == names == list(reversed(backward))

        for name in names:
            assert forward[name] == ([name] if layers else names)
            assert name in backward[name]
            assert not layers or len(backward[name]) <= 2, (
                "the next layer may be prefetched"
            )

        assert _gathered(model) == ([] if layers or last else names)

    # Summed in another order.
    errors = []
    norms = []
    tolerance = 0.02 if layers and precision == "bfloat16" else 1e-6
    for parameter, reference in zip(
        model.parameters(), plain.parameters(), strict=True
    ):
        difference = parameter.grad.full_tensor() - reference.grad
        errors.append(difference.norm())
        norms.append(reference.grad.norm())

    error = torch.stack(errors).norm() / torch.stack(norms).norm()

    assert float(error) < tolerance

    reshard(model)

    assert all(isinstance(parameter, DTensor) for parameter in model.parameters())


def test_sharded_layers_refuse_layer_drop() -> None:
    values = {
        "data": {"source": "a", "target": "b"},
        "model": {"encoder": {**SIDE, "layer_dropout": 0.1}, "decoder": SIDE},
        "training": {"sharded": "layers"},
    }
    message = "none may leave one out; set layer_dropout to 0"

    with pytest.raises(ConfigurationError, match=message):
        Recipe.parse(values, "the test")


FREED = """
import os, sys, torch
from regard.training.sharding import return_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

if not os.fork():  # each allocator starts as it is after the import, which takes seconds
    return_freed_memory()
else:
    os.wait()
torch.ones(6 * 2**20)  # 24 MiB, freed at once: from now on glibc keeps smaller blocks
before, large, small = resident(), [], []
for _ in range(50):
    large.append(torch.ones(2**20))
    small.append(torch.ones(2**13))  # between them, so that they are not one hole at the end
del large
print(resident() - before, flush=True)
"""


@pytest.mark.system
@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc",
    reason="only glibc keeps freed memory, and has a setting to return it",
)
def test_freed_memory_returns_to_the_system() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FREED], capture_output=True, text=True, check=True
    )
    returned, default = map(float, done.stdout.split())

    assert default > 100, "otherwise the setting is not needed"
    assert returned < 20
