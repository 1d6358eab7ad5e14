"""Requests of different addresses begin in turns."""

from __future__ import annotations

import asyncio

import httpx
from fake import FakeService
from starlette.types import Message, Receive, Scope, Send

from regard.requests.server_settings import ServerSettings
from regard.serving.application import create_app
from regard.serving.fair_starts import FairStarts


async def begun(sent: list[str], given_up: int = -1) -> list[str]:
    """Send a request of each address at once; return the addresses in the order of the
    beginnings.
    """
    order = list[str]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        order.append(scope["client"][0])

    async def nothing(*_: Message) -> Message:
        raise AssertionError

    starts = FairStarts(app)
    tasks = [
        asyncio.create_task(starts({"client": (address, 1)}, nothing, nothing))
        for address in sent
    ]
    await asyncio.sleep(0)

    assert len(order) == 1, "the others wait for the next iterations"

    if given_up >= 0:
        tasks[given_up].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not starts._waiting

    return order


def test_a_flood_waits_for_itself_and_networks_of_one_owner_have_one_turn() -> None:
    network = [f"2001:db8::{number}" for number in range(100)]
    sent = [*network, *["192.0.2.1"] * 1000, "192.0.2.2", "192.0.2.3", "192.0.2.2"]
    order = asyncio.run(begun(sent))
    assert sorted(order) == sorted(sent)
    assert max(order.index("192.0.2.2"), order.index("192.0.2.3")) <= 5
    assert order[:10].count("192.0.2.2") == 2


def test_a_turn_that_is_given_up_is_passed_on() -> None:
    assert asyncio.run(begun(["a", "b", "c", "d"], given_up=2)) == ["a", "b", "d"]


def test_the_server_answers_those_behind_a_proxy_in_turns() -> None:
    app = create_app(FakeService(), ServerSettings(trusted_proxies=("127.0.0.1",)))
    answered = list[str]()

    async def ask(client: httpx.AsyncClient, address: str) -> None:
        await client.get("/health", headers={"X-Forwarded-For": address})
        answered.append(address)

    async def ask_all() -> None:
        transport = httpx.ASGITransport(app)
        sent = [*["192.0.2.1"] * 100, "192.0.2.2"]
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost"
        ) as client:
            await asyncio.gather(*(ask(client, address) for address in sent))

    asyncio.run(ask_all())

    assert answered.index("192.0.2.2") < 20
