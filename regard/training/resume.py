"""Checkpoints of a run: everything that the next update depends on, in a folder that appears whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.checkpoint import load_tensors, save_tensors
from regard.errors import ModelFolderError, TrainingError

__all__ = ["Checkpoints", "optimizer_tensors", "put_optimizer"]


class Checkpoints:
    """The folder `checkpoints/` of a run: `update-000500/` and so on, the newest few."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def save(self, update: int, parts: dict[str, dict[str, torch.Tensor]], state: dict[str, Any]) -> None:
        """Write one checkpoint beside, rename it, then drop the oldest."""
        beside = self.folder / f"update-{update:08d}.part"
        for unfinished in self.folder.glob("update-*.part"):
            shutil.rmtree(unfinished, ignore_errors=True)
        beside.mkdir(parents=True)
        for name, tensors in parts.items():
            save_tensors(beside / f"{name}.safetensors", tensors)
        (beside / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")
        _sync(beside)
        final = beside.with_suffix("")
        shutil.rmtree(final, ignore_errors=True)
        beside.rename(final)
        for old in self._all()[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)

    def load(self) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, Any]] | None:
        """The newest checkpoint that can be read, or None where there is none at all."""
        problems = []
        for folder in reversed(self._all()):
            try:
                state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
                return {path.stem: load_tensors(path) for path in folder.glob("*.safetensors")}, state
            except (OSError, ValueError, ModelFolderError) as problem:
                problems.append(f"{folder}: damaged ({problem})")
        if problems:
            raise TrainingError(*problems, "no checkpoint can be read; start again in another folder")
        return None

    def _all(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("update-*") if path.suffix != ".part")


def _sync(folder: Path) -> None:
    """Make sure that what was written is on the disk before it gets its name."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, torch.Tensor]:
    """The optimizer's memory as named tensors: `weight name/what`."""
    return {
        f"{name}/{key}": value.detach().cpu().reshape(value.shape)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def put_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Give the optimizer its memory back."""
    own = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, what = key.rpartition("/")
        parameter = own[name]
        on = "cpu" if what == "step" and parameter.device.type == "cpu" else parameter.device
        optimizer.state[parameter][what] = value.clone().to(on)
