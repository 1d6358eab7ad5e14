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
from fake import Ask, FakeService
from helpers.time_limits import wait_until_async

from regard.requests.server_settings import ServerSettings
from regard.serving.application import create_app
from regard.serving.crash_table import CallTable

HELLO = {"text": "hello", "source": "en", "target": "ko"}


class Table(CallTable):
    """Notes what begins and ends."""

    def __init__(self) -> None:
        self.open = list[bytes]()
        self.ended = list[tuple[bytes, bool]]()
        self.suspects = False

    def is_suspect(self, _: bytes) -> bool:
        return self.suspects

    def begin(self, digest: bytes) -> None:
        self.open.append(digest)

    def blame(self, _: bytes) -> None:
        pass

    def end(self, digest: bytes, completed: bool) -> None:
        self.open.remove(digest)
        self.ended.append((digest, completed))


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def ask(make_ask: Callable[..., Ask], table: Table) -> Ask:
    return make_ask(calls=table)


@pytest.mark.parametrize(
    ("values", "status", "completed"),
    [
        ({}, 200, [True]),
        ({"stream": True}, 200, [True]),
        ({"text": "one bug", "stream": True}, 200, [False]),
        ({"text": "bug"}, 500, [False]),
        ({"nbest": 0}, 400, []),
    ],
)
def test_calls_are_open_until_they_are_answered(
    ask: Ask, table: Table, values: dict[str, Any], status: int, completed: list[bool]
) -> None:
    assert ask("/v1/translate", json={**HELLO, **values}).status_code == status
    assert [is_completed for _, is_completed in table.ended] == completed
    assert table.open == []


def test_a_service_that_is_late_is_cancelled(
    ask: Ask, table: Table, service: FakeService
) -> None:
    late = {"X-Deadline-Ms": "50"}
    answer = ask("/v1/translate", json={**HELLO, "text": "slow"}, headers=late)
    assert answer.status_code == 504
    assert service.cancelled == ["slow"]

    ((_, is_completed),) = table.ended
    assert not is_completed


def test_equal_requests_have_equal_digests(ask: Ask, table: Table) -> None:
    ask("/v1/translate", json=HELLO)
    ask("/v1/translate", json=HELLO)
    ask("/v1/translate", json={**HELLO, "text": "other"})
    ask("/v1/explain", json=HELLO)
    ask("/v1/translate?model=en-ko", json=HELLO)
    digests = [digest for digest, _ in table.ended]

    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_brings_down_the_process_of_its_model_is_refused(
    make_ask: Callable[..., Ask], service: FakeService, tmp_path: Path, stream: bool
) -> None:
    """One that only finds it away is not; one whose answer has begun is, too."""
    clock = partial(next, count(1000.0, 2.0))
    ask = make_ask(calls=CallTable(tmp_path / "calls", clock))

    def is_refused(word: str) -> bool:
        text = f"one {word}" if stream else word
        answer = ask("/v1/translate", json={**HELLO, "text": text, "stream": stream})
        return "ended 3 times" in answer.text and "retry-after" in answer.headers

    assert [is_refused("died") for _ in range(5)] == [False, False, False, True, True]
    assert len(service.calls) == 3
    assert not any(is_refused("gone") for _ in range(5))


def test_suspects_are_answered_one_after_the_other(
    table: Table, service: FakeService
) -> None:
    """One that waits has its deadline all the same."""
    table.suspects = True
    app = create_app(service, ServerSettings(), calls=table)
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost"
    )

    async def ask(**values: Any) -> int:
        return (
            await client.post("/v1/translate", json={**HELLO, **values})
        ).status_code

    async def run() -> list[int]:
        first = asyncio.create_task(ask(text="slow"))
        await wait_until_async(lambda: table.open, "the first is open")
        second = asyncio.create_task(ask())
        late = await ask(deadline_ms=50)

        assert len(table.open) == 1

        service.released.set()
        return [late, await first, await second]

    assert asyncio.run(run()) == [504, 200, 200]
    assert len(table.ended) == 2
