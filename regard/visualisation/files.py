"""A heatmap as a file: the name's suffix says which kind, and the file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from regard.errors import UsageError
from regard.visualisation.figures import png, svg
from regard.visualisation.heatmap import Alignment
from regard.visualisation.page import Meta, page
from regard.visualisation.story import Story

__all__ = ["SUFFIXES", "save", "write"]

SUFFIXES = (".svg", ".png", ".html")


def save(told: Alignment | Story | Sequence[Alignment], path: str | os.PathLike[str], meta: Meta | None = None) -> Path:
    """Write alignments as .svg, .png or .html; of several, a still shows the first and a page lets its reader choose.

    A story is written as a page, .html.
    """
    path = Path(path)
    write(path, _drawn(told, path, meta))
    return path


def _drawn(told: Alignment | Story | Sequence[Alignment], path: Path, meta: Meta | None) -> bytes:
    suffix = path.suffix.lower()
    if suffix == ".html":
        return page([told] if isinstance(told, Alignment) else told, meta).encode()
    if isinstance(told, Story):
        raise UsageError(f"a story is written as .html; got {path.name!r}")
    readings = [told] if isinstance(told, Alignment) else list(told)
    if not readings:
        raise UsageError("there is no alignment to save")
    if suffix == ".svg":
        return svg(readings[0]).encode()
    if suffix == ".png":
        return png(readings[0])
    raise UsageError(f"a heatmap is written as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}; got {path.name!r}")


def write(path: Path, content: bytes) -> None:
    """Write beside, then rename over."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink()
