"""The server on a cluster: replicas of the same application by Ray Serve, which spreads requests over them."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.common.errors import ModelFolderError, RegardError, UsageError, WorkerError
from regard.common.reading import is_runtime_file
from regard.runtime.model import RuntimeModel
from regard.serving.application import create_app
from regard.serving.cluster.cluster import LOCAL, cluster, cores_of
from regard.serving.cluster.sent_model import SentFiles
from regard.serving.models import Models, ServiceSettings
from regard.serving.server_settings import ServerSettings
from regard.serving.service import Pair
from regard.serving.supervisor import Say, listen

NAME = "regard"
"""Name of the application on the cluster; the same command replaces it, one replica after the other."""
ONGOING = 256
"""Requests that a replica works at together at most; the engine batches them."""
TARGET = 32
"""Requests that a replica should have in hand; with more, another replica is started, up to the most."""
_DRAIN_SECONDS = 2.0
_POLL_SECONDS = 0.2
_OWNER = b"regard serve"  # of the application: a key in the store of the cluster


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
    if address == LOCAL:
        port = _free_port(host, port)  # a cluster takes seconds to start
    cores = replicas.most * replicas.cores if address == LOCAL else None
    with _until_signal() as stop, cluster(address, cores) as ray:
        from ray import serve

        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # its import has set another level
        port = _start_serve(serve, host, port)
        if (missing := replicas.least * replicas.cores - cores_of(ray)) > 0:
            units = "core" if missing == 1 else "cores"
            say(f"the replicas wait for {missing} more {units}: add machines, or ask for fewer replicas")
        token = uuid.uuid4().bytes
        try:
            models = [SentFiles.put(ray, path) for path in paths]
            deployment = _deployment(
                serve,
                lambda: build_application(models, service_settings, server_settings, languages),
                server_settings.deadline + _DRAIN_SECONDS,
                replicas,
            )
            _deploy(serve, deployment.bind(), token)
            if _runs(serve, stop):
                count = f"{replicas.least} to {replicas.most}" if replicas.most > replicas.least else replicas.least
                say(f"replicas: {count}; listening at http://{host}:{port} (stop with Ctrl-C)")
            stop.wait()
        finally:
            _remove(serve, token)


def _free_port(host: str, port: int) -> int:
    """Return the port, or any free one for 0. Raises UsageError if another process listens there."""
    with contextlib.closing(listen(host, port)) as listener:
        return int(listener.getsockname()[1])


def _start_serve(serve: Any, host: str, port: int) -> int:
    """Start Ray Serve, or go on with the one that runs on the cluster. Returns its port.

    Raises UsageError if it listens elsewhere: it has one address for all of its applications.
    """
    client = serve.context._get_global_client(raise_if_no_controller_running=False)  # there is no public way
    if client is None:
        port = _free_port(host, port)
        serve.start(proxy_location="EveryNode", http_options={"host": host, "port": port})
        return port
    running = client.get_serve_details()["http_options"]
    if (running["host"], running["port"]) != (host, port or running["port"]):
        raise UsageError(
            f"{host}:{port}: Ray Serve of this cluster listens at {running['host']}:{running['port']} already, for all "
            "of its applications; give this as --host and --port, or end it (`serve shutdown`)"
        )
    return int(running["port"])


def _deploy(serve: Any, application: Any, token: bytes) -> None:
    """Begin to start the application, or to replace that of an earlier command. The token says whose it is."""
    from ray.exceptions import RayError
    from ray.experimental import internal_kv

    target = serve.RunTarget(application, name=NAME, route_prefix="/")
    try:
        serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)
    except RayError as problem:
        raise WorkerError(f"the replicas do not start: {getattr(problem, 'cause', problem)}") from None
    internal_kv._internal_kv_put(_OWNER, token)


def _runs(serve: Any, stop: threading.Event) -> bool:
    """Wait until every replica runs, or for `stop`: replicas that no machine has cores for would wait forever."""
    while not stop.wait(_POLL_SECONDS):
        state = serve.status().applications[NAME]
        if state.status == "RUNNING":
            return True
        if state.status == "DEPLOY_FAILED":
            texts = [state.message, *(deployment.message for deployment in state.deployments.values())]
            raise WorkerError(f"the replicas do not start: {' '.join(' '.join(texts).split())[-500:]}")
    return False


def _remove(serve: Any, token: bytes) -> None:
    """Remove the application, unless a later command has replaced it, and Ray Serve if it has no other."""
    from ray.exceptions import RayError
    from ray.experimental import internal_kv

    with contextlib.suppress(RayError):  # the cluster, or Ray Serve on it, may be gone
        applications = set(serve.status().applications)
        if NAME in applications:
            if internal_kv._internal_kv_get(_OWNER) != token:
                return
            serve.delete(NAME)  # its requests are finished first
        if applications <= {NAME}:
            serve.shutdown()  # else its ports would stay taken


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
    ModelFolderError.raise_all(causes)


def _deployment(serve: Any, application: Callable[[], Any], drain_seconds: float, replicas: Replicas) -> Any:
    """Return the deployment: what every replica runs, how many there are, and how long one may take to end."""

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
        graceful_shutdown_timeout_s=drain_seconds,
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
    service = Models(replace(service_settings, reload_seconds=0.0))  # what was sent does not change

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
