"""Lines of text, read and written so that line n stays line n."""

from __future__ import annotations

import contextlib
import difflib
import gzip
import os
import re
import unicodedata
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError

__all__ = ["TextFile", "clean", "read_file", "read_files", "read_lines", "write_bytes", "write_lines"]

_BOM = b"\xef\xbb\xbf"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(line: str) -> str:
    """The line as every model sees it: NFC, each run of whitespace one space, none at the ends.

    Its words are therefore `line.split(" ")`; a no-break space cannot hide inside one. Halves of surrogate pairs,
    which no file can hold but JSON can, become U+FFFD.
    """
    return unicodedata.normalize("NFC", " ".join(_LONE_SURROGATE.sub("\ufffd", line).split()))


@dataclass(frozen=True)
class TextFile:
    """The raw lines of a file, and a sentence for each thing that was mended while reading."""

    path: str
    lines: list[str]
    notes: tuple[str, ...]


def read_lines(path: str | Path) -> list[str]:
    """The raw lines of a UTF-8 file, gunzipped if its name ends in .gz.

    Lines end at "\\n" only; one CR before it and a byte-order mark at the start are taken off.
    Raises DataError for a file that is missing, empty, damaged, not UTF-8, or holds a NUL character.
    """
    return read_file(path).lines


def read_files(paths: Iterable[str | Path]) -> list[TextFile]:
    """Several files. Raises DataError with what is wrong with any of them."""
    files: list[TextFile] = []
    causes: list[str] = []
    for path in paths:
        try:
            files.append(read_file(path))
        except DataError as problem:
            causes += problem.causes
    if causes:
        raise DataError(*causes)
    return files


def read_file(path: str | Path) -> TextFile:
    """Like `read_lines`, and says what was taken off."""
    data = _contents(Path(path))
    text = data.removeprefix(_BOM)
    if not text:
        raise DataError(f"{path}: the file is empty; give a file with one sentence per line")
    lines = _decoded(path, text).removesuffix("\n").split("\n")
    mended = [line.removesuffix("\r") for line in lines]
    returns = sum(len(old) != len(new) for old, new in zip(lines, mended, strict=True))
    notes = [f"{path}: the byte-order mark before line 1 was taken off"] if len(text) < len(data) else []
    notes += [f"{path}: {returns:,} lines end in CR LF; the CR was taken off"] if returns else []
    return TextFile(str(path), mended, tuple(notes))


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write one line each, gzipped if the name ends in .gz; the file appears whole or not at all."""
    text = list(lines)
    assert not any("\n" in line for line in text), "a line that holds a line break would shift all lines after it"
    data = "".join(line + "\n" for line in text).encode("utf-8", "replace")
    write_bytes(path, gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write beside the file, then rename over it: a reader never meets half of it."""
    beside = Path(f"{path}.partial")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise DataError(f"{path}: cannot be written ({problem.strerror}); choose another place") from None


def _contents(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.name.endswith(".gz") else data
    except FileNotFoundError:
        raise DataError(f"{path}: no such file{_nearest(path)}") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder; give a file of text in it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise DataError(f"{path}: damaged, or not gzip at all ({problem}); fetch or compress it again") from None
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({problem.strerror}); check the path and its permissions") from None


def _nearest(path: Path) -> str:
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f", nor a folder {path.parent}; check the path"
    near = difflib.get_close_matches(path.name, names, 1, 0.5)
    return f"; did you mean {path.parent / near[0]}?" if near else f"; {path.parent} has no file of a similar name"


def _decoded(path: str | Path, data: bytes) -> str:
    causes = [f"{path}: line {_line(data, data.index(0))} holds a NUL character; remove it"] if b"\0" in data else []
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        byte, line = data[problem.start], _line(data, problem.start)
        column = problem.start - data.rfind(b"\n", 0, problem.start)
        place = f"{path}: line {line} is not UTF-8 (byte 0x{byte:02X}, the line's byte number {column})"
        raise DataError(place + _looks_like(data), *causes) from None
    if causes:
        raise DataError(*causes)
    return text


def _line(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def _looks_like(data: bytes) -> str:
    if data.startswith(b"\x1f\x8b"):
        return "; it looks gzipped: let its name end in .gz"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "; it looks like UTF-16: save it as UTF-8"
    return "; save the file as UTF-8"
