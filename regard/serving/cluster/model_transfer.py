"""Models that machines without their files get through Ray: the files are sent once to each machine
that lacks them.
"""

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
    from regard.runtime.engine import Precision


@dataclass(frozen=True)
class SentFiles:
    """A runtime file or a model folder: its path, and of each file the name, the SHA-256, and the
    bytes in Ray.

    Names are relative to the folder in which the model lies.
    """

    path: Path
    files: tuple[tuple[Path, str, Any], ...]

    @classmethod
    def put(cls, ray: Any, path: Path) -> SentFiles:
        """Read the files into Ray's memory. Raises ModelFolderError if the folder lacks one."""
        path = path.resolve()
        files = [path]
        if not is_runtime_file(path):
            from regard.common.checksums import fingerprints
            from regard.model_folder import LANGUAGES

            others = [path / name for name in (LANGUAGES, "README.md")]
            files = [
                *(path / name for name in fingerprints(path)),
                *filter(Path.is_file, others),
            ]
        sent = (
            (
                file.relative_to(path.parent),
                file_sha256(file),
                ray.put(file.read_bytes()),
            )
            for file in files
        )
        return cls(path, tuple(sent))

    @contextlib.contextmanager
    def path_here(self) -> Iterator[Path]:
        """Yield where the model lies on this machine: at its own path, if the same files are there,
        else in a folder.

        The folder is removed at the end of the block.
        """
        if self._is_here():
            yield self.path
            return
        import ray

        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            for name, _, content in self.files:
                (Path(folder) / name).parent.mkdir(exist_ok=True)
                (Path(folder) / name).write_bytes(ray.get(content))
            yield Path(folder) / self.path.name

    def _is_here(self) -> bool:
        try:
            return all(
                file_sha256(self.path.parent / name) == digest
                for name, digest, _ in self.files
            )
        except OSError:
            return False


@dataclass(frozen=True)
class SentModel:
    """A model, or several as an ensemble, with the options it is opened with; made here, opened on
    other machines.
    """

    members: tuple[SentFiles, ...]
    precision: Precision = "float32"
    threads: int = 1

    def open(self) -> Translator:
        """Open the model on this machine.

        Its files may go afterwards: a runtime file stays mapped, a folder is in memory.
        """
        with contextlib.ExitStack() as stack:
            paths = [stack.enter_context(member.path_here()) for member in self.members]
            if len(paths) == 1 and is_runtime_file(paths[0]):
                from regard.pipeline import open_runtime

                return open_runtime(paths[0], threads=self.threads)
            import torch

            from regard.pipeline import load_translator

            torch.set_num_threads(self.threads)
            translator = load_translator(
                paths if len(paths) > 1 else paths[0], "cpu", self.precision
            )
            translator.engine.prepare()
            return translator
