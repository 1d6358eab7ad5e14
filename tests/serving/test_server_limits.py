"""Rate limits with a clock of their own, and those of whole requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from regard.serving import limits
from regard.serving.http_errors import HttpError
from regard.serving.limits import Limits, address_group

HELLO = {"q": "hello", "source": "en", "target": "ko"}


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def waits(take: Callable[..., None], *arguments: object) -> int:
    """Return the seconds that a refusal names; 0 if there is none."""
    try:
        take(*arguments)
    except HttpError as refused:
        return int(refused.headers["Retry-After"]) if refused.status == 429 else -1
    return 0


def test_requests_come_back_steadily() -> None:
    clock = Clock()
    bucket = Limits(6, 0, clock=clock)
    assert [waits(bucket.take_request, "a") for _ in range(8)] == [0] * 6 + [10, 10]
    assert waits(bucket.take_request, "b") == 0

    clock.now = 10
    assert [waits(bucket.take_request, "a") for _ in range(2)] == [0, 10]

    clock.now = 1e6
    assert [waits(bucket.take_request, "a") for _ in range(7)] == [0] * 6 + [10]


def test_a_text_larger_than_the_bucket_passes_once_it_is_full() -> None:
    clock = Clock()
    bucket = Limits(0, 100, clock=clock)
    assert waits(bucket.take_characters, "a", 300) == 0
    assert waits(bucket.take_characters, "a", 1) == 121

    clock.now = 60
    assert waits(bucket.take_characters, "a", 1) == 61


def test_the_quota_is_kept_exactly_and_refusals_are_not_counted() -> None:
    bucket = Limits(0, 0, quota=10)
    bucket.take_characters("a", 7)
    with pytest.raises(
        HttpError, match="4 characters, and 3 are left of this client's 10"
    ) as refused:
        bucket.take_characters("a", 4)
    assert refused.value.status == 456

    bucket.take_characters("a", 3)
    assert (bucket.used("a"), bucket.used("b")) == (10, 0)


def test_addresses_are_forgotten_and_keys_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MOST_ADDRESSES", 100)
    bucket = Limits(0, 0)
    bucket.take_characters("key 1", 5)
    for number in range(300):
        bucket.take_characters(f"10.0.0.{number}", 5)

    assert bucket.used("key 1") == 5
    assert bucket.used("10.0.0.0") == 0
    assert bucket.used("10.0.0.299") == 5


def test_addresses() -> None:
    groups = {
        "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
        "2001:db8:1:2::9%eth0": "2001:db8:1:2::/64",
        "::ffff:10.0.0.1": "10.0.0.1",
        "10.0.0.1": "10.0.0.1",
        "testclient": "testclient",
    }
    assert {address: address_group(address) for address in groups} == groups
