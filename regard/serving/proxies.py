"""Addresses of clients behind proxies: what headers say of them is believed only of proxies that the settings name."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_FOR = re.compile(r"(?:^|[;,])\s*for=(\"[^\"]*\"|[^;,]*)", re.IGNORECASE)
_PORT = re.compile(r"(?:\[([^\]]*)\]|([^:]*))(?::[0-9]{1,5})?")


class TrustedProxies:
    """Addresses and networks of proxies. Raises ValueError for others."""

    def __init__(self, names: Iterable[str]) -> None:
        self._networks = [ipaddress.ip_network(name, strict=False) for name in names]

    def __contains__(self, host: str) -> bool:
        address = parse_address(host) if self._networks else None  # it is asked of each connection that waits
        return address is not None and any(address in network for network in self._networks)

    def client(self, peer: str, chain: Sequence[str]) -> str:
        """Return the last address of a chain that ends with `peer` and is not trusted: nobody vouches for others."""
        client = peer
        for text in reversed(chain):
            if client not in self or (address := parse_address(text)) is None:
                break
            client = str(address)
        return client


class ProxyHeaders:
    """Take the address of a client from `X-Forwarded-For` or `Forwarded` if it is a trusted proxy that sends them.

    If both are there and differ, neither is believed: a proxy may pass on what its client has written into the other.
    """

    def __init__(self, app: ASGIApp, proxies: TrustedProxies) -> None:
        self.app, self.proxies = app, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = (scope.get("client") or ("", 0))[0]
        if scope["type"] == "http" and peer in self.proxies:
            headers = Headers(scope=scope)
            plain = ",".join(headers.getlist("x-forwarded-for"))
            chains = [plain.split(",")] if plain else []
            if standard := ",".join(headers.getlist("forwarded")):
                chains.append(_FOR.findall(standard))
            clients = {self.proxies.client(peer, chain) for chain in chains}
            scope = {**scope, "client": (clients.pop(), 0)} if len(clients) == 1 else scope
        await self.app(scope, receive, send)


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address, which may have quotes, brackets and a port; None: it is none, such as `unknown`."""
    text = text.strip().strip('"')
    match = _PORT.fullmatch(text)
    try:
        address = ipaddress.ip_address((match[1] or match[2] if match else text).partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
