"""Run the server: open the models, listen, answer until a signal comes, finish what was begun, and end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from regard.common.errors import UsageError
from regard.serving.application import create_app
from regard.serving.calls import LOG
from regard.serving.connections import Connections
from regard.serving.models import Models, ServiceSettings
from regard.serving.security import HEAD_BYTES
from regard.serving.server_settings import ServerSettings
from regard.serving.service import Pair

CONNECTIONS = 2048
_ACCEPTED = 32
"""Connections that are taken at once, before any of those that wait too long is ended."""
_FILES = 96
"""Descriptors that are left for files and processes."""
Say = Callable[[str], None]


class _Server(uvicorn.Server):
    """Tells the service that the end is near as soon as a signal comes."""

    def __init__(self, config: uvicorn.Config, service: Models) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop listening, and let what was begun be finished."""
        self._service.drain()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen. The system may have more connections waiting than are taken at once (`backlog`)."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(CONNECTIONS)


def serve(
    paths: Sequence[Path],
    host: str,
    port: int,
    service_settings: ServiceSettings,
    server_settings: ServerSettings,
    languages: Sequence[Pair] = (),
    say: Say = print,
) -> None:
    """Serve models until SIGINT or SIGTERM. Raises RegardError for models, UsageError for the address."""
    sys.setswitchinterval(0.0005)  # a thread that computes lets others wait no longer

    async def run(listener: socket.socket) -> None:
        service = Models(service_settings, say)
        app = create_app(
            service, server_settings, queue_depth=lambda: sum(lines for lines, _ in service.backlog.values())
        )
        asyncio.get_running_loop().set_exception_handler(_RareErrors())
        await service.start(paths, languages)
        gc.freeze()  # what is there to the end need not be searched for garbage, while all others wait
        try:
            for model in service.models.values():
                pairs = ", ".join(" → ".join(filter(None, pair)) for pair in model.pairs if any(pair))
                facts = ", ".join([pairs or "languages unknown", *list(model.facts.values())[:2]])
                say(f"{model.name}: {model.kind} ({facts})")
            address, number = listener.getsockname()[:2]
            say(f"listening at http://{f'[{address}]' if ':' in address else address}:{number} (stop with Ctrl-C)")
            with _reloading(service):
                await _Server(server_config(app, server_settings), service).serve([listener])
        finally:
            try:
                await asyncio.sleep(0)  # at SIGINT, which uvicorn raises again, the next await is cancelled: this one
            finally:
                await service.close()

    with contextlib.closing(listen(host, port)) as listener:
        asyncio.run(run(listener))


def server_config(app: Any, settings: ServerSettings) -> uvicorn.Config:
    """Return how uvicorn runs the application."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the application has the middleware for them: by itself uvicorn believes this machine
        backlog=_ACCEPTED,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=math.ceil(settings.deadline) + 1,
        limit_concurrency=2 * CONNECTIONS,  # never reached: those that wait end before
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    most, of_address = _most_connections(), settings.waiting_connections
    Connections(most, of_address, settings.is_proxy, settings.write_timeout).attach(config)
    return config


def _most_connections() -> int:
    """Return how many connections there are descriptors for, after having raised their number as far as is allowed."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = CONNECTIONS + _FILES if hard == resource.RLIM_INFINITY else min(CONNECTIONS + _FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(16, most - _FILES)


class _RareErrors:
    """Handler of errors that the event loop finds: those of the system are logged once a second at most."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(problem := context.get("exception"), OSError):
            loop.default_exception_handler(context)
        elif loop.time() >= self._next:
            self._next = loop.time() + 1
            LOG.log(logging.ERROR, "%s: %s", context["message"], problem)


@contextlib.contextmanager
def _reloading(service: Models) -> Any:
    """Let SIGHUP load changed models again, on systems that have it."""
    number, loop, tasks = getattr(signal, "SIGHUP", None), asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def reload() -> None:
        tasks.add(task := loop.create_task(service.reload()))
        task.add_done_callback(tasks.discard)

    if number is not None:
        loop.add_signal_handler(number, reload)
    try:
        yield
    finally:
        if number is not None:
            loop.remove_signal_handler(number)


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen. Raises UsageError if that is not possible."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as problem:
        raise UsageError(f"--host {host}: not an address of this machine ({problem.strerror or problem})") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(CONNECTIONS)
    except OSError as problem:
        listener.close()
        raise UsageError(
            f"{host}:{port}: cannot listen there ({problem.strerror or problem}); choose another --port"
        ) from None
    listener.setblocking(False)
    return listener
