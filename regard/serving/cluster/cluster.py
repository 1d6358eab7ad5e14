"""Connection to a Ray cluster: one of this machine, or one that runs already, with errors in sentences."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.common.errors import UsageError, WorkerError
from regard.common.lazy import needs_extra

LOCAL = "local"
_CONNECT_SECONDS = 10  # until a machine answers
_WORKER_SECONDS = 90  # until a process on it has started


@contextlib.contextmanager
def cluster(address: str, cores: int | None = None) -> Iterator[Any]:
    """Connect to the cluster at `address`, HOST:PORT, or start one of `cores` on this machine if it is "local".

    Yields the module `ray`. Leaving the block ends the local cluster, or leaves the other one as it was. Raises
    MissingExtra without Ray, UsageError if nothing answers at the address or runs other versions.
    """
    ray = _import_ray()
    _check_address(address)
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "configure_logging": False}
    with contextlib.ExitStack() as stack:
        if address == LOCAL:
            folder = stack.enter_context(_temporary_folder())
            options |= {"num_cpus": cores, "_node_ip_address": "127.0.0.1", "_temp_dir": folder}
            options["include_dashboard"] = False
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", module=r"ray\.")  # advice for whoever writes programs for Ray
        stack.callback(ray.shutdown)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # Ray tells of lost workers there, amid results
        if not address.startswith("ray://"):  # so that Ray does not put the current folder on the path of workers
            outside = {"_runtime_env_has_working_dir": lambda _: True}
            options["job_config"] = type("JobConfig", (ray.job_config.JobConfig,), outside)()
        with _private(ray) if address == LOCAL else contextlib.nullcontext():
            _connect(ray, address, options)
        _check_versions(ray, address)
        yield ray


@contextlib.contextmanager
def _temporary_folder() -> Iterator[str]:
    """Make a folder for the files of a local cluster, removed at the end of the block, or of this process if killed."""
    folder = tempfile.mkdtemp(prefix="regard-")
    command = [sys.executable, "-I", "-S", "-c", _REMOVER, folder]
    remover = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        assert remover.stdin is not None, "it was asked for"
        remover.stdin.close()
        remover.wait()


_REMOVER = """
import glob, os, shutil, signal, sys, time
sys.stdin.read()
for _ in range(60):
    for file in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            process = int(file.split("/")[2])
            if process != os.getppid() and os.readlink(file).startswith(sys.argv[1] + "/"):
                os.kill(process, signal.SIGKILL)
        except OSError:
            pass
    if not os.path.exists(sys.argv[1]):
        break
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(1)
"""
"""A program that waits until its parent has ended or is done, then ends the processes of Ray, which have their logs
open in its folder (some outlive a parent that was killed; the parent itself goes on), and removes the folder."""


@contextlib.contextmanager
def _private(ray: Any) -> Iterator[None]:
    """Start a local cluster at the loopback address, as Ray does by itself on macOS, with files for this user alone."""
    constants, mask = ray._private.ray_constants, os.umask(0o077)
    is_open, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # for the processes of the cluster
    try:
        with contextlib.suppress(OSError):
            (Path.home() / ".ray" / "auth_token").chmod(0o600)  # of an earlier cluster
        yield
    finally:
        os.umask(mask)
        constants.ENABLE_RAY_CLUSTER = is_open
        os.environ.pop("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")


def cores_of(ray: Any) -> int:
    """Return the number of cores that the machines of the cluster offer."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a warning at each start
    with needs_extra("scale", "`cluster=`", ["ray"]), _quiet():
        import ray
    for name in ("ray", "ray._private.authentication.authentication_token_setup"):  # it would tell every step
        logging.getLogger(name).setLevel(logging.ERROR)
    return ray


def _check_address(address: str) -> None:
    """Raise UsageError for what is neither "local" nor HOST:PORT."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != LOCAL and not (host and port.isdecimal() and int(port) < 1 << 16):
        raise UsageError(
            f"`cluster={address}`: wanted local, or HOST:PORT of a running Ray cluster, such as 10.0.0.1:6379"
        )


def _connect(ray: Any, address: str, options: dict[str, Any]) -> None:
    """Connect, or raise UsageError that says why not."""
    if address != LOCAL and not _answers(address):
        raise UsageError(
            f"`cluster={address}`: no cluster answers there; start the cluster (`ray start --head --port 6379` on one "
            "machine, `ray start --address HOST:6379` on the others), or give `cluster=local`"
        )
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with _quiet():
            ray.init(**options)
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as problem:
        reason = " ".join(str(problem).split())
        if "ersion" in reason:
            raise UsageError(
                f"`cluster={address}`: its machines have other versions ({reason[:300]}); install the same everywhere"
            ) from None
        raise UsageError(f"`cluster={address}`: cannot connect ({reason[:300]})") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():  # Ray sets its own
                signal.signal(number, handler)


def _answers(address: str) -> bool:
    """Return whether a gRPC server listens at HOST:PORT, as Ray has; Ray itself would try for minutes.

    Such a server sends the frame SETTINGS (type 4) first (RFC 9113, section 3.4).
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            head = b""
            while len(head) < 4 and (part := connection.recv(4 - len(head))):
                head += part
            return head[3:] == b"\x04"
    except OSError:
        return False


def _check_versions(ray: Any, address: str) -> None:
    """Raise UsageError, with all causes, if a machine of the cluster has another version of Regard or none.

    Ray itself refuses other versions of Python and of Ray.
    """
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    if address == LOCAL:
        return
    nodes = [node for node in ray.nodes() if node["Alive"]]
    if not nodes:
        raise UsageError(f"`cluster={address}`: it has no machine that runs")

    def version() -> str:  # sent as it is: Regard may not be there
        try:
            from regard.common.version import __version__
        except ImportError:
            return "not at all"
        return __version__

    ask, causes, asked = ray.remote(num_cpus=0)(version), list[str](), list[tuple[str, Any]]()
    for node in nodes:
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked.append((node["NodeManagerAddress"], ask.options(scheduling_strategy=strategy).remote()))
    for host, answer in asked:
        try:
            there = ray.get(answer, timeout=_WORKER_SECONDS)
        except RayError as problem:
            reason = " ".join(str(problem).split())[-200:]
            raise WorkerError(f"machine {host} of the cluster {address} does not start a worker: {reason}") from None
        if there != version():
            causes.append(f"machine {host}: has regard {there}, wanted {version()} as here")
    UsageError.raise_all(dict.fromkeys(causes), f"`cluster={address}`: install the same versions on every machine")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep warnings of Ray about itself off the terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
