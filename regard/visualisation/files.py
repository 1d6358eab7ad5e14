"""A heatmap, or curves, as a file: the name's suffix says which kind, and the file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from regard.errors import UsageError
from regard.visualisation.curves import Curves, curves_page, layout_curves
from regard.visualisation.figures import draw_png, draw_svg, png, svg
from regard.visualisation.heatmap import Alignment
from regard.visualisation.page import Meta, page

__all__ = ["SUFFIXES", "save"]

SUFFIXES = (".svg", ".png", ".html")


def save(
    alignments: Alignment | Sequence[Alignment] | Curves, path: str | os.PathLike[str], meta: Meta | None = None
) -> Path:
    """Write a picture as .svg, .png or .html; of several heatmaps, a still shows the first, a page lets one choose."""
    if isinstance(alignments, Curves):
        _write(path := Path(path), _drawn_curves(alignments, path))
        return path
    readings = [alignments] if isinstance(alignments, Alignment) else list(alignments)
    if not readings:
        raise UsageError("there is no alignment to save")
    path = Path(path)
    _write(path, _drawn(readings, path, meta))
    return path


def _drawn(readings: Sequence[Alignment], path: Path, meta: Meta | None) -> bytes:
    suffix = path.suffix.lower()
    if suffix == ".svg":
        return svg(readings[0]).encode()
    if suffix == ".png":
        return png(readings[0])
    if suffix == ".html":
        return page(readings, meta).encode()
    raise _wrong_suffix(path)


def _drawn_curves(curves: Curves, path: Path) -> bytes:
    suffix = path.suffix.lower()
    if suffix == ".html":
        return curves_page(curves).encode()
    if suffix not in SUFFIXES:
        raise _wrong_suffix(path)
    picture = layout_curves(curves)
    return draw_svg(picture).encode() if suffix == ".svg" else draw_png(picture)


def _wrong_suffix(path: Path) -> UsageError:
    return UsageError(f"a picture is written as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}; got {path.name!r}")


def _write(path: Path, content: bytes) -> None:
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
