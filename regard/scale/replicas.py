"""The server on a cluster: replicas of the same application by Ray Serve, which spreads requests over them."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import ModelFolderError, RegardError, WorkerError
from regard.runtime.model import RuntimeModel, is_runtime_file
from regard.scale.cluster import LOCAL, cluster
from regard.scale.sent_model import SentFiles
from regard.serving.application import create_app
from regard.serving.process_service import ProcessService, ServiceSettings
from regard.serving.server import listen
from regard.serving.server_settings import ServerSettings
from regard.serving.service import Pair

NAME = "regard"
"""Name of the application on the cluster; the same command replaces it, one replica after the other."""
ONGOING = 256
"""Requests that a replica works at together at most; the engine batches them."""
TARGET = 32
"""Requests that a replica should have in hand; with more, another replica is started, up to the most."""
_DRAIN_SECONDS = 2.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Replicas:
    """Numbers of replicas, least and most, and the cores that each takes."""

    least: int = 1
    most: int = 1
    cores: int = 1


def serve_on_cluster(
    address: str,
    paths: Sequence[Path],
    host: str,
    port: int,
    service_settings: ServiceSettings,
    server_settings: ServerSettings,
    languages: Sequence[Pair] = (),
    replicas: Replicas = Replicas(),
    say: Say = print,
) -> None:
    """Serve models on a cluster until SIGINT or SIGTERM, then finish what was begun and remove the application.

    Raises RegardError for models, UsageError for the address of the cluster or of the server.
    """
    _check(paths)
    with contextlib.closing(listen(host, port)) as listener:  # is this port free? Another process will listen there
        port = listener.getsockname()[1]
    cores = replicas.most * replicas.cores if address == LOCAL else None
    with _until_signal() as stop, cluster(address, cores) as ray:
        from ray import serve

        models = [SentFiles.put(ray, path) for path in paths]
        deployment = _deployment(serve, models, service_settings, server_settings, languages, replicas)
        serve.start(proxy_location="EveryNode", http_options={"host": host, "port": port})
        try:
            try:
                serve.run(deployment.bind(), name=NAME, route_prefix="/")
            except RuntimeError as problem:
                raise WorkerError(f"the replicas do not start: {_reason(serve, problem)}") from None
            count = f"{replicas.least} to {replicas.most}" if replicas.most > replicas.least else f"{replicas.least}"
            say(f"replicas: {count}; listening at http://{host}:{port} (stop with Ctrl-C)")
            stop.wait()
        finally:
            serve.shutdown() if address == LOCAL else serve.delete(NAME)


def _check(paths: Sequence[Path]) -> None:
    """Raise ModelFolderError, with all causes, for models that no replica could open."""
    causes = list[str]()
    for path in paths:
        try:
            if is_runtime_file(path):
                RuntimeModel(path)
            else:
                from regard.model_folder import load_settings  # late: it needs PyTorch

                load_settings(path)
        except RegardError as problem:
            causes += problem.causes
    if causes:
        raise ModelFolderError(*causes)


def _deployment(
    serve: Any,
    models: Sequence[SentFiles],
    service_settings: ServiceSettings,
    server_settings: ServerSettings,
    languages: Sequence[Pair],
    replicas: Replicas,
) -> Any:
    """Return the deployment: what every replica runs, and how many there are."""

    def application() -> Any:
        return build_application(models, service_settings, server_settings, languages)

    @serve.ingress(application)
    class Regard:
        """One replica."""

    options: dict[str, Any] = {"num_replicas": replicas.least}
    if replicas.most > replicas.least:
        sizes = {"min_replicas": replicas.least, "max_replicas": replicas.most}
        options = {"autoscaling_config": {**sizes, "target_ongoing_requests": TARGET}}
    return serve.deployment(
        Regard,
        name="Regard",
        max_ongoing_requests=ONGOING,
        ray_actor_options={"num_cpus": replicas.cores},
        graceful_shutdown_timeout_s=server_settings.deadline + _DRAIN_SECONDS,
        health_check_period_s=2,
        health_check_timeout_s=30,
        **options,
    )


def build_application(
    models: Sequence[SentFiles],
    service_settings: ServiceSettings,
    server_settings: ServerSettings,
    languages: Sequence[Pair],
) -> Any:
    """Return the application of one replica, which opens the models when it starts and closes them when it ends."""
    service = ProcessService(replace(service_settings, reload_seconds=0.0))  # what was sent does not change

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        with contextlib.ExitStack() as stack:
            await service.start([stack.enter_context(model.path_here()) for model in models], languages)
            try:
                yield
            finally:
                service.drain()
                await service.close()

    return create_app(service, server_settings, lifespan=lifespan)


def _reason(serve: Any, problem: Exception) -> str:
    """Return what Ray Serve says of the application, or else the problem."""
    with contextlib.suppress(Exception):
        application = serve.status().applications[NAME]
        texts = [deployment.message for deployment in application.deployments.values()]
        return " ".join(" ".join([application.message, *texts]).split())[-500:]
    return " ".join(str(problem).split())[-300:]


@contextlib.contextmanager
def _until_signal() -> Iterator[threading.Event]:
    """Set an event at SIGINT and SIGTERM as long as the block runs; what they do otherwise, they do at its end."""
    stop, numbers = threading.Event(), list[int]()

    def note(number: int, _: Any) -> None:
        numbers.append(number)
        stop.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if numbers:
            signal.raise_signal(numbers[0])
