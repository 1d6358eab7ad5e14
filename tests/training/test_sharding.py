"""Where the weights are while a split model computes."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from regard.data.batch import Example, collate
from regard.data.vocabulary import EOS
from regard.errors import ConfigurationError
from regard.models import Model, ModelSettings, build
from regard.models.interface import ShardUnit
from regard.training.loss import Objective
from regard.training.recipe import Recipe
from regard.training.sharding import reshard, set_last_of_update, shard

SIDE = {"kind": "transformer", "layers": 3, "size": 8, "heads": 2, "feedforward": 16, "dropout": 0.0}
BATCH = collate([Example([5, 6, 7, EOS], [8, 9, 4, EOS]), Example([4, EOS], [6, EOS])])


@pytest.fixture
def group() -> Iterator[None]:
    """One process that splits its weights with nobody: the shares are whole, all else is as with many."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def _model() -> Model:
    torch.manual_seed(3)
    return build(ModelSettings.parse({"encoder": SIDE, "decoder": SIDE}, "the test"), 20, 20, joint=True)


def _whole(model: Model) -> list[str]:
    """The layers whose own weights are there to compute with, those of their reads of the source apart."""
    layers = {name: module for name, module in model.named_modules() if isinstance(module, ShardUnit)}
    return [name for name, layer in layers.items() if not isinstance(layer.self_attention.key.weight, DTensor)]


@pytest.mark.parametrize("low", ["float32", "bfloat16"])
@pytest.mark.parametrize("layers", [False, True])
def test_layers_are_there_only_while_they_compute(group: None, layers: bool, low: str) -> None:
    model, plain = _model(), _model()
    names = _whole(model)
    assert len(names) == 6
    shard(model, layers=layers)
    assert _whole(model) == []
    seen: dict[str, list[str]] = {}
    back: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        if isinstance(module, ShardUnit):
            module.feedforward.register_forward_hook(lambda *_, name=name: seen.update({name: _whole(model)}))
            module.feedforward.register_full_backward_hook(lambda *_, name=name: back.update({name: _whole(model)}))
    for last in (False, True):
        set_last_of_update(model, last)
        for each in (model, plain):
            with autocast(low, torch.device("cpu")):
                loss = Objective(each, 0.1)(BATCH)
            loss.smoothed.backward()
        assert list(seen) == names == list(reversed(back))
        for name in names:
            assert seen[name] == ([name] if layers else names)
            assert name in back[name]
            assert not layers or len(back[name]) <= 2, "the next one may be fetched already"
        assert _whole(model) == ([] if layers or last else names)
    own = torch.cat([parameter.grad.full_tensor().flatten() for parameter in model.parameters()])
    other = torch.cat([parameter.grad.flatten() for parameter in plain.parameters()])
    apart = 0.02 if layers and low == "bfloat16" else 1e-6  # a layer's gradients are added up in another order
    assert float((own - other).norm() / other.norm()) < apart
    reshard(model)
    assert not any(not isinstance(parameter, DTensor) for parameter in model.parameters())


def test_layers_are_not_left_out_by_one_process_alone() -> None:
    values = {
        "data": {"source": "a", "target": "b"},
        "model": {"encoder": {**SIDE, "layer_dropout": 0.1}, "decoder": SIDE},
    }
    values["training"] = {"sharded": "layers"}
    with pytest.raises(ConfigurationError, match="none may leave one out; set layer_dropout to 0"):
        Recipe.parse(values, "the test")


LET_GO = """
import sys, torch
from regard.training.sharding import _give_back

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

if sys.argv[1] == "told":
    _give_back()
torch.ones(6 * 2**20)  # 24 MiB, let go at once: from now on glibc keeps what is smaller
before, large, small = held(), [], []
for _ in range(50):
    large.append(torch.ones(2**20))
    small.append(torch.ones(2**13))  # between them, so that they are not one hole at the end
del large
print(held() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is let go, and is told not to")
def test_what_is_let_go_leaves_the_process() -> None:
    kept, told = (
        float(subprocess.run([sys.executable, "-c", LET_GO, how], capture_output=True, text=True, check=True).stdout)
        for how in ("untold", "told")
    )
    assert kept > 100, "else there was nothing to mend"
    assert told < 20
