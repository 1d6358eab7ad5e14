"""Checksums that are published with a model, by which copies of its files are verified.

Weights and vocabularies of other toolkits carry no seal. However, the cache of Hugging Face names
each file by its checksum, a folder that its tools downloaded has checksums in
`.cache/huggingface/download`, and `SHA256SUMS`, which our own exports contain too, lists them in
the format of `sha256sum`.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

from regard.common.atomic import file_sha256, write_text
from regard.common.errors import ExportError
from regard.common.reading import file_bytes

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")
_EMPTY = re.compile(r"\s*(#.*)?")
_DIGEST = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")
_BLOCK = 1 << 20


def check_sums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Compare existing files with their checksums; return the SHA-256 of each file that has none.

    Raises ExportError, with all causes, for files that differ, for missing files that `SHA256SUMS`
    lists, and for invalid lines in it.
    """
    listed, causes = _listed(folder)
    unknown = {}
    for name in names:
        path = folder / name
        if not path.is_file():
            if name in listed:
                causes.append(f"{path}: missing, but {SUMS} lists it; fetch it again")
            continue
        expected = listed.get(name) or _downloaded(folder, name) or _blob(path)
        if expected is None:
            unknown[name] = file_sha256(path)
        elif expected != (file_sha256 if len(expected) == 64 else _git_blob)(path):
            where = SUMS if name in listed else _noted(folder, name).relative_to(folder)
            remedy = f"fetch it again, or delete {where} if it was changed on purpose"
            causes.append(
                f"{path}: damaged or changed, its checksum is not {expected}; {remedy}"
            )
    ExportError.raise_all(causes)
    return unknown


def write_sums(folder: Path) -> None:
    """Write the checksums of all files of a folder."""
    paths = sorted(path for path in folder.iterdir() if path.name != SUMS)
    write_text(
        folder / SUMS, "".join(f"{file_sha256(path)}  {path.name}\n" for path in paths)
    )


def _listed(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Return the checksums in `SHA256SUMS` by file, and the errors in it."""
    path = folder / SUMS
    if not path.is_file():
        return {}, []
    lines = file_bytes(path).decode("utf-8-sig", "replace").splitlines()
    matches = {
        number: _LINE.fullmatch(line)
        for number, line in enumerate(lines, 1)
        if not _EMPTY.fullmatch(line)
    }
    wrong = [number for number, match in matches.items() if match is None]
    digests = {
        posixpath.normpath(match[2]): match[1].lower()
        for match in matches.values()
        if match is not None
    }
    remedy = "fetch it again, or delete it to go without"
    return digests, [
        f"{path}: line {wrong[0]} is no SHA-256 and file name; {remedy}"
    ] if wrong else []


def _downloaded(folder: Path, name: str) -> str | None:
    """Return the checksum that Hugging Face's tools store beside a download, in the second line."""
    path = _noted(folder, name)
    if not path.is_file():
        return None
    lines = file_bytes(path).decode("utf-8", "replace").splitlines()
    return lines[1] if len(lines) > 1 and _DIGEST.fullmatch(lines[1]) else None


def _noted(folder: Path, name: str) -> Path:
    return folder / ".cache" / "huggingface" / "download" / f"{name}.metadata"


def _blob(path: Path) -> str | None:
    """Return the checksum by which Hugging Face's cache names a file; None outside of it."""
    target = path.resolve()
    if target.parent.name == "blobs" and _DIGEST.fullmatch(target.name):
        return target.name
    return None


def _git_blob(path: Path) -> str:
    """Return the SHA-1 by which git names a file."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
