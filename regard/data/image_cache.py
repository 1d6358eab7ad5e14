"""Cache of decoded images: in memory if they are few, otherwise in a memory-mapped .npy file of the
run folder.

The cache folder holds `pixels.npy` (all images one after another, uint8, row by row, RGB) and
`index.json` with the size of each image, the reasons why images cannot be used, and the cache key,
which describes the files and settings from which the cache was made.
"""

from __future__ import annotations

import contextlib
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

from regard.common.atomic import atomic_folder, write_text
from regard.common.counting import counted
from regard.common.errors import DataError
from regard.common.reading import file_bytes, parse_json
from regard.data.images import ImageSizeSettings, Pixels, load_pixels, read_bytes

MAX_BYTES_IN_MEMORY = 64_000_000
"""Maximum size of the pixels in memory; a larger cache is written to disk."""
DECODE_BATCH_SIZE = 64
"""Number of images that are decoded at once."""
FORMAT = "Regard image cache"
VERSION = 1
INDEX = "index.json"
PIXELS = "pixels.npy"

Log = Callable[[str], None]


@dataclass(frozen=True)
class ImageCache:
    """Decoded images by number; an image that cannot be used has no pixels."""

    pixels: Pixels = field(repr=False)  # of all images, one after another
    # Rows and columns; (0, 0) for images that cannot be used.
    sizes: tuple[tuple[int, int], ...]
    problems: Mapping[int, str]  # why an image cannot be used, by its number
    digest: str  # SHA-256 over the SHA-256 of the files
    file_bytes: int  # size of all files together

    def __post_init__(self) -> None:
        ends = np.cumsum([0, *(3 * Y * X for Y, X in self.sizes)])
        object.__setattr__(self, "_ends", ends)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, number: int) -> Pixels:
        start, end = self._ends[number : number + 2]  # type: ignore[attr-defined]
        return self.pixels[start:end].reshape(*self.sizes[number], 3)


@dataclass(frozen=True)
class _Decoded:
    """An image file after decoding."""

    pixels: Pixels | None  # None if it cannot be used
    problem: str  # why it cannot be used
    digest: bytes
    file_bytes: int


def cached_images(
    paths: Sequence[Path],
    image_size: ImageSizeSettings,
    folder: Path | None = None,
    log: Log | None = None,
) -> ImageCache:
    """Decode image files to `image_size`, or reuse the cache in `folder`.

    The cache is reused if it is undamaged and was made from the same files (by name, size and
    modification time). Images that cannot be used raise nothing, but are listed in `problems`.
    """
    cache_key = _cache_key(paths, image_size)
    if folder is not None and folder.exists():
        try:
            return _reopen(folder, cache_key)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            ArithmeticError,
        ) as problem:
            if log is not None:
                log(f"{folder}: {_reason(problem)}; the images are decoded again")
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        writer = _CacheWriter(folder, stack)
        for count, image in enumerate(_decode_all(paths, image_size), 1):
            writer.add(image)
            if log is not None and count % 10_000 == 0:
                log(f"{count:,} of {counted(len(paths), 'image')} are decoded")
        return writer.finish(cache_key)


class _CacheWriter:
    """Collects decoded images: in memory while they are few, then on disk."""

    def __init__(self, folder: Path | None, stack: contextlib.ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._file: BinaryIO = io.BytesIO()
        self._temporary: Path | None = None  # the folder on disk
        self._sizes: list[tuple[int, int]] = []
        self._problems: dict[int, str] = {}
        self._digest = hashlib.sha256()
        self._file_bytes = 0
        self._crc32 = 0
        self._length = 0
        self._data_start = 0

    def add(self, image: _Decoded) -> None:
        """Append one image."""
        self._digest.update(image.digest)
        self._file_bytes += image.file_bytes
        if image.pixels is None:
            self._problems[len(self._sizes)] = image.problem
            self._sizes.append((0, 0))
            return

        self._sizes.append((image.pixels.shape[0], image.pixels.shape[1]))
        data = image.pixels.tobytes()
        self._length += len(data)
        self._crc32 = zlib.crc32(data, self._crc32)
        is_too_large = self._length > MAX_BYTES_IN_MEMORY
        with self._disk_errors():
            self._file.write(data)
            if is_too_large and self._temporary is None and self._folder is not None:
                self._spill(self._folder)

    def _spill(self, folder: Path) -> None:
        """Move the pixels from memory to disk."""
        assert isinstance(self._file, io.BytesIO), "the pixels are in memory"
        buffer = self._file.getbuffer()
        self._temporary = self._stack.enter_context(atomic_folder(folder))
        self._file = self._stack.enter_context((self._temporary / PIXELS).open("wb"))
        self._write_header()
        self._data_start = self._file.tell()
        self._file.write(buffer)

    def _write_header(self) -> None:
        """Write the .npy header, which NumPy pads so that it keeps its size if the array grows."""
        header = {"descr": "|u1", "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def finish(self, cache_key: Mapping[str, Any]) -> ImageCache:
        """Return the cache; if it is on disk, complete its files and name the folder."""
        sizes = tuple(self._sizes)
        digest = self._digest.hexdigest()
        if self._temporary is None or self._folder is None:
            assert isinstance(self._file, io.BytesIO), "the pixels are in memory"
            pixels = np.frombuffer(self._file.getbuffer(), dtype=np.uint8)
            return ImageCache(pixels, sizes, self._problems, digest, self._file_bytes)
        index = {
            "format": FORMAT,
            "version": VERSION,
            "cache_key": dict(cache_key),
            "sizes": sizes,
            "problems": self._problems,
            "digest": digest,
            "file_bytes": self._file_bytes,
            "crc32": self._crc32,
        }
        with self._disk_errors():
            self._file.seek(0)
            self._write_header()
            assert self._file.tell() == self._data_start, "the header keeps its size"
            write_text(self._temporary / INDEX, json.dumps(index))
            self._stack.close()
            pixels = _map_pixels(self._folder, self._length)
        return ImageCache(pixels, sizes, self._problems, digest, self._file_bytes)

    @contextlib.contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise DataError(
                f"{self._folder}: the decoded images cannot be written ({problem.strerror}); make "
                "room, or choose another `out=`"
            ) from None


def _reopen(folder: Path, cache_key: Mapping[str, Any]) -> ImageCache:
    """Open the cache of an earlier start, and verify its checksum.

    Raises ValueError, KeyError, TypeError or OSError if it is damaged or made from other images.
    """
    index = parse_json(file_bytes(folder / INDEX))
    is_current = (index["format"], index["version"]) == (FORMAT, VERSION)
    if not is_current or index["cache_key"] != cache_key:
        raise ValueError("made from other images, or in another size")
    sizes = tuple((int(Y), int(X)) for Y, X in index["sizes"])
    pixels = _map_pixels(folder, sum(3 * Y * X for Y, X in sizes))
    if zlib.crc32(pixels.data) != index["crc32"]:
        raise ValueError("damaged: its pixels do not match their checksum")
    problems = {
        int(number): str(problem) for number, problem in index["problems"].items()
    }
    return ImageCache(
        pixels, sizes, problems, str(index["digest"]), int(index["file_bytes"])
    )


def _map_pixels(folder: Path, length: int) -> Pixels:
    try:
        # Memory mapping refuses arrays of objects, whose pickles would run code.
        pixels: Pixels = np.lib.format.open_memmap(folder / PIXELS, mode="r")
    except (ValueError, EOFError) as problem:
        raise ValueError(f"damaged: {PIXELS} cannot be opened ({problem})") from None
    if pixels.dtype != np.uint8 or pixels.shape != (length,):
        raise ValueError(f"damaged: pixels of shape {pixels.shape}, not ({length},)")
    return pixels


def _cache_key(paths: Sequence[Path], image_size: ImageSizeSettings) -> dict[str, Any]:
    """Return what determines the content of a cache: the settings, and a hash over the names, sizes
    and modification times of the files.
    """
    digest = hashlib.sha256()
    for path in paths:
        try:
            status = path.stat()
            line = f"{path.name}\0{status.st_size}\0{status.st_mtime_ns}\n"
        except OSError:
            line = f"{path.name}\0missing\n"
        digest.update(line.encode("utf-8", "replace"))
    return {"files": digest.hexdigest(), "image_size": image_size.model_dump()}


def _decode_all(
    paths: Sequence[Path], image_size: ImageSizeSettings
) -> Iterator[_Decoded]:
    """Decode the files on a few threads, and yield the results in order."""

    def decode(path: Path) -> _Decoded:
        try:
            data = read_bytes(path, image_size.max_pixels)
            digest = hashlib.sha256(data).digest()
            pixels = load_pixels(data, image_size, str(path))
            return _Decoded(pixels, "", digest, len(data))
        except DataError as problem:
            return _Decoded(None, problem.causes[0], b"-", 0)

    remaining = iter(paths)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1), "images") as threads:
        while batch := list(islice(remaining, DECODE_BATCH_SIZE)):
            yield from threads.map(decode, batch)


def _reason(problem: Exception) -> str:
    """Describe in a few words why a cache cannot be reused."""
    if isinstance(problem, OSError):
        return f"cannot be read ({problem.strerror})"
    if isinstance(problem, json.JSONDecodeError) or not isinstance(problem, ValueError):
        return "damaged"
    return str(problem)
