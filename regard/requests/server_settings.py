"""Settings of the server: models, limits, API keys, and permissions of browsers.

A field with an `Option` is an option of `regard serve`.
"""

from __future__ import annotations

import ipaddress
import re
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from regard.common.requests import Option
from regard.common.settings import COUNT, Settings
from regard.requests.shared_fields import DecodingPrecision, Keep, ThreadCount

LOOPBACK = ("localhost", "127.0.0.1", "::1")
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
    """Models, limits and permissions of the server; 0 means no limit, unless a field says
    otherwise.
    """

    precision: Annotated[
        DecodingPrecision,
        Option("Precision of the weights of folders; a runtime file has its own."),
    ] = "int8"
    threads: ThreadCount = None
    most_lines: Annotated[
        int, Option("Lines that may wait for a model.", "--queue")
    ] = Field(4096, ge=1, le=10_000_000)
    reload_seconds: Annotated[
        float, Option("Look for changed models so often; 0: never.")
    ] = Field(2.0, ge=0)
    char_limit: Annotated[
        int, Option("Most characters of all texts of a request together; 0: any.")
    ] = Field(100_000, ge=0, le=COUNT)
    batch_limit: int = Field(1_000, ge=1, le=1_000_000)
    """Texts of a request."""
    body_limit: int = Field(10_000_000, ge=1_000, le=COUNT)
    """Bytes of a request's body. No more than this is read."""
    document_limit: Annotated[
        int, Option("Most bytes of a document to translate; 0: none is taken.")
    ] = Field(5_000_000, ge=0, le=COUNT)
    document_seconds: Annotated[
        float,
        Option("Seconds a document may take, and for which its translation is kept."),
    ] = Field(3600.0, gt=0, le=604_800)
    document_count: int = Field(20, ge=1, le=COUNT)
    """Documents of each client that wait or are kept."""
    document_space: int = Field(200_000_000, ge=1_000, le=COUNT)
    """Bytes of all documents that wait or are kept, which are in memory."""
    deadline: Annotated[
        float,
        Option(
            "Seconds that a request may take, its body included; one may ask for less."
        ),
    ] = Field(20.0, gt=0, le=86_400)
    answer_limit: Annotated[
        int,
        Option(
            "Most bytes of attention, further hypotheses and the search in an answer."
        ),
    ] = Field(32_000_000, ge=100_000, le=COUNT)
    write_timeout: float = Field(20.0, gt=0, le=86_400)
    """Seconds in which a client has to read each 64 KiB of an answer."""
    waiting_connections: int = Field(256, ge=1, le=COUNT)
    """Connections of one address that may wait for their client at the same time. If there are
    more, those that have waited longest are closed.
    """
    trusted_proxies: Annotated[
        tuple[str, ...],
        Option(
            "Address or network of a proxy whose X-Forwarded-For is believed; may be repeated.",
            "--trusted-proxy",
            is_repeated=True,
        ),
    ] = Field((), strict=False)
    require_key: Annotated[bool, Option("Refuse requests without a key.")] = False
    key_file: Annotated[
        Path | None,
        Option("File of API keys; see regard keys.", "--keys", is_local=True),
    ] = Field(None, strict=False)
    """It is read again when it changes."""
    requests_per_minute: Annotated[
        int, Option("Requests of each key, or each address without a key; 0: any.")
    ] = Field(0, ge=0, le=COUNT)
    characters_per_minute: Annotated[
        int, Option("Characters of each key, or each address without a key; 0: any.")
    ] = Field(0, ge=0, le=COUNT)
    character_quota: int = Field(0, ge=0, le=1_000_000_000_000)
    """Characters that each key, or each address without a key, may have translated until the server
    is started anew.
    """
    cors_origins: Annotated[
        tuple[Annotated[str, AfterValidator(_check_origin)], ...],
        Option(
            "Origin whose pages may call; may be repeated; '*': all.",
            "--cors",
            is_repeated=True,
        ),
    ] = Field((), strict=False)
    """By default only its own."""
    hosts: Annotated[
        tuple[str, ...],
        Option(
            "Host name by which the server may be called; may be repeated; '*': any.",
            "--allow-host",
            is_repeated=True,
        ),
    ] = Field(LOOPBACK, strict=False)
    """IP addresses are always allowed."""
    keep: Keep = Field((), strict=False)
    """Once they are read: patterns alone."""
    page: Annotated[bool, Option("Send a page that translates, at /.")] = True
    metrics: Annotated[bool, Option("Offer metrics for Prometheus at /metrics.")] = (
        False
    )
    metrics_token: str = ""
    """Bearer token that /metrics wants; empty: none."""
    log_texts: Annotated[bool, Option("Write texts to the log, too.")] = False

    @model_validator(mode="after")
    def _check(self) -> ServerSettings:
        if self.require_key and not self.key_file:
            raise ValueError(
                "`require_key=True` without `key_file=`: nobody would have a key; name the file of "
                "keys"
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
