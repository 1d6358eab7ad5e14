"""The server over a fake service: called in the process, or by its address on the loopback
interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake import Ask, FakeService
from helpers.browser import NODE_MODULES
from running_server import serving

from regard.requests.server_settings import ServerSettings
from regard.serving.application import create_app
from regard.serving.crash_table import CallTable


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def make_ask(service: FakeService) -> Callable[..., Ask]:
    """Return a function that makes an application with some settings, and returns a function that
    sends requests.
    """

    def make(calls: CallTable | None = None, **settings: Any) -> Ask:
        app = create_app(service, ServerSettings(**settings), calls=calls)

        async def send(
            method: str, path: str, base: str, **request: Any
        ) -> httpx.Response:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(
                transport=transport, base_url=base, timeout=60
            ) as client:
                return await client.request(method, path, **request)

        def ask(
            path: str,
            method: str = "POST",
            base: str = "http://localhost",
            **request: Any,
        ) -> httpx.Response:
            return asyncio.run(send(method, path, base, **request))

        return ask

    return make


@pytest.fixture
def ask(make_ask: Callable[..., Ask]) -> Ask:
    """Send a request to a server with the settings that it has by itself."""
    return make_ask()


@pytest.fixture
def serve(service: FakeService) -> Iterator[Callable[..., str]]:
    """Return a function that starts a server in a thread and returns its address."""
    with contextlib.ExitStack() as running:
        yield lambda **settings: running.enter_context(serving(service, **settings))
        service.released.set()


@pytest.fixture
def address(serve: Callable[..., str]) -> str:
    """Return the address of a server with the settings that it has by itself."""
    return serve()


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Return the lines that the server writes to its log."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("regard.serving")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture(scope="session")
def node_modules(node: str) -> Path:
    """Return the folder of node packages that package.json beside this file lists: `npm install`
    makes it.
    """
    if not (NODE_MODULES / "deepl-node").is_dir():
        pytest.skip(
            f"{NODE_MODULES} lacks clients: npm install in tests/serving, or set NODE_MODULES"
        )
    return NODE_MODULES
