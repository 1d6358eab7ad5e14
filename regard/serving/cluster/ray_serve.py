"""The server on a cluster: replicas of the same application by Ray Serve, which spreads requests
over them.
"""

from __future__ import annotations

import contextlib
import logging
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
from regard.serving.cluster.cluster import LOCAL, cluster, cores_of, one_line
from regard.serving.cluster.model_transfer import SentFiles
from regard.serving.models import Models, ServiceSettings
from regard.serving.server_settings import ServerSettings
from regard.serving.service import Pair
from regard.serving.supervisor import Say, listen

NAME = "regard"
"""Name of the application on the cluster; the same command replaces it."""
ONGOING = 256
"""Requests that a replica works at together at most; the engine batches them."""
TARGET = 32
"""Requests that a replica should have in hand; with more, another replica is started, up to the
most.
"""
_DRAIN_SECONDS = 2.0


@dataclass(frozen=True)
class Replicas:
    """Numbers of replicas, least and most, and the cores that each takes."""

    least: int = 1
    most: int = 1
    cores: int = 1


def serve_on_cluster(  # noqa: PLR0913 - the settings of a server, and of its cluster
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
    """Serve models on a cluster until an exception, such as KeyboardInterrupt, or SystemExit that
    SIGTERM raises.

    Finishes what was begun, then removes the application. Raises RegardError for models, UsageError
    for the address of the cluster or of the server.
    """
    _check(paths)
    cores = replicas.most * replicas.cores if address == LOCAL else None
    with cluster(address, cores) as ray:
        from ray import serve

        # Its import has set another level.
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        models = [SentFiles.put(ray, path) for path in paths]
        port = _start_serve(serve, host, port)
        if (missing := replicas.least * replicas.cores - cores_of(ray)) > 0:
            units = "core" if missing == 1 else "cores"
            say(
                f"the replicas wait for {missing} more {units}: add machines, or ask for fewer "
                "replicas"
            )
        deployment = _deployment(
            serve,
            lambda: build_application(
                models, service_settings, server_settings, languages
            ),
            server_settings.deadline + _DRAIN_SECONDS,
            replicas,
        )
        with _running(serve, deployment):
            count = (
                f"{replicas.least} to {replicas.most}"
                if replicas.most > replicas.least
                else replicas.least
            )
            say(
                f"replicas: {count}; listening at http://{host}:{port} (stop with Ctrl-C)"
            )
            threading.Event().wait()


def _start_serve(serve: Any, host: str, port: int) -> int:
    """Start Ray Serve, or go on with the one that runs on the cluster. Returns its port, any free
    one for 0.

    Raises UsageError if another process listens there, or if Ray Serve listens elsewhere: it has
    one address for all of its applications, which it does not tell.
    """
    is_running = bool(serve.status().proxies)
    try:
        with contextlib.closing(listen(host, port)) as listener:
            port = listener.getsockname()[1]
    except UsageError:
        if not is_running:
            raise
        return port
    if is_running:
        raise UsageError(
            f"{host}:{port}: Ray Serve of this cluster runs already, and listens elsewhere for all "
            "of its applications; give its address as --host and --port, or end it (`serve "
            "shutdown`)"
        )
    serve.start(proxy_location="EveryNode", http_options={"host": host, "port": port})
    return port


@contextlib.contextmanager
def _running(serve: Any, deployment: Any) -> Iterator[None]:
    """Start the application, or replace that of an earlier command, and wait until every replica
    runs.

    Removes it at the end of the block, unless a later command has replaced it, and Ray Serve if it
    has no other.
    """
    from ray.exceptions import RayError

    try:
        try:
            # Waits as long as no machine has cores for a replica.
            serve.run(deployment.bind(), name=NAME)
        except (RayError, RuntimeError, TimeoutError) as problem:
            raise WorkerError(
                f"the replicas do not start: {one_line(problem)}"
            ) from None
        yield
    finally:
        # The cluster, or Ray Serve on it, may be gone.
        with contextlib.suppress(RayError):
            application = serve.status().applications.get(NAME)
            if application and deployment.name in application.deployments:
                serve.delete(NAME)  # its requests are finished first
            if not serve.status().applications:
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


def _deployment(
    serve: Any, application: Callable[[], Any], drain_seconds: float, replicas: Replicas
) -> Any:
    """Return the deployment: what every replica runs, how many there are, and how long one may take
    to end.
    """

    @serve.ingress(application)
    class Regard:
        """One replica."""

    options: dict[str, Any] = {"num_replicas": replicas.least}
    if replicas.most > replicas.least:
        sizes = {"min_replicas": replicas.least, "max_replicas": replicas.most}
        options = {"autoscaling_config": {**sizes, "target_ongoing_requests": TARGET}}
    return serve.deployment(
        Regard,
        # Tells the replicas of one command from those of another.
        name=f"Regard-{uuid.uuid4().hex}",
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
    """Return the application of one replica, which opens the models when it starts and closes them
    when it ends.
    """
    # What was sent does not change.
    service = Models(replace(service_settings, reload_seconds=0.0))

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        with contextlib.ExitStack() as stack:
            await service.start(
                [stack.enter_context(model.path_here()) for model in models], languages
            )
            try:
                yield
            finally:
                service.drain()
                await service.close()

    return create_app(service, server_settings, lifespan=lifespan)
