"""Checkpoints of a run: everything that the next update depends on, in a folder that appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load as load_sharded
from torch.distributed.checkpoint.state_dict_saver import save as save_sharded
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.errors import ModelFolderError, TrainingError
from regard.model_folder import load_tensors, save_tensors
from regard.training.distributed import World

__all__ = [
    "Checkpoints",
    "DamagedCheckpoint",
    "Parts",
    "copy_into",
    "init_optimizer_state",
    "optimizer_tensors",
    "there",
]

Parts = dict[str, dict[str, torch.Tensor]]  # model, average, optimizer …: tensors by name
STATE, SHARDS = "state.json", "sharded"


def there(run: Path) -> bool:
    """Whether a run has a checkpoint, be it damaged."""
    return bool(_all(run / "checkpoints"))


class DamagedCheckpoint(Exception):
    """A checkpoint that cannot be read, and why."""


class Checkpoints:
    """The folder `checkpoints/` of a run: `update-00000500/` and so on, the newest few.

    Sharded tensors are saved by all processes together (`torch.distributed.checkpoint`), any others by the first.
    """

    def __init__(self, folder: Path, keep: int, world: World | None = None) -> None:
        self.folder, self.keep, self.world = folder, keep, world or World()

    def save(self, update: int, parts: Parts, state: dict[str, Any]) -> None:
        """Write one checkpoint beside, make sure it is on the disk, rename it, then drop the oldest.

        Raises TrainingError where that cannot be done; the checkpoints before it are untouched then.
        """
        beside = self.folder / f"update-{update:08d}.part"
        try:
            self._write(beside, parts, state)
        except (OSError, SafetensorError, CheckpointException) as problem:
            shutil.rmtree(beside, ignore_errors=True)
            kept = self._all()
            last = f"the last one kept is {kept[-1].name}" if kept else "there is none yet"
            raise TrainingError(
                f"{self.folder}: the checkpoint of update {update} could not be written ({_reason(problem)}); {last}. "
                "Make room on the disk, or see that the folder can be written, then train with --resume"
            ) from None

    def load(self, own: Parts, damaged: Callable[[str], None]) -> tuple[Parts, dict[str, Any]] | None:
        """The newest checkpoint that is whole, or None where there is none at all. `damaged` is told of each newer one,
        which is not. `own` are tensors of the right names and shapes, which a sharded checkpoint is read into.
        """
        problems, bad = [], list[Path]()
        for folder in reversed(self._all()):
            try:
                found = _read(folder, own)
            except DamagedCheckpoint as problem:
                problems.append(f"{folder}: damaged ({problem})")
                bad.append(folder)
                continue
            for said in problems:
                damaged(said)
            self._put_aside(bad)
            return found
        if problems:
            raise TrainingError(*problems, "no checkpoint can be read; start again in another folder")
        return None

    def _put_aside(self, bad: list[Path]) -> None:
        """Damaged ones are newer than what was read: left among the others they would count as the newest, and push
        whole ones out."""
        if self.world.is_main:
            for folder in bad:
                aside = folder.with_suffix(".damaged")
                shutil.rmtree(aside, ignore_errors=True)
                folder.rename(aside)

    def _write(self, beside: Path, parts: Parts, state: dict[str, Any]) -> None:
        if self.world.is_main:
            for unfinished in self.folder.glob("update-*.part"):
                shutil.rmtree(unfinished, ignore_errors=True)
            beside.mkdir(parents=True)
        if self.world.sharded:
            self.world.barrier()
            save_sharded(_flat(parts), checkpoint_id=beside / SHARDS)
        if self.world.is_main:
            if not self.world.sharded:
                for name, tensors in parts.items():
                    save_tensors(beside / f"{name}.safetensors", tensors)
            files = [path for path in sorted(beside.rglob("*")) if path.is_file()]
            sums = {str(path.relative_to(beside)): _checksum(path) for path in files}
            (beside / STATE).write_text(_sealed({"state": state, "files": sums}), encoding="utf-8")
            for path in [*files, beside / STATE, beside]:
                _sync(path)
            final, old = beside.with_suffix(""), beside.with_suffix(".old")
            shutil.rmtree(old, ignore_errors=True)
            if final.exists():
                final.rename(old)
            beside.rename(final)
            _sync(self.folder)
            shutil.rmtree(old, ignore_errors=True)
            for old in self._all()[: -self.keep]:
                shutil.rmtree(old, ignore_errors=True)
        self.world.barrier()

    def _all(self) -> list[Path]:
        return _all(self.folder)


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("update-*") if not path.suffix)


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, torch.Tensor]:
    """The optimizer's memory as named tensors: `weight name/what`."""
    return {
        f"{name}/{key}": value.detach()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def init_optimizer_state(optimizer: torch.optim.Optimizer) -> None:
    """The memory that Adam makes at its first step, so that there is something to read a checkpoint into."""
    for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
        device = "cpu" if parameter.device.type == "cpu" else parameter.device
        optimizer.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }


def copy_into(own: Parts, parts: Parts) -> None:
    """Copy what was read into the tensors that are in use."""
    with torch.no_grad():
        for part, tensors in parts.items():
            for name, tensor in tensors.items():
                mine = own[part][name]
                if isinstance(mine, DTensor) and not isinstance(tensor, DTensor):  # of a run that was not split
                    tensor = distribute_tensor(tensor.to(mine.device), mine.device_mesh, mine.placements)
                if mine is not tensor:
                    mine.copy_(tensor)


def _read(folder: Path, own: Parts) -> tuple[Parts, dict[str, Any]]:
    try:
        said = json.loads((folder / STATE).read_text(encoding="utf-8"))
        if said.pop("seal") != _seal(said):
            raise DamagedCheckpoint(f"{STATE} does not match its checksum")
        for name, checksum in said["files"].items():
            if _checksum(folder / name) != checksum:
                raise DamagedCheckpoint(f"{name} does not match its checksum")
        if (folder / SHARDS).is_dir():
            load_sharded(_flat(own), checkpoint_id=folder / SHARDS)
            return own, said["state"]
        return {path.stem: load_tensors(path) for path in sorted(folder.glob("*.safetensors"))}, said["state"]
    except (OSError, ValueError, KeyError, AttributeError, ModelFolderError, CheckpointException) as problem:
        raise DamagedCheckpoint(_reason(problem)) from None


def _flat(parts: Parts) -> dict[str, torch.Tensor]:
    return {f"{part}/{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}


def _sealed(said: dict[str, Any]) -> str:
    return json.dumps({**said, "seal": _seal(said)}, indent=1)


def _seal(said: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(2**22):
            digest.update(chunk)
    return digest.hexdigest()


def _sync(path: Path) -> None:
    """Make sure that what was written is on the disk before something is renamed."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason(problem: BaseException) -> str:
    if isinstance(problem, CheckpointException):  # of all processes; the first one's cause is told
        problem = next((cause for cause, _ in problem.failures.values()), problem)
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
