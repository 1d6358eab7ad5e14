"""Addresses of clients: who may say what they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from regard.common.errors import ConfigurationError
from regard.serving.proxies import ProxyHeaders, TrustedProxies
from regard.serving.server_settings import ServerSettings

TRUSTED = ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32")


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("192.0.2.1", {"x-forwarded-for": "198.51.100.1"}, "192.0.2.1"),
        ("127.0.0.1", {}, "127.0.0.1"),
        ("127.0.0.1", {"x-forwarded-for": "198.51.100.1"}, "198.51.100.1"),
        ("::ffff:10.1.1.1", {"x-forwarded-for": "198.51.100.1"}, "198.51.100.1"),
        ("10.0.0.1", {"x-forwarded-for": "203.0.113.9, 198.51.100.1:4711, 10.0.0.2"}, "198.51.100.1"),
        ("10.0.0.1", {"x-forwarded-for": "10.0.0.3, 10.0.0.2"}, "10.0.0.3"),
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2"),
        ("10.0.0.1", {"x-forwarded-for": "198.51.100.1,"}, "10.0.0.1"),
        ("2001:db8::1", {"x-forwarded-for": "[2001:db9::5]:80"}, "2001:db9::5"),
        ("10.0.0.1", {"forwarded": 'for=203.0.113.9;proto=http, For="[2001:db9::5]:80";by=10.0.0.1'}, "2001:db9::5"),
        ("10.0.0.1", {"forwarded": "for=_hidden"}, "10.0.0.1"),
        ("10.0.0.1", {"forwarded": "for=198.51.100.1", "x-forwarded-for": "198.51.100.1"}, "198.51.100.1"),
        ("10.0.0.1", {"forwarded": "for=198.51.100.1", "x-forwarded-for": "198.51.100.2"}, "10.0.0.1"),
    ],
)
def test_the_last_address_that_is_not_trusted(peer: str, headers: dict[str, str], client: str) -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["client"][0])

    async def nothing(*_: Any) -> Message:
        raise AssertionError

    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope: Scope = {"type": "http", "client": (peer, 1), "headers": encoded}
    asyncio.run(ProxyHeaders(app, TrustedProxies(TRUSTED))(scope, nothing, nothing))
    assert seen == [client]


def test_limits_are_not_gone_round(make_ask: Any) -> None:
    for trusted, statuses in (((), [200, 429]), (("127.0.0.1",), [200, 200])):
        ask = make_ask(requests_per_minute=1, trusted_proxies=trusted)
        hello = {"q": "hello", "source": "en", "target": "ko"}
        asked = [ask("/translate", json=hello, headers={"X-Forwarded-For": f"192.0.2.{n}"}) for n in range(2)]
        assert [answer.status_code for answer in asked] == statuses


def test_names_are_no_addresses() -> None:
    with pytest.raises(ConfigurationError, match=r"proxy\.example"):
        ServerSettings.parse({"trusted_proxies": ("proxy.example",)}, "settings")
