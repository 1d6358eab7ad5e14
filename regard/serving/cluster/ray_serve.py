"""Serve models on a cluster with Ray Serve, which runs replicas and distributes requests."""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.common.errors import ModelFolderError, RegardError, UsageError, WorkerError
from regard.common.reading import is_runtime_file
from regard.requests.server_settings import ServerSettings
from regard.runtime.model import RuntimeModel
from regard.serving.application import create_app
from regard.serving.cluster.cluster import LOCAL, cluster, cores_of, one_line
from regard.serving.cluster.model_transfer import SentFiles
from regard.serving.models import Models
from regard.serving.service import Pair
from regard.serving.supervisor import Say, listen

NAME = "regard"
"""Name of the application on the cluster; a later command replaces it."""
ONGOING = 256
"""Maximum number of concurrent requests of a replica; the engine batches them."""
TARGET = 32
"""Concurrent requests per replica above which Ray Serve starts another replica."""
_DRAIN_SECONDS = 2.0


@dataclass(frozen=True)
class Replicas:
    """Least and greatest number of replicas, and the cores of each."""

    least: int = 1
    most: int = 1
    cores: int = 1


@dataclass(frozen=True)
class ClusterServer:
    """A server that Ray runs: its models, their languages, its address, settings and replicas."""

    paths: Sequence[Path]
    languages: Sequence[Pair]
    host: str
    port: int
    settings: ServerSettings
    replicas: Replicas


def serve_on_cluster(address: str, server: ClusterServer, say: Say = print) -> None:
    """Serve models on a cluster until an exception such as KeyboardInterrupt, or the SystemExit
    that SIGTERM raises.

    Then open requests are finished, and the application is removed. Raises RegardError for unusable
    models, and UsageError for the address of the cluster or of the server.
    """
    _check(server.paths)
    replicas = server.replicas
    cores = replicas.most * replicas.cores if address == LOCAL else None
    with cluster(address, cores) as ray:
        from ray import serve

        # The import of `ray.serve` has set another level.
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        models = [SentFiles.put(ray, path) for path in server.paths]
        port = _start_serve(serve, server.host, server.port)
        missing = replicas.least * replicas.cores - cores_of(ray)
        if missing > 0:
            units = "core" if missing == 1 else "cores"
            say(
                f"the replicas wait for {missing} more {units}: add machines, or ask for fewer "
                "replicas"
            )

        def build() -> Any:
            return build_application(
                models,
                server.settings,
                server.languages,
            )

        drain_seconds = server.settings.deadline + _DRAIN_SECONDS
        deployment = _deployment(serve, build, drain_seconds, replicas)
        with _running(serve, deployment):
            count = str(replicas.least)
            if replicas.most > replicas.least:
                count = f"{replicas.least} to {replicas.most}"
            say(
                f"replicas: {count}; listening at http://{server.host}:{port} (stop with Ctrl-C)"
            )
            threading.Event().wait()


def _start_serve(serve: Any, host: str, port: int) -> int:
    """Start Ray Serve, or use the instance that runs on the cluster, and return its port.

    Port 0 stands for any free port. Raises UsageError if another process listens at the address, or
    if Ray Serve listens at another one: all its applications share a single address, which it does
    not report.
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

    At the end of the block the application is removed, unless a later command has replaced it. Ray
    Serve is shut down if it has no other application.
    """
    from ray.exceptions import RayError

    try:
        try:
            # This call blocks while no machine has cores for a replica.
            serve.run(deployment.bind(), name=NAME)
        except (RayError, RuntimeError, TimeoutError) as problem:
            raise WorkerError(
                f"the replicas do not start: {one_line(problem)}"
            ) from None
        yield
    finally:
        # The cluster, or Ray Serve on it, may have been shut down.
        with contextlib.suppress(RayError):
            application = serve.status().applications.get(NAME)
            if application and deployment.name in application.deployments:
                serve.delete(NAME)  # open requests are finished first
            if not serve.status().applications:
                serve.shutdown()  # to free its ports


def _check(paths: Sequence[Path]) -> None:
    """Raise ModelFolderError, with all causes, if a replica could not open the models."""
    causes = list[str]()
    for path in paths:
        try:
            if is_runtime_file(path):
                RuntimeModel(path)
            else:
                from regard.model_folder import load_folder  # late: it imports PyTorch

                load_folder(path)
        except RegardError as problem:
            causes += problem.causes
    ModelFolderError.raise_all(causes)


def _deployment(
    serve: Any, application: Callable[[], Any], drain_seconds: float, replicas: Replicas
) -> Any:
    """Return the deployment of `application`.

    `drain_seconds`: time in which a replica that is stopped may finish its open requests.
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
        # A unique name distinguishes the replicas of this command from those of another.
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
    settings: ServerSettings,
    languages: Sequence[Pair],
) -> Any:
    """Create the application of one replica, which opens the models at its start and closes them at
    its end.
    """
    # The files that were sent to the machine do not change.
    service = Models(settings.with_values(reload_seconds=0.0))

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        with contextlib.ExitStack() as stack:
            paths = [stack.enter_context(model.path_here()) for model in models]
            await service.start(paths, languages)
            try:
                yield
            finally:
                service.drain()
                await service.close()

    return create_app(service, settings, lifespan=lifespan)
