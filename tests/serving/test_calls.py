"""The table of open calls: what models are about to answer is in it until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake import FakeService
from limits import wait_until_async

from regard.common.errors import RegardError
from regard.serving.application import create_app
from regard.serving.deaths import CallTable
from regard.serving.server_settings import ServerSettings

HELLO = {"text": "hello", "source": "en", "target": "ko"}


class Table(CallTable):
    """Notes what begins and ends, and refuses calls that it is told to refuse."""

    def __init__(self) -> None:
        self.open = list[bytes]()
        self.ended = list[bool]()
        self.refuses = self.suspects = False

    def is_suspect(self, _: bytes) -> bool:
        return self.suspects

    def begin(self, digest: bytes) -> None:
        if self.refuses:
            raise RegardError("the server ended 3 times while it answered this")
        self.open.append(digest)

    def blame(self, _: bytes) -> None:
        pass

    def end(self, digest: bytes, completed: bool) -> None:
        self.open.remove(digest)
        self.ended.append(completed)


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def ask(service: FakeService, table: Table) -> Callable[..., httpx.Response]:
    app = create_app(service, ServerSettings(), calls=table)

    async def send(request: dict[str, Any], path: str) -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client:
            return await client.post(path, json=request)

    return lambda path="/v1/translate", **values: asyncio.run(send({**HELLO, **values}, path))


@pytest.mark.parametrize(
    ("values", "status", "completed"),
    [
        ({}, 200, [True]),
        ({"stream": True}, 200, [True]),
        ({"text": "one bug", "stream": True}, 200, [False]),
        ({"text": "bug"}, 500, [False]),
        ({"text": "slow", "deadline_ms": 50}, 504, [False]),
        ({"text": "gone"}, 503, [False]),
        ({"nbest": 0}, 400, []),
    ],
)
def test_calls_are_open_until_they_are_answered(
    ask: Callable[..., httpx.Response],
    table: Table,
    values: dict[str, Any],
    status: int,
    completed: list[bool],
) -> None:
    assert ask(**values).status_code == status
    assert (table.ended, table.open) == (completed, [])


def test_equal_requests_have_equal_digests(
    ask: Callable[..., httpx.Response],
    table: Table,
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = list[bytes]()
    end = table.end
    monkeypatch.setattr(
        table, "end", lambda digest, completed: (seen.append(digest), end(digest, completed))
    )
    for values in (
        {},
        {},
        {"text": "other"},
        {"path": "/v1/explain"},
        {"path": "/v1/translate?model=en-ko"},
    ):
        assert ask(**values).status_code == 200
    assert seen[0] == seen[1]
    assert len(set(seen)) == 4


def test_a_call_that_brings_the_process_down_is_refused(
    ask: Callable[..., httpx.Response], table: Table, service: FakeService
) -> None:
    table.refuses = True
    answer = ask()
    assert (answer.status_code, service.calls) == (503, [])
    assert "3 times" in answer.json()["detail"]
    assert answer.headers["retry-after"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_brings_down_the_process_of_its_model_is_refused(
    service: FakeService, tmp_path: Path, stream: bool
) -> None:
    """One that only finds it away is not; one whose answer has begun is, too."""
    app = create_app(
        service,
        ServerSettings(),
        calls=CallTable(tmp_path / "calls", partial(next, count(1000.0, 2.0))),
    )

    async def run(text: str) -> list[str]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client:
            asked = {**HELLO, "text": f"one {text}" if stream else text, "stream": stream}
            return [(await client.post("/v1/translate", json=asked)).text for _ in range(5)]

    assert ["ended 3 times" in answer for answer in asyncio.run(run("died"))] == [False] * 3 + [
        True
    ] * 2
    assert ["ended 3 times" in answer for answer in asyncio.run(run("gone"))] == [False] * 5


def test_suspects_are_answered_one_after_the_other(table: Table, service: FakeService) -> None:
    """One that waits has its deadline all the same."""
    app = create_app(service, ServerSettings(), calls=table)
    table.suspects = True

    async def run() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client:
            first = asyncio.create_task(
                client.post("/v1/translate", json={**HELLO, "text": "slow"})
            )
            await wait_until_async(lambda: table.open, "the first is open")
            second = asyncio.create_task(client.post("/v1/translate", json=HELLO))
            late = await client.post("/v1/translate", json={**HELLO, "deadline_ms": 50})
            assert len(table.open) == 1
            service.released.set()
            return [late, await first, await second]

    assert [answer.status_code for answer in asyncio.run(run())] == [504, 200, 200]
    assert table.ended == [True, True]
