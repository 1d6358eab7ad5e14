"""Addresses of clients: who may say what they are."""

from __future__ import annotations

from typing import Any

import pytest

from regard.common.errors import ConfigurationError
from regard.requests.server_settings import ServerSettings

HELLO = {"q": "hello", "source": "en", "target": "ko"}


@pytest.mark.parametrize(
    ("trusted", "second", "status"),
    [
        ((), "192.0.2.2", 429),
        (("10.0.0.0/8",), "192.0.2.2", 429),
        (("127.0.0.1",), "192.0.2.2", 200),
        (("127.0.0.0/8", "10.0.0.0/8"), "192.0.2.2, 192.0.2.1, 10.0.0.2", 429),
        (("127.0.0.9/8",), "192.0.2.1, 192.0.2.2:4711", 200),
    ],
)
def test_limits_are_not_gone_round(
    make_ask: Any, trusted: tuple[str, ...], second: str, status: int
) -> None:
    """The last address that is not a trusted proxy's is the client's: all before it may be
    forged.
    """
    ask = make_ask(requests_per_minute=1, trusted_proxies=trusted)
    first = {"X-Forwarded-For": "192.0.2.1"}
    statuses = [
        ask("/translate", json=HELLO, headers=headers).status_code
        for headers in (
            first,
            {**first, "Forwarded": "for=1.1.1.1"},
            {**first, "X-Real-IP": "1.1.1.1"},
            {"X-Forwarded-For": second},
        )
    ]

    assert statuses == [200, 429, 429, status]


@pytest.mark.parametrize("host", ["10.1.2.3", "::ffff:10.1.2.3", "2001:db8::7"])
def test_proxies_of_ipv4_are_trusted_on_a_socket_of_ipv6(host: str) -> None:
    settings = ServerSettings(trusted_proxies=("10.0.0.1/8", "2001:db8::/32"))
    assert settings.is_proxy(host)
    assert not settings.is_proxy(host.replace("10.", "11.").replace("db8", "db9"))


def test_names_are_no_addresses() -> None:
    with pytest.raises(ConfigurationError, match=r"proxy\.example"):
        ServerSettings.parse({"trusted_proxies": ("proxy.example",)}, "settings")
