"""Host names, origins, headers, ids and the log, which has neither texts nor keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from fake import Ask
from starlette.types import Message, Receive, Scope, Send

from regard.common.errors import ConfigurationError
from regard.requests.server_settings import ServerSettings
from regard.serving.security import RequestLog

HELLO = {"q": "hello", "source": "en", "target": "ko"}


def test_origins_of_settings() -> None:
    origins = ("*", "https://a.example", "http://[::1]:80", "moz-extension://abc-def")
    assert ServerSettings(cors_origins=origins).cors_origins == origins
    for wrong in (
        "https://a.example/",
        "a.example",
        "https://",
        "http://a:b",
        "null",
        "",
    ):
        sentence = rf"cors_origins: wanted \* or an origin such as .*got '{wrong}'$"
        with pytest.raises(ConfigurationError, match=sentence):
            ServerSettings.parse({"cors_origins": (wrong,)}, "regard serve")


@pytest.mark.parametrize("path", ["/health", "/nothing", "/"])
def test_every_answer_has_the_headers(ask: Ask, path: str) -> None:
    """The page has a policy of its own."""
    headers = ask(path, "GET").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"

    (policy,) = headers.get_list("content-security-policy")
    assert policy.startswith("default-src 'none'")
    assert ("script-src" in policy) == (path == "/")
    assert "server" not in headers


def test_request_ids(ask: Ask, log: list[str]) -> None:
    answer = ask("/health", "GET", headers={"X-Request-Id": "my-id.7"})
    assert answer.headers["x-request-id"] == "my-id.7"
    for wrong in ("a b", "x" * 65):
        made = ask("/v1/nothing", "GET", headers={"X-Request-Id": wrong})
        request_id = made.headers["x-request-id"]
        assert len(request_id) == 16
        assert made.json()["request_id"] == request_id
        assert log[-1].endswith(request_id)


def test_the_log_has_neither_texts_nor_keys(
    ask: Ask, make_ask: Callable[..., Ask], log: list[str]
) -> None:
    """Texts are there if they were asked for; methods that nobody knows are not."""
    ask("/translate", json={**HELLO, "q": "a hidden text", "api_key": "hidden-key"})
    ask("/translate?q=hidden&api_key=hidden-key", json={"source": "hidden"})
    ask("/hidden/path", "GET")
    ask("/v1/models/hidden", "GET")
    ask("/translate", json={**HELLO, "q": "bug"})

    assert "hidden" not in "".join(log)
    assert "secret words" not in "".join(log)  # the message of the exception
    assert [line.split()[:3] for line in log if "failed" not in line] == [
        ["POST", "/translate", "200"],
        ["POST", "/translate", "400"],
        ["GET", "unmatched", "404"],
        ["GET", "/v1/models/{name}", "404"],
        ["POST", "/translate", "500"],
    ]

    (failure,) = [line for line in log if "failed" in line]
    assert "ZeroDivisionError" in failure
    assert "fake.py" in failure
    assert failure.split()[0] == log[-1].split()[-1]

    ask("/translate", "A" * 20_000)
    assert log[-1].startswith("other ")

    make_ask(log_texts=True)("/translate", json={**HELLO, "q": "a text\nand more"})
    assert any(line.endswith(r'texts ["a text\nand more"]') for line in log)


def test_nothing_follows_an_answer_that_breaks_off(
    log: list[str],
) -> None:
    """The server closes such a connection; a second head would be garbage in the first body."""
    messages: list[Message] = []

    async def breaking(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError

    async def keep(message: Message) -> None:
        messages.append(message)

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    asyncio.run(RequestLog(breaking, ServerSettings())(scope, nothing, keep))

    assert [message["type"] for message in messages] == ["http.response.start"]
    assert "ZeroDivisionError" in log[0]
    assert log[1].startswith("GET unmatched 200")
