"""Rate limits: a token bucket (refilled steadily, full after a minute) for the requests and characters of a client.

By hand, since `limits` and `pyrate-limiter` remember an entry for each unit of cost, here a character, refuse for
ever a text that is larger than the limit of a minute, and do not bound the number of addresses.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from regard.serving.http_errors import QUOTA_EXCEEDED, HttpError

MINUTE = 60.0  # seconds
MOST_ADDRESSES = 10_000
"""Addresses that are remembered; of more, those whose last request is longest ago are forgotten. No key is."""
_NAME = 64
"""Characters of what a proxy names a client by, if it is no address."""
KEY = "key "
"""Beginning of the names of clients that have a key."""


@dataclass
class _TokenBucket:
    """State of a client: what it has left of requests and characters, at which time, and its characters so far."""

    requests: float
    characters: float
    time: float
    used: int = 0


class Limits:
    """The limits of every client; 0: no limit. `clock` returns seconds."""

    def __init__(
        self, requests: int, characters: int, quota: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.requests, self.characters, self.quota = requests, characters, quota
        self._clock = clock
        self._of_keys, self._of_addresses = OrderedDict[str, _TokenBucket](), OrderedDict[str, _TokenBucket]()

    def take_request(self, client: str) -> None:
        """Count a request. Raises HttpError (429) if the client has made too many."""
        bucket = self._bucket(client)
        if self.requests:
            if bucket.requests < 1:
                seconds = (1 - bucket.requests) * MINUTE / self.requests
                raise _too_many(f"more than {self.requests:,} requests a minute", seconds)
            bucket.requests -= 1

    def take_characters(self, client: str, count: int) -> None:
        """Count the characters of a request. Raises HttpError: 429, or 456 if the quota does not suffice.

        A request that is larger than the bucket is let through when the bucket is full, and leaves a debt.
        """
        bucket = self._bucket(client)
        if self.quota and bucket.used + count > self.quota:
            left = max(self.quota - bucket.used, 0)
            raise HttpError(
                QUOTA_EXCEEDED,
                f"the text has {count:,} characters, and {left:,} are left of this client's {self.quota:,}",
            )
        if self.characters:
            wanted = min(count, self.characters)
            if bucket.characters < wanted:
                seconds = (wanted - bucket.characters) * MINUTE / self.characters
                raise _too_many(f"more than {self.characters:,} characters a minute", seconds)
            bucket.characters -= count
        bucket.used += count

    def used(self, client: str) -> int:
        """Return the characters that a client has had translated."""
        bucket = self._buckets(client).get(client)
        return bucket.used if bucket else 0

    def _buckets(self, client: str) -> OrderedDict[str, _TokenBucket]:
        return self._of_keys if client.startswith(KEY) else self._of_addresses

    def _bucket(self, client: str) -> _TokenBucket:
        now, buckets = self._clock(), self._buckets(client)
        bucket = buckets.pop(client, None) or _TokenBucket(self.requests, self.characters, now)
        minutes = max(now - bucket.time, 0.0) / MINUTE
        bucket.requests = min(bucket.requests + minutes * self.requests, self.requests)
        bucket.characters = min(bucket.characters + minutes * self.characters, self.characters)
        bucket.time = now
        buckets[client] = bucket
        if len(self._of_addresses) > MOST_ADDRESSES:
            self._of_addresses.popitem(last=False)
        return bucket


@lru_cache(4096)
def address_group(host: str) -> str:
    """Return what an address is counted as: itself, or the network of 64 bits that one owner of IPv6 addresses has."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:_NAME]
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


def _too_many(limit: str, seconds: float) -> HttpError:
    wait = max(math.ceil(seconds), 1)
    return HttpError(429, f"{limit}; try again in {wait} seconds", headers={"Retry-After": str(wait)})
