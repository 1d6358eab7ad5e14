"""The serving process, which runs the application on the socket of its supervisor."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import math
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from regard.common.counting import counted
from regard.common.errors import RegardError, UsageError
from regard.requests.server_settings import ServerSettings
from regard.serving.application import create_app
from regard.serving.calls import LOG
from regard.serving.child_process import BEAT_SECONDS, shared_socket, status_pipe
from regard.serving.connections import Connections
from regard.serving.crash_table import CallTable
from regard.serving.models import Models
from regard.serving.pytorch_process import PyTorchProcess
from regard.serving.security import HEAD_BYTES
from regard.serving.service import Pair
from regard.serving.supervisor import CONNECTIONS

_ACCEPTED = 32
"""Connections that are accepted in one iteration, before excess ones are closed."""
_FILES = 96
"""File descriptors that are reserved for files and processes."""
_LAST_SECONDS = 0.1
"""Seconds after the shutdown begins in which new clients may still send their request."""
Report = Callable[..., None]


def main() -> None:
    """Read the configuration from the first line of standard input, and serve until its end."""
    # The event loop must not wait the default of 5 ms for threads that compute.
    sys.setswitchinterval(0.0005)
    report = status_pipe()
    supervisor = os.getppid()
    configuration = json.loads(sys.stdin.buffer.readline())
    try:
        asyncio.run(serve(configuration, report))
    except RegardError as problem:
        report(error=[type(problem).__name__, *problem.causes])
        sys.exit(1)
    if os.getppid() != supervisor:  # the supervisor was killed and left its folder
        shutil.rmtree(Path(configuration["calls"]).parent, ignore_errors=True)
    os._exit(0)  # a normal exit would wait for threads whose results nobody needs


async def serve(configuration: Mapping[str, Any], report: Report) -> None:
    """Open the models and serve them.

    Raises RegardError for unusable settings, and at the first start (`strict`) for unusable models.
    """
    level = logging.WARNING if configuration["quiet"] else logging.INFO
    logging.basicConfig(
        format="%(asctime)s %(message)s", level=level, stream=sys.stderr
    )
    settings = ServerSettings.parse(configuration["settings"], "regard serve")
    paths = [Path(path) for path in configuration["models"]]
    is_first = configuration["strict"]
    pairs, notes = parse_pairs(configuration["languages"], len(paths))
    pytorch = PyTorchProcess(
        **configuration["pytorch"], start=lambda: report(pytorch=True)
    )
    calls = Path(configuration["calls"])
    service = Models(
        settings,
        lambda text: report(say=text),
        pytorch.open,
        calls.with_name("descriptions"),
    )
    app = create_app(service, settings, calls=CallTable(calls))
    server = Server(server_config(app, settings), service, report)

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_LoopErrorHandler())
    threading.Thread(
        target=_read_commands,
        args=(server, loop, configuration["end_seconds"], calls.parent),
        daemon=True,
    ).start()
    beating = loop.create_task(_beat(report))
    try:
        await service.start(paths, pairs, is_first)
        # Exempt these long-lived objects from garbage collection, which pauses all requests.
        gc.freeze()
        if is_first:
            for note in [*notes, *_descriptions(service)]:
                report(say=note)
        await server.serve([shared_socket(configuration["listener"])])
    finally:
        beating.cancel()
        await service.close()


class Server(uvicorn.Server):
    """A uvicorn server that reports when it listens, and shuts down gracefully."""

    def __init__(self, config: uvicorn.Config, service: Models, report: Report) -> None:
        super().__init__(config)
        self.service = service
        self._report = report

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and report it."""
        await super().startup(sockets)
        # uvicorn's `backlog` is both this queue and the number that is accepted at once.
        for listener in sockets or ():
            listener.listen(CONNECTIONS)
        self._report(ready=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, wait for the requests of clients that have just connected, and close idle
        connections.
        """
        for server in self.servers:
            server.close()
        await asyncio.sleep(_LAST_SECONDS)
        await super().shutdown(sockets)

    def stop(self) -> None:
        """Begin the shutdown; open requests are finished."""
        self.service.drain()
        self.should_exit = True


def _read_commands(
    server: Server, loop: asyncio.AbstractEventLoop, end_seconds: float, folder: Path
) -> None:
    """Reload changed models at each line of standard input, and shut down at its end.

    If the shutdown takes longer than `end_seconds`, the process exits. `folder`: temporary folder
    of the supervisor.
    """
    for _ in sys.stdin.buffer:
        asyncio.run_coroutine_threadsafe(server.service.reload(), loop)
    if server.started:
        loop.call_soon_threadsafe(server.stop)
        time.sleep(end_seconds)
    else:  # the supervisor was killed during the start of this process
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


async def _beat(report: Report) -> None:
    """Send a heartbeat every second, as long as the event loop is not blocked."""
    while True:
        report(beat=True)
        await asyncio.sleep(BEAT_SECONDS)


def _descriptions(service: Models) -> list[str]:
    """Return a line about each model."""
    lines = list[str]()
    for model in service.models.values():
        pairs = [" → ".join(filter(None, pair)) for pair in model.pairs if any(pair)]
        facts = [*(pairs or ["languages unknown"]), *list(model.facts.values())[:2]]
        lines.append(f"{model.name}: {model.kind} ({', '.join(facts)})")
    return lines


def parse_pairs(languages: Sequence[str], models: int) -> tuple[list[Pair], list[str]]:
    """Parse the languages of each model from texts such as ko,en; return them with notes for the
    user.

    Raises UsageError.
    """
    # Imported late, since most models name their languages.
    from regard.data.languages import describe_codes, parse_languages

    if len(languages) > models:
        raise UsageError(
            f"--languages: given {len(languages)} times, for {counted(models, 'model')}; "
            "give it once for each"
        )
    pairs = list[Pair]()
    notes = list[str]()
    for text in languages:
        parsed = parse_languages(text, f"--languages {text}", captions="," not in text)
        pairs.append(parsed.pair)
        notes += describe_codes(text, parsed)
    return pairs, notes


def server_config(app: Any, settings: ServerSettings) -> uvicorn.Config:
    """Return uvicorn's configuration for the application."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # The application has a middleware for proxies; uvicorn would trust any local client.
        proxy_headers=False,
        backlog=_ACCEPTED,
        # Never reached, because `Connections` closes idle connections earlier.
        timeout_keep_alive=60,
        timeout_graceful_shutdown=math.ceil(settings.deadline) + 1,
        # Never reached, because `Connections` closes waiting connections earlier.
        limit_concurrency=2 * CONNECTIONS,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    Connections(_most_connections(), settings).attach(config)
    return config


def _most_connections() -> int:
    """Raise the limit on file descriptors as far as allowed, and return the number of connections
    that it suffices for.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = CONNECTIONS + _FILES
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(16, most - _FILES)


class _LoopErrorHandler:
    """Exception handler of the event loop; it logs at most one OSError a second."""

    def __init__(self) -> None:
        self._next_log = 0.0

    def __call__(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        problem = context.get("exception")
        if not isinstance(problem, OSError):
            loop.default_exception_handler(context)
        elif loop.time() >= self._next_log:
            self._next_log = loop.time() + 1
            LOG.log(logging.ERROR, "%s: %s", context["message"], problem)
