"""Pictures decoded once: small collections in memory, larger ones in a file of a run folder that is mapped into memory.

The folder holds `pixels` (all pictures one after another, uint8, row by row, red green blue) and `index.json`, which
says how large each is, which could not be used and why, and what they were made of.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from regard.atomic import write_bytes
from regard.data.images import ImageSizeSettings, Pixels, load_pixels, read_bytes
from regard.errors import DataError

__all__ = ["ImageCache", "cached_images"]

SMALL = 64_000_000  # bytes of pixels that are held in memory
TOGETHER = 64  # pictures that wait, decoded, to be put down
VERSION = 1
INDEX, PIXELS = "index.json", "pixels"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class ImageCache:
    """Decoded pictures by number, the places of those that could not be used empty."""

    pixels: Pixels = field(repr=False)  # of all, one after another
    sizes: tuple[tuple[int, int], ...]  # rows and columns of each; (0, 0) of those that cannot be used
    problems: Mapping[int, str]  # why they cannot
    digest: str  # SHA-256 of the files
    file_bytes: int  # of the files, all together

    def __post_init__(self) -> None:
        ends = np.cumsum([0, *(3 * Y * X for Y, X in self.sizes)])
        object.__setattr__(self, "_ends", ends)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, number: int) -> Pixels:
        start, end = self._ends[number : number + 2]  # type: ignore[attr-defined]
        found: Pixels = self.pixels[start:end].reshape(*self.sizes[number], 3)
        return found


def cached_images(
    paths: Sequence[Path], frame: ImageSizeSettings, folder: Path | None = None, tell: Tell | None = None
) -> ImageCache:
    """The pictures of these files as `frame` wants them. What is in `folder` is used again where it is whole and of the
    same files (by name, size and time of change); else it is made anew. Nothing is raised for pictures that cannot be
    used: see `problems`.
    """
    made_of = _made_of(paths, frame)
    if folder is not None and folder.exists():
        try:
            return _reopened(folder, made_of)
        except (OSError, ValueError, KeyError, TypeError) as problem:
            if tell is not None:
                tell(f"{folder}: {_why(problem)}; the pictures are decoded anew")
        shutil.rmtree(folder, ignore_errors=True)
    hung = _CacheWriter(folder)
    for done, found in enumerate(_decoded(paths, frame), 1):
        hung.add(*found)
        if tell is not None and done % 10_000 == 0:
            tell(f"{done:,} of {len(paths):,} pictures are decoded")
    return hung.gallery(made_of)


class _CacheWriter:
    """Takes decoded pictures one by one, in memory as long as they are few."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._file = folder, io.BytesIO()
        self._on_disk: BinaryIO | None = None
        self._sizes: list[tuple[int, int]] = []
        self._problems: dict[int, str] = {}
        self._digest, self._bytes, self._sum, self._length = hashlib.sha256(), 0, 0, 0

    def add(self, pixels: Pixels | None, problem: str, digest: bytes, size: int) -> None:
        """One more; without pixels, why."""
        if pixels is None:
            self._problems[len(self._sizes)] = problem
        self._sizes.append((0, 0) if pixels is None else (pixels.shape[0], pixels.shape[1]))
        self._digest.update(digest)
        self._bytes += size
        if pixels is not None:
            data = pixels.tobytes()
            self._length, self._sum = self._length + len(data), zlib.crc32(data, self._sum)
            try:
                (self._on_disk or self._file).write(data)
            except OSError as problem:
                assert self._folder is not None, "memory raises no such error"
                raise _no_room(self._folder, problem) from None
        if self._on_disk is None and self._folder is not None and self._length > SMALL:
            self._spill()

    def _spill(self) -> None:
        """What was small so far goes on on the disk."""
        assert self._folder is not None, "there is somewhere to put it"
        try:
            self._beside.mkdir(parents=True, exist_ok=True)
            self._on_disk = (self._beside / PIXELS).open("wb")
            self._on_disk.write(self._file.getbuffer())
        except OSError as problem:
            raise _no_room(self._folder, problem) from None
        self._file = io.BytesIO()

    def gallery(self, made_of: Mapping[str, Any]) -> ImageCache:
        """All of them; what is on the disk gets its name now."""
        sizes, digest = tuple(self._sizes), self._digest.hexdigest()
        if self._on_disk is None:
            pixels = np.frombuffer(self._file.getbuffer(), dtype=np.uint8)
            return ImageCache(pixels, sizes, self._problems, digest, self._bytes)
        folder = self._folder
        assert folder is not None, "there is a file"
        index = {
            "format": "Regard pictures",
            "version": VERSION,
            "made_of": dict(made_of),
            "sizes": sizes,
            "problems": self._problems,
            "digest": digest,
            "bytes": self._bytes,
            "sum": self._sum,
        }
        try:
            self._on_disk.close()
            write_bytes(self._beside / INDEX, json.dumps(index).encode())
            os.replace(self._beside, folder)
        except OSError as problem:
            raise _no_room(folder, problem) from None
        return ImageCache(_mapped(folder, self._length), sizes, self._problems, digest, self._bytes)

    @property
    def _beside(self) -> Path:
        assert self._folder is not None, "there is somewhere to put it"
        return self._folder.with_name(self._folder.name + ".partial")


def _reopened(folder: Path, made_of: Mapping[str, Any]) -> ImageCache:
    """What an earlier start left; checked to the last byte. Raises ValueError, and what else damaged files lead to."""
    index = json.loads((folder / INDEX).read_bytes())
    if (index["format"], index["version"]) != ("Regard pictures", VERSION) or index["made_of"] != made_of:
        raise ValueError("made of other pictures, or in another size")
    sizes = tuple((int(Y), int(X)) for Y, X in index["sizes"])
    pixels = _mapped(folder, sum(3 * Y * X for Y, X in sizes))
    found = 0
    for start in range(0, len(pixels), 1 << 24):
        found = zlib.crc32(pixels[start : start + (1 << 24)].data, found)
    if found != index["sum"]:
        raise ValueError("damaged: its pixels do not match their checksum")
    problems = {int(number): str(problem) for number, problem in index["problems"].items()}
    return ImageCache(pixels, sizes, problems, str(index["digest"]), int(index["bytes"]))


def _mapped(folder: Path, length: int) -> Pixels:
    pixels: Pixels = np.memmap(folder / PIXELS, dtype=np.uint8, mode="r")
    if len(pixels) != length:
        raise ValueError(f"damaged: {len(pixels):,} bytes of pixels, not {length:,}")
    return pixels


def _made_of(paths: Sequence[Path], frame: ImageSizeSettings) -> dict[str, Any]:
    """What decides what is in a gallery, as plain values; the files by a hash of their names, sizes and times."""
    listed = hashlib.sha256()
    for path in paths:
        try:
            about = path.stat()
            listed.update(f"{path.name}\0{about.st_size}\0{about.st_mtime_ns}\n".encode("utf-8", "replace"))
        except OSError:
            listed.update(f"{path.name}\0missing\n".encode("utf-8", "replace"))
    return {"files": listed.hexdigest(), "frame": frame.model_dump()}


def _decoded(paths: Sequence[Path], frame: ImageSizeSettings) -> Iterator[tuple[Pixels | None, str, bytes, int]]:
    """Pixels or why there are none, the hash of the file and its bytes, in order; decoded by a few threads."""

    def decode(path: Path) -> tuple[Pixels | None, str, bytes, int]:
        try:
            data = read_bytes(path)
            digest = hashlib.sha256(data).digest()
            return load_pixels(data, frame, str(path)), "", digest, len(data)
        except DataError as problem:
            return None, problem.causes[0], b"-", 0

    rest = iter(paths)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1), "pictures") as threads:
        while some := list(islice(rest, TOGETHER)):
            yield from threads.map(decode, some)


def _no_room(folder: Path, problem: OSError) -> DataError:
    return DataError(
        f"{folder}: the decoded pictures cannot be written ({problem.strerror}); make room, or choose another --out"
    )


def _why(problem: Exception) -> str:
    """What is wrong with a folder of decoded pictures."""
    if isinstance(problem, OSError):
        return f"cannot be read ({problem.strerror})"
    return (
        str(problem) if isinstance(problem, ValueError) and not isinstance(problem, json.JSONDecodeError) else "damaged"
    )
