"""The server on a cluster: replicas of the same application by Ray Serve, which spreads requests over them."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import ModelFolderError, RegardError, WorkerError
from regard.runtime.model import RuntimeModel, is_runtime_file
from regard.scale.cluster import LOCAL, cluster, cores_of
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
_POLL_SECONDS = 0.2
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
    local = replicas.most * replicas.cores if address == LOCAL else None
    with _until_signal() as stop, cluster(address, local) as ray:
        from ray import serve

        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # its import has set another level
        models = [SentFiles.put(ray, path) for path in paths]
        if (missing := replicas.least * replicas.cores - cores_of(ray)) > 0:
            cores = "core" if missing == 1 else "cores"
            say(f"the replicas wait for {missing} more {cores}: add machines, or ask for fewer replicas")
        deployment = _deployment(serve, models, service_settings, server_settings, languages, replicas)
        serve.start(proxy_location="EveryNode", http_options={"host": host, "port": port})
        try:
            _start(serve, deployment.bind(), stop)
            count = f"{replicas.least} to {replicas.most}" if replicas.most > replicas.least else f"{replicas.least}"
            if not stop.is_set():
                say(f"replicas: {count}; listening at http://{host}:{port} (stop with Ctrl-C)")
            stop.wait()
        finally:
            serve.shutdown() if address == LOCAL else serve.delete(NAME)


def _start(serve: Any, application: Any, stop: threading.Event) -> None:
    """Wait until every replica runs, or for `stop`: replicas that no machine has cores for would wait forever."""
    target = serve.RunTarget(application, name=NAME, route_prefix="/")
    serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)
    while not stop.wait(_POLL_SECONDS):
        state = serve.status().applications.get(NAME)
        if state is not None and state.status == "RUNNING":
            return
        if state is not None and state.status == "DEPLOY_FAILED":
            raise WorkerError(f"the replicas do not start: {_reason(state)}")


def _check(paths: Sequence[Path]) -> None:
    """Raise ModelFolderError, with all causes, for models that no replica could open."""
    causes = list[str]()
    for path in paths:
        try:
            if is_runtime_file(path):
                RuntimeModel(path)
            else:
                from regard.model_folder import load_folder  # late: it needs PyTorch

                load_folder(path)
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


def _reason(state: Any) -> str:
    """Return what Ray Serve says of an application and its deployments."""
    texts = [deployment.message for deployment in state.deployments.values()]
    return " ".join(" ".join([state.message, *texts]).split())[-500:]


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
