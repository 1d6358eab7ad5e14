"""Rate limits: token buckets for the requests and the characters of each client.

A bucket is refilled continuously, and fully within a minute. The libraries `limits` and
`pyrate-limiter` do not fit: they store an entry for each unit of cost, here a character, always
refuse a text that exceeds the limit of a minute, and do not bound the number of addresses.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable
from functools import cache, lru_cache

from regard.common.counting import counted
from regard.serving.http_errors import QUOTA_EXCEEDED, HttpError

MINUTE = 60.0  # seconds
MOST_ADDRESSES = 10_000
"""Maximum number of addresses with a bucket; the least recently used one is evicted. Buckets of
keys are kept.
"""
_MOST_NAME_CHARACTERS = 64
"""Characters that count of a client name that a proxy sends in the place of an address."""
KEY = "key "
"""Prefix of the names of clients that have a key."""


class TokenBucket:
    """A token bucket, whose tokens are requests or characters.

    `size`: tokens of the full bucket, which refills within a minute; 0: no limit. `taken`: sum of
    all tokens taken so far.
    """

    def __init__(self, size: int, unit: str, now: float) -> None:
        self.size = size
        self.unit = unit
        self.taken = 0
        self._left = float(size)
        self._time = now

    def take(self, count: int, now: float) -> None:
        """Take `count` tokens at the time `now`, in seconds.

        A full bucket satisfies any request, and goes into debt if the request is larger than the
        bucket. Raises HttpError (429) if there are too few tokens.
        """
        refilled = self._left + max(now - self._time, 0.0) / MINUTE * self.size
        self._left = min(refilled, self.size)
        self._time = now
        missing = min(count, self.size) - self._left
        if missing > 0 and self.size:
            wait = max(math.ceil(missing * MINUTE / self.size), 1)
            limit = f"more than {counted(self.size, self.unit)} a minute"
            message = f"{limit}; try again in {counted(wait, 'second')}"
            raise HttpError(429, message, headers={"Retry-After": str(wait)})
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
        def new_buckets(_: str) -> tuple[TokenBucket, TokenBucket]:
            return (
                TokenBucket(requests, "request", clock()),
                TokenBucket(characters, "character", clock()),
            )

        self.quota = quota
        self._clock = clock
        self._buckets_of_key = cache(new_buckets)
        self._buckets_of_address = lru_cache(MOST_ADDRESSES)(new_buckets)

    def take_request(self, client: str) -> None:
        """Charge a request. Raises HttpError (429) if the client has made too many."""
        requests, _ = self._buckets(client)
        requests.take(1, self._clock())

    def take_characters(self, client: str, count: int) -> None:
        """Charge the characters of a request. Raises HttpError: 429, or 456 if the quota is
        exceeded.
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
        """Return the number of characters that a client has been charged."""
        _, characters = self._buckets(client)
        return characters.taken

    def _buckets(self, client: str) -> tuple[TokenBucket, TokenBucket]:
        if client.startswith(KEY):
            return self._buckets_of_key(client)
        return self._buckets_of_address(client)


@lru_cache(4096)
def address_group(host: str) -> str:
    """Return the name under which an address is rate-limited.

    An IPv6 address stands for its /64 network, since a single client usually has the whole network.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:_MOST_NAME_CHARACTERS]
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
