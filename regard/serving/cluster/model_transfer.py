"""Transfer of models through Ray: the files are sent once to each machine that lacks them."""

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
    """A runtime file or a model folder whose files are in Ray's memory.

    `files`: name, SHA-256 and Ray's reference to the bytes of each file; names are relative to the
    parent folder of the model.
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

            required = [path / name for name in fingerprints(path)]
            optional = [path / name for name in (LANGUAGES, "README.md")]
            files = [*required, *filter(Path.is_file, optional)]

        sent_files = []
        for file in files:
            name = file.relative_to(path.parent)
            sent_files.append((name, file_sha256(file), ray.put(file.read_bytes())))
        return cls(path, tuple(sent_files))

    @contextlib.contextmanager
    def path_here(self) -> Iterator[Path]:
        """Yield the path of the model on this machine.

        If the same files are not at its own path, they are written to a temporary folder, which is
        removed at the end of the block.
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
    """A model or an ensemble of several, with its options, that other machines can open."""

    members: tuple[SentFiles, ...]
    precision: Precision = "float32"
    threads: int = 1

    def open(self) -> Translator:
        """Open the model on this machine.

        Its files may be removed afterwards: a runtime file stays mapped, and a model folder is
        loaded into memory.
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
