"""Tensors of a checkpoint: written by some processes, they are read by any other number, each its
own rows.

Processes are threads here (`conftest.py`), and true ones in `test_distributed.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from regard.training.checkpoint_tensors import (
    DamagedCheckpoint,
    Parts,
    read_parts,
    save_parts,
)
from regard.training.distributed import full_tensor

SHAPES = [(7, 3), (1,), (2, 2), (5,), ()]
WHOLES = [
    torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape) for shape in SHAPES
]
AsThreads = Callable[..., list[Any]]


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
    folder = tmp_path / "three"
    folder.mkdir()
    write = lambda world: save_parts(folder, _split(WHOLES), world)  # noqa: E731
    as_threads(3, write, sharded=True)
    return tmp_path


def test_no_process_writes_more_than_its_rows(shards: Path) -> None:
    names = [
        f"{part}-0000{rank}-of-00003.safetensors"
        for part in ("model", "random")
        for rank in (1, 2, 3)
    ]

    assert sorted(path.name for path in (shards / "three").iterdir()) == names

    parts = [load_file(shards / "three" / name) for name in names[:3]]

    assert [len(part["0"]) for part in parts] == [3, 3, 1]
    assert [len(part["1"]) for part in parts] == [1, 0, 0]

    of_main_process = [len(load_file(shards / "three" / name)) for name in names[3:]]

    assert of_main_process == [1, 0, 0]


@pytest.mark.parametrize("size", [1, 2])
def test_other_numbers_of_processes_read_the_shards_of_three_and_whole_tensors(
    shards: Path, as_threads: AsThreads, size: int
) -> None:
    own = _own()
    read_parts(sorted((shards / "three").iterdir()), own)

    assert all(map(torch.equal, own["model"].values(), WHOLES))

    (shards / "whole").mkdir()
    for part, tensors in own.items():
        save_file(tensors, shards / "whole" / f"{part}.safetensors")

    def read_all(folder: Path) -> list[torch.Tensor]:
        split = _split([torch.zeros_like(tensor) for tensor in WHOLES])
        read_parts(sorted(folder.iterdir()), split)
        return [*map(full_tensor, split["model"].values()), split["random"]["cpu"]]

    for name in ("three", "whole"):
        results = as_threads(size, lambda _: read_all(shards / name), sharded=True)  # noqa: B023
        for tensors in results:
            assert all(map(torch.equal, tensors, [*WHOLES, WHOLES[0]]))


@pytest.mark.parametrize("left_out", ["model-00001", "model-00003", "random-00001"])
def test_missing_shards_change_nothing(shards: Path, left_out: str) -> None:
    own = _own()
    files = sorted((shards / "three").iterdir())
    remaining = [path for path in files if not path.name.startswith(left_out)]

    with pytest.raises(DamagedCheckpoint, match=r"is not of shape|it has no"):
        read_parts(remaining, own)

    for tensor in (*own["model"].values(), *own["random"].values()):
        assert not tensor.any()
