"""Text files: read and write lines as UTF-8, gzipped or not, so that line n stays line n.

Also normalises text to NFC.
"""

from __future__ import annotations

import gzip
import io
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar, cast

from regard.common.atomic import check_readable, write_bytes
from regard.common.counting import counted
from regard.common.errors import DataError, MissingExtra, RegardError
from regard.common.lazy import lazy_pattern

BOM = b"\xef\xbb\xbf"
_LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")
INVISIBLE = lazy_pattern(
    "[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)
"""Soft hyphens, zero-width spaces, directional marks and byte-order marks."""
_BYTE = lazy_pattern("<0x[0-9A-F]{2}>")
COMPATIBILITY = lazy_pattern(
    "[\u2024-\u2026\u2100-\u211f\u2121\u2123-\u214e\u2160-\u217f\u2474-\u24b5\u3200-\u3243\u3300-\u33ff\ufb00-\ufdfc\ufe10-\ufefc\uff01-\uffee\U0001d400-\U0001d7ff](?:(?<=[\uff66-\uff9d\uffa1-\uffbe])[\uff9e\uff9f\uffc2-\uffdc])?"
)
"""Compatibility forms of letters and signs: full and half width, mathematical alphabets, ligatures,
squared words, Arabic presentation forms, …

Superscripts, subscripts, circled letters and fractions are not among them: 10² is not 102.
"""
MAX_LINE = 20_000
"""Maximum number of characters of a line to translate or to train on, unless a setting says
otherwise; about ten pages.
"""
READ_LINE = 100_000
"""Maximum number of characters of a line of other files. A longer line lacks line breaks, and a
small .gz may hold gigabytes.
"""
JSON_SIZE = 12
"""Maximum number of characters of JSON for one character of text."""
ADDRESSES = (
    "file",
    "memory",
    "http",
    "https",
    "ftp",
    "sftp",
    "smb",
    "s3",
    "gs",
    "az",
    "abfs",
    "hdfs",
    "hf",
)
"""Kinds of addresses of data files; docs/scale.md says what each needs."""
CUT = "\0"
"""Stands for a line that was too long and is skipped; no other line holds a NUL character."""
_BINARY = {
    "a Word document": "docx?|docm",
    "a spreadsheet, another office document or an e-book": "xls[xmb]?|od[pst]|pptx?|epub|mobi|azw3",
    "a PDF": "pdf",
    "an image": "png|jpe?g|gif|webp|bmp|tiff?",
    "an audio or video file": "mp[34]|wav|flac|ogg|m4a|mkv|webm",
}
"""Endings of the names of binary files, as patterns, by format."""
_CHARACTER_BYTES = 4
"""Maximum number of bytes of a character in UTF-8."""
_MARK_BYTES = 5
"""Bytes of a byte-order mark and of a line end (CR LF) together."""
T = TypeVar("T")
_SHORT = 1000
"""Characters of a text that `unicodedata` normalises fast whatever they are."""
_FEW_MARKS = 30
"""Maximum number of combining marks in a row in any language (Unicode Standard Annex 15, section
13).
"""


def clean(line: str) -> str:
    """Normalise a line for every model: compose it (NFC), turn each run of whitespace into one
    space, and strip both ends.

    The words of a clean line are therefore `line.split(" ")`; no word contains a no-break space.
    Invisible characters are removed, except those that join letters or emoji. Lone surrogates,
    which JSON can hold although UTF-8 cannot, become U+FFFD.
    """
    visible = _LONE_SURROGATE.sub("\ufffd", INVISIBLE.sub("", line))
    return nfc(" ".join(visible.split()))


def unknown_share(line: str, tokens: Sequence[str]) -> float:
    """Return the share of a clean line's characters, not counting spaces, that its tokens do not
    spell: they are encoded as bytes, or lost.
    """
    known = [
        token for token in tokens if token != "<unk>" and not _BYTE.fullmatch(token)
    ]
    if len(known) == len(tokens):
        return 0.0
    characters = len(line.replace(" ", ""))
    unknown = characters - len("".join(known).replace("▁", ""))
    return max(0, unknown) / max(1, characters)


def nfc(text: str) -> str:
    """Normalise to NFC in linear time.

    `unicodedata` alone takes quadratic time to order a long run of combining marks.
    """
    if len(text) > _SHORT and not unicodedata.is_normalized("NFC", text):
        parts = []
        for is_marks, characters in groupby(text, _is_mark):
            run = "".join(characters)
            parts.append(_in_order(run) if is_marks and len(run) > _FEW_MARKS else run)
        text = "".join(parts)
    return unicodedata.normalize("NFC", text)


def nfc_with_places(text: str) -> tuple[str, Sequence[tuple[int, int]]]:
    """Normalise to NFC; also return for each character the offsets (start, end) in `text` that it
    was composed from.
    """
    if unicodedata.is_normalized("NFC", text):
        return text, [(index, index + 1) for index in range(len(text))]
    starts = [
        index
        for index, character in enumerate(text)
        if index == 0 or not _is_joined(character)
    ]
    parts = list[str]()
    places = list[tuple[int, int]]()
    for start, end in pairwise([*starts, len(text)]):
        composed = nfc(text[start:end])
        parts.append(composed)
        places += [(start, end)] * len(composed)
    return "".join(parts), places


@dataclass(frozen=True)
class TextFile:
    """The raw lines of a file, with a sentence on each repair that was made while reading it."""

    lines: list[str]
    notes: tuple[str, ...]


def read_lines(path: str | Path) -> list[str]:
    """Read the raw lines of a UTF-8 file, gunzipped if its name ends in .gz.

    Lines end at "\\n" only; one CR before it and a byte-order mark at the start are removed. Raises
    DataError for a file that is missing, empty, damaged, not UTF-8, or holds a NUL character or a
    line of more than `READ_LINE` characters.
    """
    return read_file(path).lines


def read_parallel(paths: Sequence[str | Path]) -> list[list[str]]:
    """Read files that correspond line by line. Raises DataError, with all causes, if their lengths
    differ.
    """
    files = list[list[str]]()
    causes = list[str]()
    for path in paths:
        try:
            files.append(read_lines(path))
        except DataError as problem:
            causes += problem.causes
    DataError.raise_all(causes)
    causes = [
        f"{path} has {counted(len(lines), 'line')} and {paths[0]} has {len(files[0])}; "
        f"give files whose lines belong together"
        for path, lines in zip(paths, files, strict=True)
        if len(lines) != len(files[0])
    ]
    DataError.raise_all(causes)
    return files


def read_file(path: str | Path, max_line: int = READ_LINE) -> TextFile:
    """Read a file as `read_lines` does, and return notes on the repairs too."""
    reader = LineReader(path, max_line)
    lines = list(reader)
    DataError.raise_all(reader.causes)
    return TextFile(lines, reader.notes)


def data_path(path: str | Path) -> Path:
    """Return a path or, for an address such as s3://bucket/train.ko, an fsspec path with the same
    methods.

    Raises MissingExtra or DataError if no installed package opens such addresses.
    """
    kind, is_address, _ = str(path).partition("://")
    if not is_address:
        return Path(path)
    if kind.lower() not in ADDRESSES:
        kinds = f"wanted one of {', '.join(ADDRESSES)}, got {kind[:40]}"
        raise DataError(
            f"{path}: addresses of this kind cannot be opened here ({kinds})"
        )
    try:
        from upath import UPath
    except ModuleNotFoundError:
        raise MissingExtra("universal-pathlib", "scale", str(path)) from None
    try:
        address: Any = UPath(path)
        address.fs  # noqa: B018  looks up the file system
    except Exception as problem:
        # Some file systems connect at once, and raise any class.
        raise DataError(
            f"{path}: addresses of this kind cannot be opened here ({problem})"
        ) from None
    return cast(Path, address)


def _opened(path: Path) -> BinaryIO:
    """Open a file for reading bytes.

    Files of fsspec are wrapped, because their `readline` may not take a size.
    """
    file = path.open("rb")
    return file if isinstance(path, Path) else cast(BinaryIO, io.BufferedReader(file))


class ByteFile(Protocol):
    """A file, pipe or .gz that is read as bytes, line by line."""

    def readline(self, size: int = ..., /) -> bytes: ...


class LineReader:
    """Reads the raw lines of a file one by one.

    Iteration raises nothing. Afterwards `causes` describes what is wrong with the file (lines are
    missing then), so that several files can be read in parallel and all causes raised at once, and
    `notes` describes what was repaired. A line of more than `max_line` characters is never in
    memory as a whole, since a small .gz may hold gigabytes. It is a cause and ends the iteration
    or, with `skip_long`, it is yielded as `CUT`. Line ends are removed unless `keep_ends` is True.
    """

    def __init__(
        self,
        path: str | Path,
        max_line: int = READ_LINE,
        skip_long: bool = False,
        keep_ends: bool = False,
        takes_pipes: bool = False,
    ) -> None:
        self.path = data_path(path)
        self.max_line = max_line
        self.skip_long = skip_long
        self.keep_ends = keep_ends
        self.takes_pipes = takes_pipes
        self.count = 0
        self.notes: tuple[str, ...] = ()
        self.causes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        yield from self.read(self._lines)

    def _lines(self, file: ByteFile) -> Iterator[str]:
        yield from self.lines_of(file)
        if not self.count:
            self.causes = (
                f"{self.path}: the file is empty; give a file with one sentence per line",
            )

    def read(self, parse: Callable[[BinaryIO], Iterator[T]]) -> Iterator[T]:
        """Yield what `parse` yields of the open file; what is wrong with the file is a cause."""
        path = self.path
        try:
            if not self.takes_pipes:
                check_readable(path)
            with (
                _opened(path) as raw,
                gzip.open(raw, "rb") if path.name.endswith(".gz") else raw as file,
            ):
                yield from parse(cast(BinaryIO, file))
        except RegardError:
            raise
        except FileNotFoundError:
            self.causes = (
                f"{path}: no such file{did_you_mean(path) if isinstance(path, Path) else ''}",
            )
        except IsADirectoryError:
            self.causes = (f"{path}: is a folder; give a file in it",)
        except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
            self.causes = (
                f"{path}: damaged, or not gzip at all ({problem}); fetch or compress it again",
            )
        except Exception as problem:
            if isinstance(path, Path) and not isinstance(problem, OSError):
                raise  # only the libraries that open addresses raise exceptions of any class
            reason = getattr(problem, "strerror", None) or problem
            self.causes = (
                f"{path}: cannot be read ({reason}); check the path and its permissions",
            )

    def lines_of(self, file: ByteFile, is_stream: bool = False) -> Iterator[str]:
        """Yield the lines of an open file up to the first that is not text.

        A file is read to its end to find all causes; reading of a stream ends at that line.
        """
        start = b""
        returns = 0
        has_bom = False
        damage = dict[str, str]()
        for raw in bounded_lines(file, self.max_line):
            if not self.count:
                has_bom = raw.startswith(BOM)
                raw = start = raw.removeprefix(BOM)
            self.count += bool(raw)
            if self.count == 1 and not self.keep_ends and _ends_in_returns(raw):
                damage["ends"] = (
                    "its lines end in CR alone, so it would be one line; save it with line feeds"
                )
            if b"\0" in raw:
                damage.setdefault(
                    "nul",
                    f"line {self.count} holds a NUL character{_looks_like(start, '; remove it')}",
                )
            if is_too_long(raw, self.max_line):
                if self.skip_long:
                    yield CUT
                    continue
                damage["long"] = (
                    f"line {self.count} {too_long(self.max_line)}{_looks_like(start, '')}"
                )
                break
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as problem:
                offset = problem.start
                byte = (
                    f"(byte 0x{raw[offset]:02X}, the line's byte number {offset + 1})"
                )
                damage.setdefault(
                    "coding",
                    f"line {self.count} is not UTF-8 {byte}{_looks_like(start)}",
                )
            if damage and is_stream:
                break
            returns += raw.endswith((b"\r\n", b"\r"))
            if raw and not damage:
                text = line.removesuffix("\n").removesuffix("\r")
                yield line if self.keep_ends else text
        self._set_causes(damage, start)
        self._set_notes(has_bom, returns)

    def _set_notes(self, has_bom: bool, returns: int) -> None:
        notes = []
        if has_bom:
            notes.append(f"{self.path}: the byte-order mark before line 1 was removed")
        if returns:
            ends = counted(returns, "line ends", "lines end")
            notes.append(f"{self.path}: {ends} in CR LF; the CR was removed")
        self.notes = tuple(notes)

    def _set_causes(self, damage: dict[str, str], start: bytes) -> None:
        """Set the causes; if name and first bytes show that the file is no text file, that is the
        only cause.
        """
        causes = [
            damage[name] for name in ("coding", "nul", "ends", "long") if name in damage
        ]
        is_binary = "nul" in damage or "coding" in damage
        kind = _binary_kind(self.path) if is_binary else None
        if kind:
            causes = [kind]
        elif _looks_like(start, ""):  # the first cause names what the file looks like
            causes = causes[:1]
        self.causes = tuple(f"{self.path}: {cause}" for cause in causes)


def _ends_in_returns(line: bytes) -> bool:
    """Return whether one line, as it was read, holds several lines that end in CR alone."""
    return not line.endswith(b"\n") and b"\r" in line.rstrip(b"\r")


def bounded_lines(file: ByteFile, max_line: int) -> Iterator[bytes]:
    """Yield the lines of a file with their line feeds.

    A line that `is_too_long` may be cut off.
    """
    size = _CHARACTER_BYTES * max_line + _MARK_BYTES
    while raw := file.readline(size):
        yield raw
        while len(raw) == size and not raw.endswith(b"\n"):
            raw = file.readline(size)


def is_too_long(raw: bytes, max_line: int) -> bool:
    """Return whether a line of `bounded_lines` has more than `max_line` characters."""
    if len(raw) <= max_line:
        return False
    text = raw.removeprefix(BOM).rstrip(b"\r\n").decode("utf-8", "ignore")
    return len(text) > max_line


def too_long(max_line: int) -> str:
    """Return the end of a message about a line that is too long; its file and number come before
    it.
    """
    return (
        f"has more than {max_line:,} characters; break it at the ends of sentences, or raise that "
        "limit (`max_line`)"
    )


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines of text atomically, gzipped if the name ends in .gz."""
    text = list(lines)
    assert not any("\n" in line for line in text), (
        "a line that holds a line break would shift all lines after it"
    )
    data = "".join(line + "\n" for line in text).encode("utf-8", "replace")
    if str(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    write_bytes(path, data)


def did_you_mean(path: Path) -> str:
    """Return the end of a message about a missing file; it suggests a file of a similar name."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f", nor a folder {path.parent}; check the path"
    import difflib

    similar = difflib.get_close_matches(path.name, names, 1, 0.5)
    if not similar:
        return f"; {path.parent} has no file of a similar name"
    return f"; did you mean {path.parent / similar[0]}?"


@lru_cache(1 << 12)
def _is_mark(character: str) -> bool:
    """Return whether a character is, or decomposes into, combining marks that have a canonical
    order.
    """
    return unicodedata.combining(unicodedata.normalize("NFD", character)[0]) > 0


@lru_cache(1 << 12)
def _is_joined(character: str) -> bool:
    """Return whether NFC may join a character to the one before it: it is a mark, or a vowel or
    final consonant of a Hangul syllable.
    """
    return (
        unicodedata.category(character).startswith("M")
        or "\u1160" <= character <= "\u11ff"
    )


def _in_order(marks: str) -> str:
    """Decompose combining marks, and put them into canonical order."""
    decomposed = (part for mark in marks for part in unicodedata.normalize("NFD", mark))
    return "".join(sorted(decomposed, key=unicodedata.combining))


def _binary_kind(path: Path) -> str | None:
    """Return the end of a message that names the format of a binary file by its name; None if the
    name tells none.
    """
    suffix = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    for kind, suffixes in _BINARY.items():
        if re.fullmatch(suffixes, suffix):
            return f"is {kind}; Regard reads text: save it as plain text, a table as CSV UTF-8"
    return None


def _looks_like(data: bytes, otherwise: str = "; save the file as UTF-8") -> str:
    """Return the end of a message that names the format by a file's first bytes, if it is known."""
    if data.startswith(b"\x1f\x8b"):
        return "; it looks gzipped: let its name end in .gz"
    if data.startswith((b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")):
        return (
            "; it looks compressed: unpack it first (.gz is read as it is), or save plain text, a "
            "table as CSV UTF-8"
        )
    if _is_utf16(data):
        return "; it looks like UTF-16: save it as UTF-8"
    return otherwise


def _is_utf16(line: bytes) -> bool:
    """Return whether a line looks like UTF-16, with or without a mark: NUL bytes are every other
    byte, and there are several or it is not UTF-8.
    """
    odd, even = line[1::2].count(0), line[::2].count(0)
    is_certain = odd + even > 1 or line.decode("utf-8", "ignore").encode() != line
    has_mark = line.startswith((b"\xff\xfe", b"\xfe\xff"))
    return has_mark or ((odd == 0) != (even == 0) and is_certain)
