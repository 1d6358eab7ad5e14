"""Connection to a Ray cluster, either a local one or one that already runs."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from regard.common.errors import UsageError, WorkerError
from regard.common.lazy import needs_extra
from regard.common.plugins import VARIABLE

LOCAL = "local"
_CONNECT_SECONDS = 10  # timeout of a machine that does not answer
_WORKER_SECONDS = 90  # timeout of a process that is started on a machine


@contextlib.contextmanager
def cluster(address: str, cores: int | None = None) -> Iterator[Any]:
    """Connect to the cluster at `address` (HOST:PORT), or start one with `cores` on this machine
    if the address is "local".

    Yields the module `ray`. At the end of the block a local cluster is shut down, another one is
    left running. Raises MissingExtra without Ray, and UsageError if nothing answers at the address
    or if its machines have other versions.
    """
    ray = _import_ray()
    options: dict[str, Any] = {"num_cpus": cores, "include_dashboard": False}
    if address != LOCAL:
        _check_address(address)
        options = {}
    with (
        tempfile.TemporaryDirectory(prefix="regard-") as empty,
        warnings.catch_warnings(),
        # Ray reports lost workers on standard output, among the results.
        contextlib.redirect_stdout(sys.stderr),
    ):
        # These warnings are meant for authors of Ray programs.
        warnings.filterwarnings("ignore", module=r"ray\.")
        # Without an empty folder, workers would import modules of the current one.
        # Those of another cluster have the environment of whoever started it.
        plugins = {VARIABLE: os.environ.get(VARIABLE, "")}
        options["runtime_env"] = {"working_dir": empty, "env_vars": plugins}
        try:
            _connect(ray, address, options)
            if address != LOCAL:
                _check_versions(ray, address)
            yield ray
        finally:
            ray.shutdown()


def cores_of(ray: Any) -> int:
    """Return the number of cores that the machines of the cluster offer."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def one_line(problem: Exception) -> str:
    """Return the message of a Ray error in one line; a long one is cut to its end, which names the
    cause.
    """
    return " ".join(str(problem).split())[-500:]


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    with needs_extra("scale", "`cluster=`", ["ray"]):
        import ray
    logging.getLogger("ray").setLevel(logging.ERROR)  # by default it logs every step
    return ray


def _check_address(address: str) -> None:
    """Raise UsageError if an address is not HOST:PORT, or if nothing listens there; Ray itself
    would retry for minutes.
    """
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and int(port) < 1 << 16):
        raise UsageError(
            f"`cluster={address}`: wanted local, or HOST:PORT of a running Ray cluster, such as "
            "10.0.0.1:6379"
        )
    try:
        socket.create_connection(
            (host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS
        ).close()
    except OSError:
        raise UsageError(
            f"`cluster={address}`: no cluster answers there; start the cluster (`ray start --head "
            "--port 6379` on one machine, `ray start --address HOST:6379` on the others), or give "
            "`cluster=local`"
        ) from None


def _connect(ray: Any, address: str, options: dict[str, Any]) -> None:
    """Connect to a cluster; raises UsageError with the cause, such as another version of Python or
    Ray.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, log_to_driver=False, configure_logging=False, **options)
    except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as problem:
        raise UsageError(
            f"`cluster={address}`: cannot connect ({one_line(problem)})"
        ) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            # Ray installs a handler that exits with another status.
            signal.signal(signal.SIGTERM, handler)


def _check_versions(ray: Any, address: str) -> None:
    """Raise UsageError, with all causes, if a machine lacks this version of Regard."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def version() -> str:  # pickled by value, because a machine may lack Regard
        try:
            from regard.common.version import __version__
        except ImportError:
            return "no regard"
        return f"regard {__version__}"

    task = ray.remote(num_cpus=0)(version)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    strategies = [
        NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes
    ]
    try:
        answers = [
            task.options(scheduling_strategy=strategy).remote()
            for strategy in strategies
        ]
        versions = ray.get(answers, timeout=_WORKER_SECONDS)
    except ray.exceptions.RayError as problem:
        raise WorkerError(
            f"`cluster={address}`: a machine does not start a worker: {one_line(problem)}"
        ) from None
    causes = [
        f"machine {node['NodeManagerAddress']}: has {answer}, wanted {version()} as here"
        for node, answer in zip(nodes, versions, strict=True)
        if answer != version()
    ]
    UsageError.raise_all(
        dict.fromkeys(causes),
        f"`cluster={address}`: install the same versions on every machine",
    )
