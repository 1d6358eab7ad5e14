"""Tensors of a checkpoint: written by some processes, they are read by any other number, each its
own rows.

Processes are threads here (`conftest.py`), and true ones in the slow test.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from runs import run_command
from safetensors.torch import load_file, save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from regard.training.checkpoint_tensors import DamagedCheckpoint, Parts, read_parts, save_parts
from regard.training.distributed import full_tensor

SCRIPT = """
import sys, torch
from pathlib import Path
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor, Shard
from regard.training.checkpoint_tensors import read_parts, save_parts
from regard.training.distributed import World

action, folder = sys.argv[1], Path(sys.argv[2])
dist.init_process_group("gloo")
world = World(dist.get_rank(), dist.get_world_size(), sharded=True)
mesh = init_device_mesh("cpu", (world.size,))
shapes = [(7, 3), (1,), (2, 2), (5,), ()]
wholes = [torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape) for shape in shapes]
split = lambda t: distribute_tensor(t, mesh, [Shard(0)]) if t.dim() else t
if action == "write":
    save_parts(folder, {"model": {str(i): split(t) for i, t in enumerate(wholes)}, "random": {"cpu": wholes[0]}}, world)
else:
    own = {"model": {str(i): split(torch.zeros_like(t)) for i, t in enumerate(wholes)}}
    own["random"] = {"cpu": torch.zeros_like(wholes[0])}
    read_parts(sorted(folder.glob("*.safetensors")), own)
    for i, whole in enumerate(wholes):
        tensor = own["model"][str(i)]
        assert torch.equal(tensor.full_tensor() if isinstance(tensor, DTensor) else tensor, whole), (i, tensor, whole)
    assert torch.equal(own["random"]["cpu"], wholes[0])
dist.barrier()  # a process that ends while others still talk to it may be aborted by PyTorch
dist.destroy_process_group()
"""
SHAPES = [(7, 3), (1,), (2, 2), (5,), ()]
WHOLES = [torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape) for shape in SHAPES]
AsThreads = Callable[..., list[Any]]


def _start(script: Path, processes: int, action: str, folder: Path) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    run_command([sys.executable, *launcher, str(script), action, str(folder)])


def _split(tensors: list[torch.Tensor]) -> Parts:
    """Split tensors over all processes, but for a number and what only the main process has."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    split = [
        distribute_tensor(tensor, mesh, [Shard(0)]) if tensor.dim() else tensor
        for tensor in tensors
    ]
    return {
        "model": {str(i): tensor for i, tensor in enumerate(split)},
        "random": {"cpu": tensors[0]},
    }


def _own() -> Parts:
    return {
        "model": {str(i): torch.zeros(shape) for i, shape in enumerate(SHAPES)},
        "random": {"cpu": torch.zeros(7, 3)},
    }


@pytest.fixture
def shards(tmp_path: Path, as_threads: AsThreads) -> Path:
    """Write tensors by three threads: some have no row of the smaller ones."""
    (tmp_path / "three").mkdir()
    as_threads(3, lambda world: save_parts(tmp_path / "three", _split(WHOLES), world), sharded=True)
    return tmp_path


def test_no_process_writes_more_than_its_rows(shards: Path) -> None:
    names = [
        f"{part}-0000{rank}-of-00003.safetensors"
        for part in ("model", "random")
        for rank in (1, 2, 3)
    ]
    assert sorted(path.name for path in (shards / "three").iterdir()) == names
    rows = [
        {name: t.shape[0] for name, t in load_file(shards / "three" / n).items() if t.dim()}
        for n in names[:3]
    ]
    assert [part.get("0") for part in rows] == [3, 3, 1]
    assert [part.get("1") for part in rows] == [1, 0, 0]
    assert [len(load_file(shards / "three" / name)) for name in names[3:]] == [1, 0, 0], (
        "the main process has it"
    )


def test_one_process_reads_the_shards_of_three(shards: Path) -> None:
    own = _own()
    read_parts(sorted((shards / "three").iterdir()), own)
    assert all(torch.equal(own["model"][str(i)], whole) for i, whole in enumerate(WHOLES))


@pytest.mark.parametrize("size", [1, 2])
def test_other_numbers_of_processes_read_the_shards_of_three_and_whole_tensors(
    shards: Path, as_threads: AsThreads, size: int
) -> None:
    own = _own()
    whole = shards / "whole"
    read_parts(sorted((shards / "three").iterdir()), own)
    whole.mkdir()
    for part, tensors in own.items():
        save_file(tensors, whole / f"{part}.safetensors")

    def read_all(folder: Path) -> list[torch.Tensor]:
        split = _split([torch.zeros_like(tensor) for tensor in WHOLES])
        read_parts(sorted(folder.iterdir()), split)
        return [*map(full_tensor, split["model"].values()), split["random"]["cpu"]]

    results = as_threads(
        size, lambda _: [read_all(folder) for folder in (shards / "three", whole)], sharded=True
    )
    for tensors in itertools.chain(*results):
        assert all(torch.equal(*pair) for pair in zip(tensors, [*WHOLES, WHOLES[0]], strict=True))


@pytest.mark.parametrize("left_out", ["model-00001", "model-00002", "model-00003", "random-00001"])
def test_missing_shards_change_nothing(shards: Path, left_out: str) -> None:
    own = _own()
    files = [
        path for path in sorted((shards / "three").iterdir()) if not path.name.startswith(left_out)
    ]
    with pytest.raises(DamagedCheckpoint, match=r"is not of shape|it has no"):
        read_parts(files, own)
    assert not any(bool(tensor.any()) for tensors in own.values() for tensor in tensors.values())


@pytest.mark.slow
def test_true_processes_write_and_read_the_same(shards: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    folder = tmp_path / "processes"
    script.write_text(SCRIPT)
    folder.mkdir()
    _start(script, 3, "write", folder)
    files = [
        {path.name: path.read_bytes() for path in made.iterdir()}
        for made in (folder, shards / "three")
    ]
    assert files[0] == files[1]
    _start(script, 2, "read", folder)
    own = _own()
    whole = tmp_path / "whole"
    read_parts(sorted(folder.iterdir()), own)
    whole.mkdir()
    for part, tensors in own.items():
        save_file(tensors, whole / f"{part}.safetensors")
    _start(script, 2, "read", whole)
