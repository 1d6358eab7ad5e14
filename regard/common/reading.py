"""Read files from any source, so that every error in their content becomes one sentence.

These are JSON, TOML and files of tensors (safetensors, and PyTorch's without executing code in
them). The parsers raise ValueError with the reason only; `read_tensors` raises a given class of
error, with path and remedy.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Mapping
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
"""Maximum depth of nested lists and tables, which functions visit recursively; recipes have
four.
"""
_HEADER_SIZE = 100_000_000
"""Maximum number of bytes of the header of a safetensors file, as in the safetensors library."""


def is_runtime_file(path: str | Path) -> bool:
    """Return whether a path names a runtime file, judging by its first bytes."""
    try:
        check_readable(Path(path))
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def file_bytes(path: Path) -> bytes:
    """Read a file. Raises OSError, also for a pipe or a device, which may have no end."""
    check_readable(path)
    return path.read_bytes()


def check_links(folder: Path, *names: str, written: bool = False) -> None:
    """Raise ModelFolderError, with all causes, if files of a folder are links that lead out of it.

    Pipes and devices, which could block a reader, are refused too. Folders among the names are
    searched recursively. The folder itself may be a link. Unless its files are to be `written`,
    they may also be links in Hugging Face's cache, where each file of a snapshot is a link into the
    `blobs` folder two levels above.
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
        if path.exists() and not (path.is_file() or path.is_dir()):
            return f"{path}: is a pipe or a device; put a file there, or remove it"
        return ""

    paths = [folder / name for name in names]
    paths += [
        inner
        for path in paths
        if path.is_dir() and not problem_of(path)
        for inner in path.rglob("*")
    ]
    ModelFolderError.raise_all(filter(None, map(problem_of, paths)))


def is_file_name(name: str) -> bool:
    """Return whether a name that was read from a file is a plain file name, without any folder."""
    return name not in ("", ".", "..") and not {"/", "\\", ":", "\0"} & {*name}


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError with the reason: not JSON, not UTF-8, too deeply nested, too
    large.
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
    """Parse TOML. Raises ValueError with the reason, as `parse_json` does."""
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
    """Read a TOML file from the folder of a package."""
    from importlib.resources import files

    return parse_toml(files(package).joinpath(name).read_text(encoding="utf-8"))


def _check_depth(values: object) -> None:
    """Raise ValueError if lists and tables are nested more than `DEPTH` levels deep."""
    level: list[object] = [values]
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
    """Read tensors by name from a safetensors file or a file of `torch.save`, without executing
    code.

    Raises `error` if the file is missing, damaged, or contains anything but tensors.
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
            content: object = torch.load(path, map_location=device, weights_only=True)
    except Exception as problem:
        # The libraries raise many classes of exceptions for damaged files.
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
    """Return the shapes in the header of a safetensors file; None if it cannot be read."""
    import safetensors

    try:
        check_readable(path)
        with safetensors.safe_open(path, "pt") as file:
            names = file.keys()
            return {name: tuple(file.get_slice(name).get_shape()) for name in names}
    except Exception:  # the error is reported when the tensors are read
        return None


def tensor_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a safetensors file without PyTorch; empty if it cannot be read."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        check_readable(path)
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size <= _HEADER_SIZE:
                return dict(parse_json(file.read(size)).get("__metadata__", {}))
    return {}


def reason_of(problem: BaseException) -> str:
    """Return the first line of an exception's message, or the name of its class if it has none."""
    return next(iter(str(problem).splitlines()), "")[:300] or type(problem).__name__


def _is_plain(value: object, tensor: type[torch.Tensor]) -> bool:
    """Return whether a value is a dense tensor with its content in memory, so that it can be
    copied.
    """
    import torch

    return (
        isinstance(value, tensor)
        and value.layout is torch.strided
        and not (value.is_quantized or value.is_meta)
    )


def _kinds(content: object) -> str:
    """Describe the types of an object and of its values."""
    name = type(content).__name__
    if not isinstance(content, Mapping) or not content:
        return name
    value_types = {type(value).__name__ for value in content.values()}
    return f"{name} of {', '.join(sorted(value_types))}"
