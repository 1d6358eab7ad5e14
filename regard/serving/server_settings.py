"""Settings of the server: limits, API keys, and permissions of browsers."""

from __future__ import annotations

import ipaddress
import re
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from regard.common.settings import COUNT, Settings
from regard.serving.supervisor import LOOPBACK

_ORIGIN = re.compile(
    r"\*|[a-z][a-z0-9+.-]*://([^\s/?#@:\[\]]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?"
)


def _check_origin(origin: str) -> str:
    if not _ORIGIN.fullmatch(origin):
        raise ValueError(
            "wanted * or an origin such as https://example.org:8443, without a path, got "
            f"{origin!r}"
        )
    return origin


class ServerSettings(Settings):
    """Limits and permissions of the HTTP server; 0 means no limit, unless a field says
    otherwise.
    """

    char_limit: int = Field(100_000, ge=0, le=COUNT)
    """Characters of all texts of a request together."""
    batch_limit: int = Field(1_000, ge=1, le=1_000_000)
    """Texts of a request."""
    body_limit: int = Field(10_000_000, ge=1_000, le=COUNT)
    """Bytes of a request's body. No more than this is read."""
    deadline: float = Field(20.0, gt=0, le=86_400)
    """Seconds that a request may take, its body included; a request may ask for less
    (`deadline_ms`), not for more.
    """
    answer_limit: int = Field(32_000_000, ge=100_000, le=COUNT)
    """Bytes that attention, further hypotheses and the search may take in an answer, as estimated
    before the work.
    """
    write_timeout: float = Field(20.0, gt=0, le=86_400)
    """Seconds in which a client has to read each 64 KiB of an answer."""
    waiting_connections: int = Field(256, ge=1, le=COUNT)
    """Connections of one address that may wait for their client at the same time. If there are
    more, those that have waited longest are closed.
    """
    trusted_proxies: tuple[str, ...] = Field((), strict=False)
    """Addresses and networks of proxies whose X-Forwarded-For is believed."""
    require_key: bool = False
    """Refuse requests without a key of the key file, which then must be given."""
    key_file: str = ""
    """File of hashed API keys; it is read again when it changes. Empty: there are no keys."""
    requests_per_minute: int = Field(0, ge=0, le=COUNT)
    """Requests that each key, or each address without a key, may make in a minute."""
    characters_per_minute: int = Field(0, ge=0, le=COUNT)
    """Characters that each key, or each address without a key, may have translated in a minute."""
    character_quota: int = Field(0, ge=0, le=1_000_000_000_000)
    """Characters that each key, or each address without a key, may have translated until the server
    is started anew.
    """
    cors_origins: tuple[Annotated[str, AfterValidator(_check_origin)], ...] = Field(
        (), strict=False
    )
    """Origins, such as https://example.org, whose pages may call the server; "*": all. By default
    only its own.
    """
    hosts: tuple[str, ...] = Field(LOOPBACK, strict=False)
    """Host names by which the server may be called; "*": any. IP addresses are always allowed."""
    keep: tuple[str, ...] = Field((), strict=False)
    """Patterns (RE2) of what comes back unchanged, beside placeholders, addresses, code and
    emoji.
    """
    page: bool = True
    """Send the page that translates at /."""
    metrics: bool = False
    """Offer /metrics."""
    metrics_token: str = ""
    """Bearer token that /metrics wants; empty: none."""
    log_texts: bool = False
    """Write the texts of requests to the log."""

    @model_validator(mode="after")
    def _check(self) -> ServerSettings:
        if self.require_key and not self.key_file:
            raise ValueError(
                "require_key without key_file: nobody would have a key; name the file of keys"
            )
        _ = self.proxies  # raises ValueError for an invalid address
        return self

    @cached_property
    def proxies(self) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
        """The networks of trusted proxies, those of IPv4 also as IPv4-mapped IPv6 networks.

        Raises ValueError if an address is invalid.
        """
        networks = [
            ipaddress.ip_network(name, strict=False) for name in self.trusted_proxies
        ]
        mapped_networks = [
            ipaddress.ip_network(
                f"::ffff:{network.network_address}/{96 + network.prefixlen}"
            )
            for network in networks
            if network.version == 4
        ]
        return (*networks, *mapped_networks)

    def is_proxy(self, host: str) -> bool:
        """Return whether an address belongs to a trusted proxy."""
        if host == "":
            return False
        return any(ipaddress.ip_address(host) in network for network in self.proxies)
