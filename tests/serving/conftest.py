"""The server over a fake service: called in the process, or by its address on the loopback
interface.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fake import Ask, FakeService
from helpers.time_limits import wait_until

from regard.serving.application import create_app
from regard.serving.crash_table import CallTable
from regard.serving.server_settings import ServerSettings
from regard.serving.serving_process import server_config
from regard.serving.supervisor import listen


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
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(**settings: Any) -> str:
        given = ServerSettings(**settings)
        server = uvicorn.Server(server_config(create_app(service, given), given))
        thread = threading.Thread(target=server.run, args=([listen("127.0.0.1", 0)],))
        thread.start()
        running.append((server, thread))
        wait_until(lambda: server.started, "the server starts")
        port = server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    yield start
    service.released.set()
    for server, _ in running:
        server.should_exit = True
    for _, thread in running:
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def address(serve: Callable[..., str]) -> str:
    """Return the address of a server with the settings that it has by itself."""
    return serve()


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Return the lines that the server writes to its log."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.getLogger("regard.serving")
    handler = Keep()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Return the folder of node packages that package.json beside this file lists: `npm install`
    makes it.
    """
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder = Path(
        os.environ.get("NODE_MODULES", Path(__file__).parent / "node_modules")
    )
    missing = [
        name
        for name in ("libretranslate", "deepl-node")
        if not (folder / name).is_dir()
    ]
    if missing:
        pytest.skip(
            f"{folder} lacks {', '.join(missing)}: npm install in tests/serving, or set NODE_MODULES"
        )
    return folder
