"""The best weights of a run, `model.safetensors`.

They are checked by their SHA-256, and restored from the copy in a checkpoint if they are damaged.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from regard.common.atomic import atomic_file, file_sha256
from regard.common.errors import TrainingError
from regard.model_folder import folder_id, save_tensors

CARD = "README.md"
REPORT = "report.html"
"""Files beside the weights that tell their scores."""


class BestWeights:
    """The file of the best weights; `report` is called with a sentence if it had to be restored."""

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self.path = path
        self.report = report
        self.folder_id = folder_id(path.parent)
        # Checksum of the file that training wrote; None: it has written none yet.
        self.sha256: str | None = None

    def save(self, tensors: Mapping[str, torch.Tensor], update: int) -> None:
        """Write the weights of an update. Raises OSError."""
        metadata = {"update": str(update), "model": self.folder_id}
        with self._replaced() as new:
            save_tensors(new, tensors, metadata)
        self.sha256 = file_sha256(self.path)

    def copy_to(self, copy: Path, earlier: Sequence[Path]) -> None:
        """Copy the weights into a checkpoint.

        If they are damaged, they are first restored from an `earlier` copy. Raises TrainingError if
        every copy is damaged, and OSError.
        """
        if self.sha256 is None:
            return
        if self._problem() is not None:
            undamaged = [
                path
                for path in earlier
                if path.is_file() and file_sha256(path) == self.sha256
            ]
            self._restore(undamaged)
        shutil.copyfile(self.path, copy)

    def resume(self, copy: Path | None, sha256: str | None) -> None:
        """Restore the best weights of a checkpoint, if it has any.

        The file may be missing or damaged, or belong to a later update, after which no checkpoint
        was written. Raises TrainingError if it cannot be restored.
        """
        self.sha256 = sha256
        if copy is not None and self._problem() is not None:
            self._restore([copy])

    def _restore(self, copies: Sequence[Path]) -> None:
        problem = self._problem()
        if not copies:
            raise TrainingError(
                f"{self.path}: {problem}, and no checkpoint holds the best weights of this run; "
                "put the file back from a copy, or start again in another folder"
            )
        try:
            with self._replaced() as temporary:
                shutil.copyfile(copies[0], temporary)
        except OSError as error:
            raise TrainingError(
                f"{self.path}: {problem}, and the best weights cannot be restored from {copies[0]} "
                f"({error.strerror}); make it a file that can be written, then train with "
                "`resume=True`"
            ) from None
        update = update_of(self.path) or "unknown"
        self.report(
            f"{self.path}: {problem}; the best weights (update {update}) are restored"
        )

    @contextmanager
    def _replaced(self) -> Iterator[Path]:
        """Yield a path for other weights; what the folder says of the present ones is removed
        before they are replaced, so that no kill leaves it beside others.
        """
        with atomic_file(self.path, durable=True) as temporary:
            yield temporary
            for name in (CARD, REPORT):
                self.path.with_name(name).unlink(missing_ok=True)

    def _problem(self) -> str | None:
        """Return why the file is not the one that training wrote; None if it is."""
        if not self.path.is_file():
            return "missing"
        try:
            if file_sha256(self.path) == self.sha256:
                return None
        except OSError as problem:
            return f"cannot be read ({problem.strerror})"
        return (
            "not the weights that the checkpoint names as the best (it says update "
            f"{update_of(self.path) or 'unknown'})"
        )


def update_of(path: Path) -> int | None:
    """Return the update that is named in the header of a file of weights; None if it is unknown."""
    try:
        with safe_open(path, "pt") as file:
            return int(file.metadata()["update"])
    except (SafetensorError, OSError, LookupError, TypeError, ValueError):
        return None
