"""Reading of files that come from outside: any error in their content becomes one sentence.

JSON, TOML and files of tensors (safetensors, PyTorch's without executing any code in them). The
parsers raise ValueError with the reason alone; `read_tensors` raises the error that the caller
names, with path and remedy.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common.atomic import check_readable
from regard.common.errors import ModelFolderError, RegardError

if TYPE_CHECKING:
    import torch

MAGIC = b"REGARD\r\n"
"""First bytes of a runtime file."""
DEPTH = 50
"""Most levels of lists and tables in one another; recipes have four, and what goes through all
levels recurses.
"""
_HEADER_SIZE = 100_000_000
"""Most bytes of the header of a safetensors file, as its own library has it."""


def is_runtime_file(path: str | Path) -> bool:
    """Return whether a path names a runtime file, by its first bytes."""
    try:
        check_readable(Path(path))
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def file_bytes(path: Path) -> bytes:
    """Read a whole file. Raises OSError, also for a pipe or a device, which may have no end."""
    check_readable(path)
    return path.read_bytes()


def check_links(folder: Path, *names: str, written: bool = False) -> None:
    """Raise ModelFolderError, with all causes, if files of one of our own folders are links that
    lead out of it.

    Pipes and devices, for which a reader might wait for ever, are refused too. Folders among them
    are looked through. The folder itself may be a link, and its files, unless they are to be
    `written`, may be those of Hugging Face's cache, where each file of a snapshot is a link into
    the `blobs` two folders above.
    """
    inside = Path(os.path.realpath(folder))
    is_snapshot = inside.parent.name == "snapshots" and not written
    roots = [inside, inside.parents[1] / "blobs"] if is_snapshot else [inside]

    def problem_of(path: Path) -> str:
        if not any(Path(os.path.realpath(path)).is_relative_to(root) for root in roots):
            return (
                f"{path}: a link that leads out of the folder, to {os.path.realpath(path)}; "
                "nothing outside a model folder is read or written: put the file or folder itself "
                "there, or make the whole model folder a link"
            )
        is_other = path.exists() and not (path.is_file() or path.is_dir())
        return (
            f"{path}: is a pipe or a device; put a file there, or remove it"
            if is_other
            else ""
        )

    paths = [folder / name for name in names]
    paths += [
        inner
        for path in paths
        if path.is_dir() and not problem_of(path)
        for inner in path.rglob("*")
    ]
    ModelFolderError.raise_all(filter(None, map(problem_of, paths)))


def is_file_name(name: str) -> bool:
    """Return whether a name that was read from a file is that of a file beside it: it leads to no
    other folder.
    """
    return name not in ("", ".", "..") and not {"/", "\\", ":", "\0"} & {*name}


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError with the reason: no JSON, not UTF-8, nested too deeply, numbers
    too long.
    """
    try:
        values = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError(f"nested more than {DEPTH} levels deep") from None
    except MemoryError:
        raise ValueError("it does not fit in memory") from None
    _check_depth(values)
    return values


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError with the reason, as `parse_json`."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover
        import tomli as tomllib
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"nested more than {DEPTH} levels deep") from None
    _check_depth(values)
    return values


def package_toml(package: str, name: str) -> dict[str, Any]:
    """Read a TOML file that lies beside the modules of a package."""
    from importlib.resources import files

    return parse_toml(files(package).joinpath(name).read_text(encoding="utf-8"))


def _check_depth(values: Any) -> None:
    """Raise ValueError if lists and tables are nested more than `DEPTH` levels deep."""
    level: list[Any] = [values]
    for _ in range(DEPTH + 1):
        tables = [value for value in level if isinstance(value, (dict, list))]
        if not tables:
            return
        level = [
            inner
            for table in tables
            for inner in (table.values() if isinstance(table, dict) else table)
        ]
    raise ValueError(f"nested more than {DEPTH} levels deep")


def read_tensors(
    path: Path, error: type[RegardError], remedy: str, device: str = "cpu"
) -> dict[str, torch.Tensor]:
    """Read tensors by name from a safetensors file, or from one of `torch.save`, in which code is
    never executed.

    Raises `error` if the file is missing, damaged, or holds anything else; then nothing else was
    done with it.
    """
    if not path.is_file():
        raise error(
            f"{path}: missing{', a folder or device has its name' if path.exists() else ''}; "
            f"{remedy}"
        )
    import safetensors
    import torch

    try:
        if path.suffix == ".safetensors":
            with safetensors.safe_open(path, "pt", device=device) as file:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        with warnings.catch_warnings():  # about pickles that it refuses anyway
            warnings.simplefilter("ignore")
            content: Any = torch.load(path, map_location=device, weights_only=True)
    except Exception as problem:
        # The readers raise exceptions of any class for damaged files.
        reason = reason_of(problem).split(". ")[0]
        raise error(
            f"{path}: damaged, or not a file of tensors alone ({reason}); {remedy}"
        ) from None
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not all(
        _is_plain(tensor, torch.Tensor) for tensor in content.values()
    ):
        raise error(
            f"{path}: expected tensors by name (a state_dict), got {_kinds(content)}; {remedy}"
        )
    return {str(name): tensor for name, tensor in content.items()}


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]] | None:
    """Return the shapes that the header of a safetensors file names; None if it cannot be read."""
    import safetensors

    try:
        check_readable(path)
        with safetensors.safe_open(path, "pt") as file:
            names = file.keys()
            return {name: tuple(file.get_slice(name).get_shape()) for name in names}
    except Exception:  # whoever reads the tensors says what is wrong
        return None


def tensor_metadata(path: Path) -> dict[str, str]:
    """Return the metadata in the header of a safetensors file, read without PyTorch; none if it
    cannot be read.
    """
    with suppress(OSError, ValueError, TypeError, AttributeError):
        check_readable(path)
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size <= _HEADER_SIZE:
                return dict(parse_json(file.read(size)).get("__metadata__", {}))
    return {}


def reason_of(problem: BaseException) -> str:
    """Return the first line of an exception's message, or else the name of its class."""
    return next(iter(str(problem).splitlines()), "")[:300] or type(problem).__name__


def _is_plain(value: Any, tensor: type[torch.Tensor]) -> bool:
    """Return whether a value is a tensor that can be copied from: dense, with its content in
    memory.
    """
    import torch

    return (
        isinstance(value, tensor)
        and value.layout is torch.strided
        and not (value.is_quantized or value.is_meta)
    )


def _kinds(content: Any) -> str:
    names: Iterable[str] = (
        {type(value).__name__ for value in content.values()}
        if isinstance(content, Mapping)
        else ()
    )
    return type(content).__name__ + (f" of {', '.join(sorted(names))}" if names else "")
