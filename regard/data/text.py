"""Text files: read and write lines as UTF-8, gzipped or not, so that line n stays line n; NFC
normalisation.
"""

from __future__ import annotations

import gzip
import io
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from regard.common.atomic import check_readable, write_bytes
from regard.common.counting import counted
from regard.common.errors import DataError, MissingExtra
from regard.common.lazy import lazy_pattern
from regard.data.file_kinds import binary_kind

_BOM = b"\xef\xbb\xbf"
_LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")
INVISIBLE = lazy_pattern(
    "[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)
"""Soft hyphens, spaces of no width, marks of direction and of byte order."""
_BYTE = lazy_pattern("<0x[0-9A-F]{2}>")
COMPATIBILITY = lazy_pattern(
    "[\u2024-\u2026\u2100-\u211f\u2121\u2123-\u214e\u2160-\u217f\u2474-\u24b5\u3200-\u3243\u3300-\u33ff\ufb00-\ufdfc\ufe10-\ufefc\uff01-\uffee\U0001d400-\U0001d7ff](?:(?<=[\uff66-\uff9d\uffa1-\uffbe])[\uff9e\uff9f\uffc2-\uffdc])?"
)
"""Other forms of letters and signs: full and half width, mathematical, joined, squared, Arabic by
place in a word, …

Raised, lowered and circled ones, and fractions, are not among them: 10² is not 102.
"""
MAX_LINE = 20_000
"""Most characters of a line to translate or to train on, if no setting says otherwise: some ten
pages.
"""
READ_LINE = 100_000
"""Most characters of a line of other files: a line break is missing, and a small .gz may hold
gigabytes.
"""
JSON_SIZE = 12
"""Characters of JSON that a character of text takes at most."""
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
_BYTES, _ENDS = 4, 5
"""Bytes of UTF-8 that a character may take, and those of a byte-order mark and a line end."""
_SHORT = 1000
"""A text of so many characters is normalised in no time, whatever they are."""
_FEW_MARKS = 30
"""Combining marks in a row, more than any language has (Unicode Standard Annex 15, section 13)."""


def clean(line: str) -> str:
    """Normalise a line for every model: NFC, each run of whitespace becomes one space, none at the
    ends.

    Its words are therefore `line.split(" ")`; no word contains a no-break space. Invisible
    characters are left out, but for those that join letters or emoji. Lone surrogates, which no
    file can hold but JSON can, become U+FFFD.
    """
    return nfc(" ".join(_LONE_SURROGATE.sub("\ufffd", INVISIBLE.sub("", line)).split()))


def unknown_share(line: str, tokens: Sequence[str]) -> float:
    """Return the share of a clean line's characters (spaces aside) that its tokens do not spell:
    bytes, or lost.
    """
    known = [
        token for token in tokens if token != "<unk>" and not _BYTE.fullmatch(token)
    ]
    characters = len(line.replace(" ", ""))
    unknown = (
        characters - len("".join(known).replace("▁", ""))
        if len(known) < len(tokens)
        else 0
    )
    return max(0, unknown) / max(1, characters)


def nfc(text: str) -> str:
    """Normalise to NFC in linear time: `unicodedata` takes quadratic time to order a long run of
    combining marks.
    """
    if len(text) > _SHORT and not unicodedata.is_normalized("NFC", text):
        runs = (("".join(run), marks) for marks, run in groupby(text, _is_mark))
        text = "".join(
            _in_order(run) if marks and len(run) > _FEW_MARKS else run
            for run, marks in runs
        )
    return unicodedata.normalize("NFC", text)


def nfc_with_places(text: str) -> tuple[str, Sequence[tuple[int, int]]]:
    """Normalise to NFC; also return from where to where each character has been made of."""
    if unicodedata.is_normalized("NFC", text):
        return text, [(place, place + 1) for place in range(len(text))]
    parts = list[str]()
    places = list[tuple[int, int]]()
    starts = [
        index
        for index, character in enumerate(text)
        if not (index and _is_joined(character))
    ]
    for start, end in pairwise([*starts, len(text)]):
        parts.append(nfc(text[start:end]))
        places += [(start, end)] * len(parts[-1])
    return "".join(parts), places


@dataclass(frozen=True)
class TextFile:
    """The raw lines of a file, and a sentence for each repair while reading."""

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
    DataError.raise_all(
        f"{path} has {counted(len(lines), 'line')} and {paths[0]} has {len(files[0])}; "
        f"give files whose lines belong together"
        for path, lines in zip(paths, files, strict=True)
        if len(lines) != len(files[0])
    )
    return files


def read_file(path: str | Path, max_line: int = READ_LINE) -> TextFile:
    """Like `read_lines`, with notes on what was removed."""
    reader = LineReader(path, max_line)
    lines = list(reader)
    DataError.raise_all(reader.causes)
    return TextFile(lines, reader.notes)


def data_path(path: str | Path) -> Path:
    """Return a path; of an address such as s3://bucket/train.ko, a stand-in with its methods, by
    fsspec.

    Raises MissingExtra or DataError if nothing that is installed opens such addresses.
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
        address.fs  # noqa: B018  finds what opens it
    except Exception as problem:  # of any class, as some connect at once
        raise DataError(
            f"{path}: addresses of this kind cannot be opened here ({problem})"
        ) from None
    return cast(Path, address)


def _opened(path: Path) -> BinaryIO:
    """Open a file for reading bytes; what fsspec opens may lack `readline` with a size, which
    bounds lines.
    """
    return (
        path.open("rb")
        if isinstance(path, Path)
        else cast(BinaryIO, io.BufferedReader(path.open("rb")))
    )


class ByteFile(Protocol):
    """A file, a pipe or a .gz that is read as bytes, line by line."""

    def readline(self, size: int = ..., /) -> bytes: ...


class LineReader:
    """Reads the raw lines of a file one by one.

    Nothing is raised during iteration: afterwards `causes` says what is wrong with the file (lines
    are missing then), so that several files can be read in parallel and all causes be raised at
    once; `notes` says what was repaired. A line of more than `max_line` characters is never in
    memory as a whole, since a small .gz may hold gigabytes: it is what is wrong with the file and
    ends the iteration or, with `skip_long`, it is yielded as `CUT`. Lines have no line ends, unless
    `keep_ends`.
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
        path = self.path
        try:
            if not self.takes_pipes:
                check_readable(path)
            with (
                _opened(path) as raw,
                gzip.open(raw, "rb") if path.name.endswith(".gz") else raw as file,
            ):
                yield from self.lines_of(file)
            if not self.count:
                self.causes = (
                    f"{path}: the file is empty; give a file with one sentence per line",
                )
        except FileNotFoundError:
            self.causes = (
                f"{path}: no such file{did_you_mean(path) if isinstance(path, Path) else ''}",
            )
        except IsADirectoryError:
            self.causes = (f"{path}: is a folder; give a text file in it",)
        except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
            self.causes = (
                f"{path}: damaged, or not gzip at all ({problem}); fetch or compress it again",
            )
        except Exception as problem:
            if isinstance(path, Path) and not isinstance(problem, OSError):
                raise  # what opens addresses raises exceptions of any class
            reason = getattr(problem, "strerror", None) or problem
            self.causes = (
                f"{path}: cannot be read ({reason}); check the path and its permissions",
            )

    def lines_of(self, file: ByteFile, is_stream: bool = False) -> Iterator[str]:
        """Yield the lines of an open file up to the first that is no text, where the reading of a
        stream ends, too.
        """
        start = b""
        returns = 0
        marked = False
        damage = dict[str, str]()
        for raw in bounded_lines(file, self.max_line):
            if not self.count:
                marked = raw.startswith(_BOM)
                raw = start = raw.removeprefix(_BOM)
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
                start_of_damage = problem.start
                byte = (
                    f"(byte 0x{raw[start_of_damage]:02X}, "
                    f"the line's byte number {start_of_damage + 1})"
                )
                damage.setdefault(
                    "coding",
                    f"line {self.count} is not UTF-8 {byte}{_looks_like(start)}",
                )
            if damage and is_stream:
                break
            returns += raw.endswith((b"\r\n", b"\r"))
            if raw and not damage:
                yield (
                    line
                    if self.keep_ends
                    else line.removesuffix("\n").removesuffix("\r")
                )
        self._set_causes(damage, start)
        self._set_notes(marked, returns)

    def _set_notes(self, marked: bool, returns: int) -> None:
        notes = []
        if marked:
            notes.append(f"{self.path}: the byte-order mark before line 1 was removed")
        if returns:
            ends = counted(returns, "line ends", "lines end")
            notes.append(f"{self.path}: {ends} in CR LF; the CR was removed")
        self.notes = tuple(notes)

    def _set_causes(self, damage: dict[str, str], start: bytes) -> None:
        """Set the causes: of a file that is of another kind by its name and first bytes, that
        kind alone.
        """
        is_no_text = bool(damage.keys() & {"nul", "coding"})
        kind = binary_kind(self.path) if is_no_text else None
        causes = [
            damage[name] for name in ("coding", "nul", "ends", "long") if name in damage
        ]
        if kind:
            causes = [kind]
        elif _looks_like(start, ""):  # the first cause names what the file looks like
            causes = causes[:1]
        self.causes = tuple(f"{self.path}: {cause}" for cause in causes)


def _ends_in_returns(line: bytes) -> bool:
    """Return whether what was read as one line is several that end in CR alone."""
    return not line.endswith(b"\n") and b"\r" in line.rstrip(b"\r")


def bounded_lines(file: ByteFile, max_line: int) -> Iterator[bytes]:
    """Yield the lines of a file with their line feeds; of one that `is_too_long` perhaps the
    beginning only.
    """
    size = _BYTES * max_line + _ENDS
    while raw := file.readline(size):
        yield raw
        while len(raw) == size and not raw.endswith(b"\n"):
            raw = file.readline(size)


def is_too_long(raw: bytes, max_line: int) -> bool:
    """Return whether a line of `bounded_lines` has more than `max_line` characters."""
    if len(raw) <= max_line:
        return False
    return (
        len(raw.removeprefix(_BOM).rstrip(b"\r\n").decode("utf-8", "ignore")) > max_line
    )


def too_long(max_line: int) -> str:
    """Return what is said of a line of more than `max_line` characters, after its file and
    number.
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
    write_bytes(
        path, gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data
    )


def did_you_mean(path: Path) -> str:
    """Return the end of a message about a missing file: a suggestion of which one may be meant."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f", nor a folder {path.parent}; check the path"
    import difflib

    near = difflib.get_close_matches(path.name, names, 1, 0.5)
    return (
        f"; did you mean {path.parent / near[0]}?"
        if near
        else f"; {path.parent} has no file of a similar name"
    )


@lru_cache(1 << 12)
def _is_mark(character: str) -> bool:
    """Return whether a character is a combining mark with an order among its neighbours, or is
    composed of such.
    """
    return unicodedata.combining(unicodedata.normalize("NFD", character)[0]) > 0


@lru_cache(1 << 12)
def _is_joined(character: str) -> bool:
    """Return whether NFC may join a character to the one before it: a mark, or a later letter of a
    Hangul syllable.
    """
    return (
        unicodedata.category(character).startswith("M")
        or "\u1160" <= character <= "\u11ff"
    )


def _in_order(marks: str) -> str:
    """Decompose combining marks, and put them into canonical order."""
    decomposed = (part for mark in marks for part in unicodedata.normalize("NFD", mark))
    return "".join(sorted(decomposed, key=unicodedata.combining))


def _looks_like(data: bytes, otherwise: str = "; save the file as UTF-8") -> str:
    if data.startswith(b"\x1f\x8b"):
        return "; it looks gzipped: let its name end in .gz"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "; it looks like UTF-16: save it as UTF-8"
    if data.startswith((b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")):
        return (
            "; it looks compressed: unpack it first (.gz is read as it is), or save plain text, a "
            "table as CSV UTF-8"
        )
    return otherwise
