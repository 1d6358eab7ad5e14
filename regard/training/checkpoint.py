"""Training checkpoints: all that the next update depends on, written atomically as a folder."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from torch import nn

from regard.common.atomic import file_sha256, sync
from regard.common.checksums import json_digest
from regard.common.errors import TrainingError
from regard.common.reading import file_bytes, parse_json
from regard.training.best_weights import BestWeights
from regard.training.checkpoint_tensors import (
    DamagedCheckpoint,
    Parts,
    read_parts,
    save_parts,
)
from regard.training.distributed import World

T = TypeVar("T")
STATE = "state.json"
"""File with the trainer's state and the checksums of all other files."""
BEST = "best.safetensors"
"""Copy of the best weights so far."""
_UNREADABLE = (
    OSError,
    SafetensorError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
)
"""Errors that a damaged checkpoint raises when it is read."""
# Names of the files of tensors, of all processes or of one.
FILE = re.compile(r"[a-z]+(-\d{5}-of-\d{5})?\.safetensors")


def has_checkpoint(run: Path) -> bool:
    """Return whether a run has a checkpoint, damaged or not."""
    return bool(_checkpoints(run / "checkpoints"))


@dataclass(frozen=True)
class Seal:
    """Content of a checkpoint's `state.json`: the trainer's state and the SHA-256 of each file."""

    folder: Path
    state: Mapping[str, object]
    files: dict[str, str]

    @property
    def best(self) -> tuple[Path | None, str | None]:
        """The copy of the best weights and its SHA-256; (None, None) if there were none yet."""
        if BEST not in self.files:
            return None, None
        return self.folder / BEST, self.files[BEST]


class Checkpoints:
    """The folder `checkpoints/` of a run, with the newest few: `update-00000500/` and so on.

    Each process writes its shards; the main process writes the tensors that are not sharded.
    """

    def __init__(self, folder: Path, keep: int, world: World | None = None) -> None:
        self.folder = folder
        self.keep = keep
        self.world = world or World()

    def save(
        self,
        update: int,
        parts: Parts,
        state: Mapping[str, object],
        best: BestWeights | None = None,
    ) -> None:
        """Write a checkpoint to a temporary folder, sync it, rename it, and remove the oldest one.

        Raises TrainingError in every process if that is impossible; the earlier checkpoints are
        then unchanged.
        """
        temporary = self.folder / f"update-{update:08d}.part"
        try:
            self._attempt(partial(self._begin, temporary))
            self._attempt(partial(save_parts, temporary, parts, self.world))
            self._attempt(partial(self._publish, temporary, state, best))
        except (OSError, SafetensorError, DamagedCheckpoint) as problem:
            shutil.rmtree(temporary, ignore_errors=True)
            last = "there is none yet"
            earlier = _checkpoints(self.folder)
            if earlier:
                last = f"the last one kept is {earlier[-1].name}"
            raise TrainingError(
                f"{self.folder}: the checkpoint of update {update} could not be written "
                f"({_cause(problem)}); {last}. Make room on the disk, or make the folder writable, "
                "then train with `resume=True`"
            ) from None

    def load(
        self,
        own: Parts,
        report_damaged: Callable[[str], None],
        check_state: Callable[[Mapping[str, object]], object] = dict,
    ) -> Seal | None:
        """Read the newest undamaged checkpoint into `own`; None if there is no checkpoint.

        `report_damaged` is called for each damaged checkpoint that is newer. `check_state` raises
        ValueError, KeyError or TypeError for an invalid state. Raises TrainingError if every
        checkpoint is damaged.
        """
        problems = []
        damaged = list[Path]()
        for folder in reversed(_checkpoints(self.folder)):
            try:
                seal = self._attempt(partial(_unseal, folder, self.world))
                self._attempt(partial(_read, seal, own, check_state))
            except DamagedCheckpoint as problem:
                problems.append(f"{folder}: damaged ({problem})")
                damaged.append(folder)
                continue
            for message in problems:
                report_damaged(message)
            self._set_aside(damaged)
            return seal
        TrainingError.raise_all(
            problems, "no checkpoint can be read; start again in another folder"
        )
        return None

    def _attempt(self, step: Callable[[], T]) -> T:
        """Run `step` in all processes and return its result.

        If it fails in one process, its exception is raised there, and DamagedCheckpoint in the
        others.
        """
        try:
            result = [step()]
            problem = None
        except (OSError, SafetensorError, TrainingError, DamagedCheckpoint) as failure:
            result = []
            problem = failure
        (failed,) = self.world.all_reduce_max(float(problem is not None))
        if problem is not None:
            raise problem
        if failed:
            raise DamagedCheckpoint(
                "another process could not read or write its share, and says why"
            )
        return result[0]

    def _set_aside(self, damaged: list[Path]) -> None:
        """Rename damaged checkpoints, which would count among the newest that are kept."""
        if self.world.is_main:
            for folder in damaged:
                new_path = folder.with_suffix(".damaged")
                shutil.rmtree(new_path, ignore_errors=True)
                folder.rename(new_path)

    def _begin(self, temporary: Path) -> None:
        if not self.world.is_main:
            return
        for unfinished in self.folder.glob("update-*.part"):
            shutil.rmtree(unfinished, ignore_errors=True)
        temporary.mkdir(parents=True)

    def _publish(
        self, temporary: Path, state: Mapping[str, object], best: BestWeights | None
    ) -> None:
        """Complete a checkpoint, sync it to disk, rename it to its final name, remove old ones."""
        if not self.world.is_main:
            return
        if best is not None:
            earlier = reversed(_checkpoints(self.folder))
            best.copy_to(temporary / BEST, [folder / BEST for folder in earlier])

        files = sorted(path for path in temporary.iterdir() if path.is_file())
        checksums = {path.name: file_sha256(path) for path in files}
        contents: dict[str, object] = {"state": state, "files": checksums}
        contents = {**contents, "checksum": json_digest(contents)}
        (temporary / STATE).write_text(json.dumps(contents, indent=1), encoding="utf-8")
        for path in [*files, temporary / STATE, temporary]:
            sync(path)

        # A checkpoint of the same update is replaced.
        final = temporary.with_suffix("")
        replaced = temporary.with_suffix(".old")
        shutil.rmtree(replaced, ignore_errors=True)
        if final.exists():
            final.rename(replaced)
        temporary.rename(final)
        sync(self.folder)
        shutil.rmtree(replaced, ignore_errors=True)
        for oldest in _checkpoints(self.folder)[: -self.keep]:
            shutil.rmtree(oldest, ignore_errors=True)


def _checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, oldest first."""
    return sorted(path for path in folder.glob("update-*") if not path.suffix)


def optimizer_tensors(
    optimizer: torch.optim.Optimizer, model: nn.Module
) -> dict[str, torch.Tensor]:
    """Return the optimizer's state as tensors named `weight name/state name`."""
    return {
        f"{name}/{key}": value.detach()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def init_optimizer_state(optimizer: torch.optim.Optimizer) -> None:
    """Create the state that Adam would create at its first step.

    A checkpoint can then be read into it.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            device = "cpu" if parameter.device.type == "cpu" else parameter.device
            optimizer.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }


def _unseal(folder: Path, world: World) -> Seal:
    """Read `state.json` and check every file that it lists; no other file is ever opened.

    The processes divide the files among them. Raises DamagedCheckpoint, also for a file that is not
    listed, because training did not write it. Hidden files, which operating systems create, are
    ignored.
    """
    try:
        contents = parse_json(file_bytes(_regular(folder, STATE)))
        is_sealed = isinstance(contents, dict) and (
            contents.pop("checksum", None) == json_digest(contents)
        )
        if not is_sealed:
            raise DamagedCheckpoint(f"{STATE} does not match its checksum")
        state = dict(contents["state"])
        files = dict(contents["files"])
        if state.get("best_update") and BEST not in files:
            raise DamagedCheckpoint(
                f"it has no {BEST}, although update {state['best_update']} was the best"
            )
        names = {
            path.name for path in folder.iterdir() if not path.name.startswith(".")
        }
        if unlisted := sorted(names - files.keys() - {STATE}):
            raise DamagedCheckpoint(
                f"{unlisted[0]} is not listed in {STATE}: training did not write it"
            )
        for name in list(files)[world.rank :: world.size]:
            if not FILE.fullmatch(name):
                raise DamagedCheckpoint(
                    f"{STATE} lists {name!r}, which is no file of a checkpoint"
                )
            if file_sha256(_regular(folder, name)) != files[name]:
                raise DamagedCheckpoint(f"{name} does not match its checksum")
        return Seal(folder, state, files)
    except _UNREADABLE as problem:
        raise DamagedCheckpoint(_cause(problem)) from None


def _regular(folder: Path, name: str) -> Path:
    """Return the path of a file in a checkpoint.

    Raises DamagedCheckpoint if it is missing, a link or no file.
    """
    path = folder / name
    if path.is_symlink():
        raise DamagedCheckpoint(f"{name} is not a file")
    if not path.is_file():
        problem = "not a file" if path.exists() else "missing"
        raise DamagedCheckpoint(f"{name} is {problem}")
    return path


def _read(
    seal: Seal, own: Parts, check_state: Callable[[Mapping[str, object]], object]
) -> None:
    try:
        check_state(seal.state)
        read_parts([seal.folder / name for name in seal.files if name != BEST], own)
    except _UNREADABLE as problem:
        raise DamagedCheckpoint(_cause(problem)) from None


def _cause(problem: BaseException) -> str:
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
