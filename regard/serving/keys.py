"""API keys, stored in a file as hashes, so that the file discloses no key.

A key has 256 random bits, so one round of SHA-256 without salt suffices: slow, salted hashes such
as scrypt protect passwords, which can be guessed and are reused, and each request would pay for
their cost. A key is looked up by its hash, so the time of the lookup discloses nothing about keys.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

import pydantic

from regard.common.atomic import atomic_file, lock_folder
from regard.common.errors import DataError, UsageError
from regard.common.reading import file_bytes

_LOG = logging.getLogger("regard.serving")
_NAME = re.compile(r"[\w.@ -]{1,64}")


class ApiKey(pydantic.BaseModel):
    """The entry of a key in the file: its name, its hash, and the date of its creation."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)
    name: str = pydantic.Field(pattern=rf"^{_NAME.pattern}$")
    hash: str = pydantic.Field(pattern=r"^[0-9a-f]{64}$")
    created: str = pydantic.Field(pattern=r"^\d{4}-\d\d-\d\d$")


class _File(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)
    version: Literal[2] = 2
    keys: list[ApiKey]


def add_key(path: str | Path, name: str) -> str:
    """Create a key, add its hash to the file, and return the key, which is stored nowhere.

    A missing file is created. Raises UsageError if the name is unusable or taken, and DataError if
    the file is damaged or cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"the name {name[:80]!r}: wanted up to 64 letters, digits, spaces and . @ _ -"
        )
    text = f"regard_{secrets.token_urlsafe(32)}"
    today = datetime.now(timezone.utc).date().isoformat()
    with _changing(path):
        keys = list_keys(path) if Path(path).exists() else ()
        if any(key.name == name for key in keys):
            raise UsageError(
                f"{path}: there is a key named {name!r}; revoke it first, or choose another name"
            )
        _write(path, [*keys, ApiKey(name=name, hash=_hash(text), created=today)])
    return text


def revoke_key(path: str | Path, name: str) -> None:
    """Remove a key from the file; a running server refuses it from then on.

    Raises UsageError if there is no key of this name.
    """
    with _changing(path):
        keys = list_keys(path)
        if not any(key.name == name for key in keys):
            names = ", ".join(key.name for key in keys) or "none"
            raise UsageError(
                f"{path}: there is no key named {name[:80]!r}; there are: {names}"
            )
        _write(path, [key for key in keys if key.name != name])


def list_keys(path: str | Path) -> tuple[ApiKey, ...]:
    """Read a key file. Raises DataError if it is missing or damaged."""
    remedy = "make it with `regard keys add`"
    try:
        content = _File.model_validate_json(file_bytes(Path(path)))
    except OSError as problem:
        raise DataError(
            f"{path}: cannot be read ({problem.strerror}); {remedy}"
        ) from None
    except pydantic.ValidationError as problem:
        first = problem.errors()[0]
        location = ".".join(map(str, first["loc"])) or "the top"
        cause = f"at {location}: {first['msg']}"
        raise DataError(
            f"{path}: damaged, or not a file of keys of this version ({cause}); {remedy}"
        ) from None
    return tuple(content.keys)


class KeyFile:
    """The keys of a file that may change while the server runs.

    Raises DataError if the file is unusable when it is first read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._state = self._file_state()
        self._keys = self._keys_by_hash()

    def check(self, text: str) -> ApiKey | None:
        """Return the key that a request has sent, or None if the file has no such key.

        The file is read again if it has changed; while it is missing or damaged, the previous keys
        stay valid and the log says why.
        """
        state = self._file_state()
        if state != self._state:
            self._state = state
            try:
                self._keys = self._keys_by_hash()
            except DataError as problem:
                _LOG.warning(
                    "the keys before it was changed are still used: %s", problem
                )
        return self._keys.get(_hash(text))

    def _keys_by_hash(self) -> dict[str, ApiKey]:
        return {key.hash: key for key in list_keys(self.path)}

    def _file_state(self) -> tuple[int, int, int]:
        """Return time, size and inode of the file, one of which changes when it is written."""
        try:
            state = os.stat(self.path)
        except OSError:
            return (0, 0, 0)
        return state.st_mtime_ns, state.st_size, state.st_ino


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: str | Path, keys: Sequence[ApiKey]) -> None:
    text = json.dumps(_File(keys=list(keys)).model_dump(), indent=1, ensure_ascii=False)
    with atomic_file(path, durable=True) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_text(f"{text}\n", encoding="utf-8")


@contextlib.contextmanager
def _changing(path: str | Path) -> Iterator[None]:
    """Hold a lock while a key file is read and written, so that no concurrent change is lost."""
    try:
        with lock_folder(Path(os.path.realpath(path)).parent):
            yield
    except OSError as problem:
        raise DataError(
            f"{path}: cannot be written ({problem.strerror}); choose another path"
        ) from None
