"""Models that machines without their files get through Ray: the files are sent once to each machine that lacks them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.atomic import file_sha256
from regard.common.reading import is_runtime_file

if TYPE_CHECKING:
    from regard.pipeline import Translator


@dataclass(frozen=True)
class SentFiles:
    """A runtime file or a model folder: its path, and of each file the name, the SHA-256, and the bytes in Ray."""

    path: Path
    is_runtime_file: bool
    files: tuple[tuple[str, str, Any], ...]

    @classmethod
    def put(cls, ray: Any, path: Path) -> SentFiles:
        """Read the files into Ray's memory. Raises ModelFolderError if the folder lacks one."""
        is_file, path, names = is_runtime_file(path), path.resolve(), [path.name]
        if not is_file:
            from regard.common.seal import fingerprints
            from regard.model_folder import LANGUAGES

            names = [*fingerprints(path), *(name for name in (LANGUAGES, "README.md") if (path / name).is_file())]
        folder = path.parent if is_file else path
        files = ((name, file_sha256(folder / name), ray.put((folder / name).read_bytes())) for name in names)
        return cls(path, is_file, tuple(files))

    @contextlib.contextmanager
    def path_here(self) -> Iterator[Path]:
        """Yield where the model lies on this machine: at its own path, if the same files are there, else in a folder.

        The folder is removed at the end of the block.
        """
        if self._is_here():
            yield self.path
            return
        import ray

        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            for name, _, content in self.files:
                (Path(folder) / name).write_bytes(ray.get(content))
            yield Path(folder) / self.path.name if self.is_runtime_file else Path(folder)

    def _is_here(self) -> bool:
        folder = self.path.parent if self.is_runtime_file else self.path
        try:
            return all(file_sha256(folder / name) == digest for name, digest, _ in self.files)
        except OSError:
            return False


@dataclass(frozen=True)
class SentModel:
    """A model, or several as an ensemble, with the options it is opened with; made here, opened on other machines."""

    members: tuple[SentFiles, ...]
    device: str = "cpu"
    precision: str = "float32"
    threads: int = 1

    def open(self) -> Translator:
        """Open the model on this machine.

        Its files may go afterwards: a runtime file stays mapped, a folder is in memory.
        """
        with contextlib.ExitStack() as stack:
            paths = [stack.enter_context(member.path_here()) for member in self.members]
            if len(paths) == 1 and self.members[0].is_runtime_file:
                from regard.pipeline import open_runtime

                return open_runtime(paths[0], threads=self.threads)
            import torch

            from regard.pipeline import load_translator

            torch.set_num_threads(self.threads)
            options: Any = (self.device, self.precision)
            translator = load_translator(paths if len(paths) > 1 else paths[0], *options)
            translator.engine.prepare()
            return translator
