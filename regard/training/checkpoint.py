"""Training checkpoints: all that the next update depends on, in a folder that appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
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

from regard.atomic import file_sha256, sync
from regard.errors import ModelFolderError, TrainingError
from regard.model_folder import load_tensors, save_tensors
from regard.training.distributed import World

Parts = dict[str, dict[str, torch.Tensor]]  # model, ema, optimizer, random: tensors by name
STATE, SHARDS = "state.json", "sharded"


def has_checkpoint(run: Path) -> bool:
    """Return whether a run has a checkpoint, damaged or not."""
    return bool(_checkpoints(run / "checkpoints"))


class DamagedCheckpoint(Exception):
    """A checkpoint cannot be read, and why."""


class Checkpoints:
    """The folder `checkpoints/` of a run: `update-00000500/` and so on, the newest few.

    Sharded tensors are saved by all processes together (`torch.distributed.checkpoint`), others by the main process.
    """

    def __init__(self, folder: Path, keep: int, world: World | None = None) -> None:
        self.folder, self.keep, self.world = folder, keep, world or World()

    def save(self, update: int, parts: Parts, state: dict[str, Any]) -> None:
        """Write a checkpoint to a temporary folder, sync it to disk, rename it, then remove the oldest.

        Raises TrainingError if that is impossible; the checkpoints before it are untouched then.
        """
        temporary = self.folder / f"update-{update:08d}.part"
        try:
            self._write(temporary, parts, state)
        except (OSError, SafetensorError, CheckpointException) as problem:
            shutil.rmtree(temporary, ignore_errors=True)
            earlier = _checkpoints(self.folder)
            last = f"the last one kept is {earlier[-1].name}" if earlier else "there is none yet"
            raise TrainingError(
                f"{self.folder}: the checkpoint of update {update} could not be written ({_cause(problem)}); {last}. "
                "Make room on the disk, or make the folder writable, then train with `resume=True`"
            ) from None

    def load(self, own: Parts, report_damaged: Callable[[str], None]) -> tuple[Parts, dict[str, Any]] | None:
        """The tensors and the state of the newest undamaged checkpoint, or None if there is no checkpoint.

        `report_damaged` is called for each newer, damaged one. `own` are tensors of the right names and shapes, which a
        sharded checkpoint is read into. Raises TrainingError if every checkpoint is damaged.
        """
        problems, damaged = [], list[Path]()
        for folder in reversed(_checkpoints(self.folder)):
            try:
                loaded = _read(folder, own)
            except DamagedCheckpoint as problem:
                problems.append(f"{folder}: damaged ({problem})")
                damaged.append(folder)
                continue
            for message in problems:
                report_damaged(message)
            self._set_aside(damaged)
            return loaded
        if problems:
            raise TrainingError(*problems, "no checkpoint can be read; start again in another folder")
        return None

    def _set_aside(self, damaged: list[Path]) -> None:
        """Rename damaged checkpoints, which would count as the newest and push undamaged ones out."""
        if self.world.is_main:
            for folder in damaged:
                aside = folder.with_suffix(".damaged")
                shutil.rmtree(aside, ignore_errors=True)
                folder.rename(aside)

    def _write(self, temporary: Path, parts: Parts, state: dict[str, Any]) -> None:
        if self.world.is_main:
            for unfinished in self.folder.glob("update-*.part"):
                shutil.rmtree(unfinished, ignore_errors=True)
            temporary.mkdir(parents=True)
        if self.world.sharded:
            self.world.barrier()
            save_sharded(_flat(parts), checkpoint_id=temporary / SHARDS)
        if self.world.is_main:
            if not self.world.sharded:
                for name, tensors in parts.items():
                    save_tensors(temporary / f"{name}.safetensors", tensors)
            self._publish(temporary, state)
        self.world.barrier()

    def _publish(self, temporary: Path, state: dict[str, Any]) -> None:
        """Write the checksums, sync all to disk, give the folder its name, and remove the oldest checkpoints."""
        files = [path for path in sorted(temporary.rglob("*")) if path.is_file()]
        sums = {str(path.relative_to(temporary)): file_sha256(path) for path in files}
        contents: dict[str, Any] = {"state": state, "files": sums}
        contents = {**contents, "checksum": _checksum(contents)}
        (temporary / STATE).write_text(json.dumps(contents, indent=1), encoding="utf-8")
        for path in [*files, temporary / STATE, temporary]:
            sync(path)
        final, old = temporary.with_suffix(""), temporary.with_suffix(".old")
        shutil.rmtree(old, ignore_errors=True)
        if final.exists():
            final.rename(old)
        temporary.rename(final)
        sync(self.folder)
        shutil.rmtree(old, ignore_errors=True)
        for old in _checkpoints(self.folder)[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)


def _checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    return sorted(path for path in folder.glob("update-*") if not path.suffix)


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, torch.Tensor]:
    """The optimizer's state as named tensors: `weight name/state name`."""
    return {
        f"{name}/{key}": value.detach()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def init_optimizer_state(optimizer: torch.optim.Optimizer) -> None:
    """Create the state that Adam creates at its first step, so that a checkpoint can be read into it."""
    for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
        device = "cpu" if parameter.device.type == "cpu" else parameter.device
        optimizer.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }


def copy_into(own: Parts, parts: Parts) -> None:
    """Copy tensors of a checkpoint into the tensors of the same names that are in use."""
    with torch.no_grad():
        for part, tensors in parts.items():
            for name, tensor in tensors.items():
                target = own[part][name]
                if isinstance(target, DTensor) and not isinstance(tensor, DTensor):  # of a run that was not sharded
                    tensor = distribute_tensor(tensor.to(target.device), target.device_mesh, target.placements)
                if target is not tensor:
                    target.copy_(tensor)


def _read(folder: Path, own: Parts) -> tuple[Parts, dict[str, Any]]:
    try:
        contents = json.loads((folder / STATE).read_text(encoding="utf-8"))
        if contents.pop("checksum") != _checksum(contents):
            raise DamagedCheckpoint(f"{STATE} does not match its checksum")
        for name, checksum in contents["files"].items():
            if file_sha256(folder / name) != checksum:
                raise DamagedCheckpoint(f"{name} does not match its checksum")
        if (folder / SHARDS).is_dir():
            load_sharded(_flat(own), checkpoint_id=folder / SHARDS)
            return own, contents["state"]
        return {path.stem: load_tensors(path) for path in sorted(folder.glob("*.safetensors"))}, contents["state"]
    except (OSError, ValueError, KeyError, AttributeError, ModelFolderError, CheckpointException) as problem:
        raise DamagedCheckpoint(_cause(problem)) from None


def _flat(parts: Parts) -> dict[str, torch.Tensor]:
    return {f"{part}/{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}


def _checksum(contents: dict[str, Any]) -> str:
    """SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def _cause(problem: BaseException) -> str:
    if isinstance(problem, CheckpointException):  # of all processes; the first one's cause is reported
        problem = next((cause for cause, _ in problem.failures.values()), problem)
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
