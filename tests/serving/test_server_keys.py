"""API keys: the file holds no key, changes take effect while the server runs, damage is
reported.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fake import Ask
from helpers.system_marks import posix

from regard.common.errors import ConfigurationError, DataError, UsageError
from regard.requests.server_settings import ServerSettings
from regard.serving.keys import KeyFile, add_key, list_keys, revoke_key

HELLO = {"q": "hello", "source": "en", "target": "ko"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_a_key_fits_and_no_other(file: Path) -> None:
    """The file has neither key, and after a change only the keys that it has then."""
    one = add_key(file, "one")
    keys = KeyFile(file)
    two = add_key(file, "two")
    first, second = list_keys(file)

    assert (first.name, second.name) == ("one", "two")
    assert (keys.check(one), keys.check(two)) == (first, second)

    for key in (one, two):
        assert key.removeprefix("regard_") not in file.read_text()
    mixed = one[:20] + two[20:]
    for wrong in ("", one[:-1], one.upper(), mixed, "키", f"{one}\n", first.hash):
        assert keys.check(wrong) is None
    revoke_key(file, "one")

    assert (keys.check(one), keys.check(two)) == (None, second)


@posix
def test_keys_that_are_added_at_once_are_all_kept(file: Path) -> None:
    names = [f"client {number}" for number in range(12)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: add_key(file, name), names))
    assert sorted(key.name for key in list_keys(file)) == sorted(names)


@posix
def test_only_its_owner_may_read_the_file(file: Path) -> None:
    add_key(file, "one")
    assert file.stat().st_mode & 0o777 == 0o600

    file.chmod(0o644)
    add_key(file, "two")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_damaged_file_keeps_the_keys_before_and_says_so(
    file: Path, log: list[str]
) -> None:
    one = add_key(file, "one")
    keys = KeyFile(file)
    whole = file.read_bytes()
    for damage in (b"", b"{", b'{"version": 1, "keys": []}', whole):
        file.write_bytes(damage)
        assert keys.check(one) is not None

    assert len(log) == 3, "none of the whole file"
    assert str(file) in log[-1]

    file.unlink()
    assert keys.check(one) is not None
    assert len(log) == 4


def test_damage_is_one_sentence(file: Path) -> None:
    for content, sentence in {
        b"[]": "damaged, or not a file of keys",
        b'{"version": 2, "keys": [{"name": "x"}]}': r"damaged.*keys\.0\.hash",
        b'{"version": 7, "keys": []}': "of this version.*version",
        b"\xff": "damaged.*JSON",
    }.items():
        file.write_bytes(content)
        with pytest.raises(DataError, match=sentence):
            list_keys(file)


def test_names_and_missing_files(file: Path) -> None:
    add_key(file, "one")
    for name in ("", "a\nb", "x" * 65, "a/b"):
        with pytest.raises(UsageError, match="wanted up to 64 letters"):
            add_key(file, name)
    with pytest.raises(UsageError, match="there is a key named 'one'"):
        add_key(file, "one")
    with pytest.raises(UsageError, match="there are: one"):
        revoke_key(file, "two")
    with pytest.raises(DataError, match="cannot be read"):
        KeyFile(file.with_name("none"))
    with pytest.raises(DataError, match="cannot be written"):
        add_key(file.parent / "none" / "keys", "one")
    with pytest.raises(ConfigurationError, match="nobody would have a key"):
        ServerSettings.parse({"require_key": True}, "serve.toml")


def test_keys_come_in_headers_and_parameters(
    make_ask: Callable[..., Ask], file: Path
) -> None:
    key = add_key(file, "one")
    ask = make_ask(key_file=str(file), require_key=True)
    bearer = {"Authorization": f"Bearer {key}"}
    ways: list[dict[str, Any]] = [
        {"json": {**HELLO, "api_key": key}},
        {"data": {**HELLO, "apiKey": key}},
        {"json": HELLO, "params": {"api_key": key}},
        {"json": HELLO, "headers": bearer},
        {"json": HELLO, "headers": {"Authorization": f"DeepL-Auth-Key {key}"}},
    ]
    for way in ways:
        assert ask("/translate", **way).status_code == 200
    for wrong in (None, "", "x", 5, [key]):
        assert ask("/translate", json={**HELLO, "api_key": wrong}).status_code == 403

    assert ask("/v1/models", "GET", headers=bearer).status_code == 200
    assert ask("/v1/models", "GET").status_code == 403
    assert ask("/v2/languages", "GET").status_code == 403
    assert ask("/languages", "GET").status_code == 200


def test_without_require_key_other_keys_are_passed_over(
    make_ask: Callable[..., Ask], file: Path
) -> None:
    key = add_key(file, "one")
    ask = make_ask(key_file=str(file), requests_per_minute=1)
    assert ask("/translate", json={**HELLO, "api_key": "any"}).status_code == 200
    # Both are of this address.
    assert ask("/translate", json={**HELLO, "api_key": "other"}).status_code == 429
    assert ask("/translate", json={**HELLO, "api_key": key}).status_code == 200
