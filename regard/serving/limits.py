"""Rate limits: a token bucket (refilled steadily, full after a minute) for the requests and
characters of a client.

By hand, since `limits` and `pyrate-limiter` remember an entry for each unit of cost, here a
character, refuse for ever a text that is larger than the limit of a minute, and do not bound the
number of addresses.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable
from functools import cache, lru_cache

from regard.serving.http_errors import QUOTA_EXCEEDED, HttpError

MINUTE = 60.0  # seconds
MOST_ADDRESSES = 10_000
"""Addresses that are remembered; of more, those whose last request is longest ago are forgotten. No
key is.
"""
_NAME = 64
"""Characters of what a proxy names a client by, if it is no address."""
KEY = "key "
"""Beginning of the names of clients that have a key."""


class TokenBucket:
    """Requests or characters that a client has left of `size`, and that come back within a minute;
    0: no limit.

    `taken`: all of them so far.
    """

    def __init__(self, size: int, unit: str, now: float) -> None:
        self.size = size
        self.unit = unit
        self.taken = 0
        self._left = float(size)
        self._time = now

    def take(self, count: int, now: float) -> None:
        """Take `count` at a time in seconds; a full bucket suffices for any, and is in debt then.

        Raises HttpError (429) if there is not enough.
        """
        refilled = self._left + max(now - self._time, 0.0) / MINUTE * self.size
        self._left = min(refilled, self.size)
        self._time = now
        missing = min(count, self.size) - self._left
        if missing > 0 and self.size:
            wait = str(max(math.ceil(missing * MINUTE / self.size), 1))
            limit = f"more than {self.size:,} {self.unit} a minute; try again in {wait} seconds"
            raise HttpError(429, limit, headers={"Retry-After": wait})
        self._left -= count
        self.taken += count


class Limits:
    """The limits of every client; 0: no limit. `clock` returns seconds."""

    def __init__(
        self,
        requests: int,
        characters: int,
        quota: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        def buckets(_: str) -> tuple[TokenBucket, TokenBucket]:
            return TokenBucket(requests, "requests", clock()), TokenBucket(
                characters, "characters", clock()
            )

        self.quota = quota
        self._clock = clock
        self._of_key = cache(buckets)
        self._of_address = lru_cache(MOST_ADDRESSES)(buckets)

    def take_request(self, client: str) -> None:
        """Count a request. Raises HttpError (429) if the client has made too many."""
        requests, _ = self._buckets(client)
        requests.take(1, self._clock())

    def take_characters(self, client: str, count: int) -> None:
        """Count the characters of a request. Raises HttpError: 429, or 456 if the quota does not
        suffice.
        """
        left = max(self.quota - self.used(client), 0)
        if self.quota and count > left:
            sentence = (
                f"the text has {count:,} characters, and {left:,} are left of this client's "
                f"{self.quota:,}"
            )
            raise HttpError(QUOTA_EXCEEDED, sentence)
        _, characters = self._buckets(client)
        characters.take(count, self._clock())

    def used(self, client: str) -> int:
        """Return the characters that a client has had translated."""
        _, characters = self._buckets(client)
        return characters.taken

    def _buckets(self, client: str) -> tuple[TokenBucket, TokenBucket]:
        return (
            self._of_key(client) if client.startswith(KEY) else self._of_address(client)
        )


@lru_cache(4096)
def address_group(host: str) -> str:
    """Return what an address is counted as: itself, or the network of 64 bits that one owner of
    IPv6 addresses has.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:_NAME]
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
