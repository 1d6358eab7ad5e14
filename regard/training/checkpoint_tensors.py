"""Tensors of a checkpoint, in safetensors files: one for all processes, or one for each.

Either kind can be read into whole or sharded tensors. The header of a file of one process gives, as
JSON, the rows of each of its shards. Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch.distributed.tensor import DTensor, Shard

from regard.common.reading import parse_json
from regard.common.shapes import Tensor
from regard.model_folder import save_tensors
from regard.training.distributed import World

Parts = dict[str, dict[str, torch.Tensor]]
"""Named tensors of each part of a checkpoint: model, ema, optimizer, random."""
ROWS = "rows"
"""Header key: the first row of each shard, and the number of rows of its whole tensor."""
OPTIONAL = "optimizer"
"""Part that may lack tensors: weights that had no gradient yet have no state."""


class DamagedCheckpoint(Exception):
    """Error: a checkpoint cannot be read; its text is the reason."""


@dataclass(frozen=True)
class _Shard:
    """Rows of a tensor in an open safetensors file, from row `start` on."""

    file: Any
    name: str
    start: int
    rows: int  # of the whole tensor
    shape: tuple[int, ...]

    def read(self, start: int, end: int) -> Tensor:
        """Read rows `start` to `end` of the whole tensor, or all of a tensor without axes."""
        if not self.shape:
            return self.file.get_tensor(self.name)  # type: ignore[no-any-return]
        return self.file.get_slice(self.name)[start - self.start : end - self.start]  # type: ignore[no-any-return]


def save_parts(folder: Path, parts: Parts, world: World) -> None:
    """Write the shards of this process, and in the main process the tensors that are not sharded.

    Raises OSError.
    """
    for part, tensors in parts.items():
        if not world.sharded:
            if world.is_main:
                save_tensors(folder / f"{part}.safetensors", tensors)
            continue
        local = {
            name: _local(t)
            for name, t in tensors.items()
            if world.is_main or isinstance(t, DTensor)
        }
        rows = {
            name: [_first_row(t), t.shape[0]]
            for name, t in tensors.items()
            if isinstance(t, DTensor)
        }
        path = folder / f"{part}-{world.rank + 1:05}-of-{world.size:05}.safetensors"
        save_tensors(path, local, {ROWS: json.dumps(rows)})


def read_parts(files: Sequence[Path], own: Parts) -> None:
    """Read into each tensor of `own` the rows that this process holds.

    Any number of processes may have written the files. Raises DamagedCheckpoint, before anything is
    changed, if tensors are missing, unexpected or of another shape; and while reading, if weights
    are not finite. Also raises OSError, SafetensorError, ValueError, TypeError and KeyError.
    """
    with ExitStack() as stack, torch.no_grad():
        shards = {
            part: _open_shards([f for f in files if _part(f) == part], stack)
            for part in map(_part, files)
        }
        for part in {**own, **shards}:
            _check(part, own.get(part, {}), shards.get(part, {}))
        for part, tensors in own.items():
            for name, tensor in tensors.items():
                _fill(part, name, tensor, shards.get(part, {}).get(name, ()))


def _open_shards(paths: Sequence[Path], stack: ExitStack) -> dict[str, list[_Shard]]:
    """Open the files of one part; return the shards of each tensor, sorted by their first row."""
    shards: dict[str, list[_Shard]] = {}
    for path in paths:
        file: Any = stack.enter_context(safe_open(path, "pt"))
        rows = parse_json((file.metadata() or {}).get(ROWS, "{}"))
        for name in file.keys():  # noqa: SIM118 (not a dict)
            shape = tuple(file.get_slice(name).get_shape())
            start, total = rows.get(name, (0, shape[0] if shape else 1))
            shards.setdefault(name, []).append(
                _Shard(file, name, int(start), int(total), shape)
            )
    return {
        name: sorted(members, key=lambda shard: shard.start)
        for name, members in shards.items()
    }


def _check(
    part: str, own: dict[str, torch.Tensor], shards: dict[str, list[_Shard]]
) -> None:
    """Raise DamagedCheckpoint unless the shards form exactly the tensors of `own`."""
    problems = [
        f"it has no {part} tensor {name}"
        for name in own
        if name not in shards and part != OPTIONAL
    ]
    problems += [
        f"its {part} tensor {name} belongs to no part of this model"
        for name in shards
        if name not in own
    ]
    for name in own.keys() & shards.keys():
        if not _is_complete(shards[name], tuple(own[name].shape)):
            stored = [(shard.start, *shard.shape) for shard in shards[name]]
            problems.append(
                f"its {part} tensor {name} is not of shape {tuple(own[name].shape)}: start, shape "
                f"{stored}"
            )
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise DamagedCheckpoint(sorted(problems)[0] + more)


def _is_complete(shards: Sequence[_Shard], shape: tuple[int, ...]) -> bool:
    """Return whether consecutive shards contain all rows of a tensor of this shape."""
    if not shape:
        return [shard.shape for shard in shards] == [()]
    if any(
        not shard.shape or shard.rows != shape[0] or shard.shape[1:] != shape[1:]
        for shard in shards
    ):
        return False
    ends = list(accumulate(shard.shape[0] for shard in shards))
    return [shard.start for shard in shards] == [0, *ends[:-1]] and ends[-1] == shape[0]


def _fill(part: str, name: str, tensor: Tensor, shards: Sequence[_Shard]) -> None:
    """Copy the rows of a tensor that this process holds.

    Without shards, the optimizer had no state for it yet, and it becomes zero.
    """
    target = _local(tensor)
    first = _first_row(tensor)
    last = first + (target.shape[0] if target.shape else 1)
    if not shards:
        target.zero_()
    for shard in shards:
        start = max(first, shard.start)
        end = min(last, shard.start + (shard.shape[0] if shard.shape else 1))
        if start < end:
            values = shard.read(start, end)
            if part in ("model", "ema") and not bool(torch.isfinite(values).all()):
                raise DamagedCheckpoint(f"its {part} tensor {name} is not finite")
            rows = target[start - first : end - first] if target.shape else target
            rows.copy_(values)


def _part(path: Path) -> str:
    """Return the part of a file's tensors: `model` for `model-00001-of-00004.safetensors`."""
    return path.stem.partition("-")[0]


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _first_row(tensor: Tensor) -> int:
    """Return the first row of this process's shard; rows are divided as by `torch.chunk`."""
    if not isinstance(tensor, DTensor):
        return 0
    assert tensor.placements == (Shard(0),), "weights are sharded by rows"
    chunk = -(-tensor.shape[0] // tensor.device_mesh.size())
    return min(tensor.device_mesh.get_local_rank() * chunk, tensor.shape[0])
