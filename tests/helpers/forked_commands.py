"""Processes of the command that start at once: forked from a process that has PyTorch loaded.

Importing PyTorch takes seconds in each of the hundreds of processes that tests start. On Linux
`subprocess.Popen` starts those of PREPARED by asking a server, a process that has imported the
libraries but nothing of Regard, to fork. What it forks has the arguments, environment, folder and
files of the call, imports Regard itself, and is a child of the test like any other: it is waited
for, signalled and killed as usual. Other commands, and calls with what cannot be passed on, start
as always; with FORKED=0 all do.

Run as a script with the number of a socket, this file is the server.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = (
    "regard.evaluation.speed",
    "regard.learn.lab.worker",
    "regard.serving.pytorch_process",
    "regard.serving.export_process",
)
"""Modules that `module_command` starts and that import PyTorch."""
PREPARED = re.compile(
    r"-m regard(?! serve\b)( .*)?"
    rf"|-c .*\bfrom (?:{'|'.join(map(re.escape, MODULES))}) import .*"
    rf"|{re.escape(str(Path(__file__).with_name('cached_folders.py')))} .*",
    re.DOTALL,
)
"""How the arguments of Python begin in the commands that are forked; a server loads no PyTorch."""
STARTERS = ("compare", "lab")
"""Commands that start such processes themselves: these are forked too."""
LIBRARIES = [
    *("torch._dynamo", "torch.distributed.tensor"),
    *("numpy", "pydantic", "typer", "PIL.Image", "sacrebleu"),
]
READ_AT_START = (
    *("PYTHON", "OMP_", "MKL_", "KMP_", "LD_", "LC_", "LANG", "CUDA_", "TORCH", "LRU_"),
    *("ONEDNN", "OPENBLAS"),
)
"""Beginnings of the names of variables that Python and libraries read when they are loaded: each
set has its server.
"""
SEARCHED = "PYTHONPATH", "PYTHONSAFEPATH"
"""Those of them that are set anew in each process."""
LARGEST = 2**17
"""Bytes of a call; larger ones start as always."""
# PR_SET_CHILD_SUBREAPER of prctl: a process whose parent has ended becomes a child of this one.
ADOPT = 36


class Server:
    """A process that forks others, known by the socket that it reads; this one is its parent."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def start(self, call: bytes, files: Iterable[int]) -> int:
        """Start a process with these standard files as a child of this one; return its number."""
        prctl = ctypes.CDLL(None).prctl
        prctl(ADOPT, 1, 0, 0, 0)
        try:
            socket.send_fds(self._socket, [call], list(files))
            return int(self._socket.recv(64))
        finally:
            prctl(ADOPT, 0, 0, 0, 0)


def _start_server(environment: Mapping[str, str]) -> Server:
    own, other = socket.socketpair(type=socket.SOCK_SEQPACKET)
    command = [sys.executable, str(Path(__file__)), str(other.fileno())]
    process = _Popen(
        command, pass_fds=[other.fileno()], env=environment, stdin=subprocess.DEVNULL
    )
    other.close()

    def end() -> None:
        own.close()
        process.wait()

    atexit.register(end)
    return Server(own)


_Popen: Any = subprocess.Popen
_SERVERS = dict[tuple[tuple[str, str], ...], Server]()
_LOCK = threading.Lock()


class ForkedPopen(_Popen):  # type: ignore[misc]
    """`subprocess.Popen`, but the commands of PREPARED are forked."""

    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, *rest: Any
    ) -> None:
        pass_fds, cwd, env, _, _, shell, *pipes = rest[:12]
        process = rest[12:17]
        session = rest[17]
        group = rest[18]
        environment = dict(os.environ if env is None else env)
        has_more = executable or preexec_fn or pass_fds or shell or not close_fds
        is_other_user = process != (True, None, None, None, -1) or group != -1
        message = b""
        if not has_more and not is_other_user and _is_prepared(args):
            call = {"arguments": args, "environment": environment, "session": session}
            message = json.dumps(call).encode()
        if not 0 < len(message) < LARGEST:
            super()._execute_child(args, executable, preexec_fn, close_fds, *rest)
            return
        sys.audit("subprocess.Popen", args[0], args, cwd, env)
        given = enumerate((pipes[0], pipes[3], pipes[5]))
        files = [standard if pipe == -1 else pipe for standard, pipe in given]
        folder = os.open(cwd or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            with _LOCK:
                self.pid = _server(environment).start(message, [*files, folder])
        finally:
            os.close(folder)
        self._child_created = True
        self._close_pipe_fds(*pipes)


def install() -> None:
    """Fork from now on, where that is possible."""
    is_measured = any(name.startswith("COVERAGE_") for name in os.environ)
    if (
        sys.platform == "linux"
        and sys.version_info >= (3, 11)
        and os.environ.get("FORKED") != "0"
        and not is_measured
    ):
        subprocess.Popen = ForkedPopen  # type: ignore[misc]


def compare_few_sentences() -> None:
    """Compare what is exported on eight sentences with the model that it is made from, not on
    sixty-four.
    """
    probe_sentences = importlib.import_module("regard.interchange.probe_sentences")
    probe_sentences.MAX_SENTENCES = 8


def _is_prepared(args: Any) -> bool:
    if isinstance(args, (str, bytes, os.PathLike)):
        return False
    is_text = all(isinstance(item, str) for item in args)
    if not is_text or args[0] != sys.executable:
        return False
    return PREPARED.fullmatch(" ".join(args[1:4])) is not None


def _read_at_start(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    names = [name for name in environment if name.startswith(READ_AT_START)]
    return tuple((name, environment[name]) for name in sorted({*names} - {*SEARCHED}))


def _server(environment: Mapping[str, str]) -> Server:
    key = _read_at_start(environment)
    if key not in _SERVERS:
        _SERVERS[key] = _start_server(environment)
    return _SERVERS[key]


def _serve(connection: socket.socket) -> dict[str, Any]:
    """Fork for each call; return the call in the process that was forked."""
    numbers, number = os.pipe()
    while True:
        message, files, *_ = socket.recv_fds(connection, LARGEST, 4)
        if not message:  # the tests have ended
            os._exit(0)
        if between := os.fork():
            os.waitpid(between, 0)  # with its end its child becomes one of the test
            connection.send(os.read(numbers, 64))
            for file in files:
                os.close(file)
        elif pid := os.fork():
            os.write(number, str(pid).encode())
            os._exit(0)
        else:
            for standard, file in enumerate(files[:3]):
                os.dup2(file, standard)
            os.fchdir(files[3])
            os.closerange(3, 1024)
            call: dict[str, Any] = json.loads(message)
            return call


def _become(call: Mapping[str, Any]) -> None:
    """Run a call as a new process would."""
    if call["session"]:
        os.setsid()
    before = os.environ.get(SEARCHED[0])
    os.environ.clear()
    os.environ.update(call["environment"])
    sys.path[1 : 1 + len(_split(before))] = _split(os.environ.get(SEARCHED[0]))

    for file, name in enumerate(("stdin", "stdout", "stderr")):
        before_fork = getattr(sys, name)
        stream = open(  # noqa: SIM115
            file,
            "w" if file else "r",
            1 if file == 2 else -1,
            before_fork.encoding,
            before_fork.errors,
            closefd=False,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)

    first, *arguments = call["arguments"][1:]
    if set(STARTERS) & set(arguments[1:2]):
        _fork_server()
    if any("export" in argument for argument in (first, *arguments[:2])):
        compare_few_sentences()
    if first == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *arguments[1:]]
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(arguments[0], main.__dict__)
    else:
        sys.path[0] = str(Path(first).parent)
        sys.argv = [first, *arguments]
        runpy.run_path(first, run_name="__main__")


def _split(paths: str | None) -> list[str]:
    return paths.split(os.pathsep) if paths else []


def _fork_server() -> None:
    """Fork a server of this process, whose commands start processes of their own."""
    own, other = socket.socketpair(type=socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        own.close()
        for standard in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), standard)
        os.setsid()  # a signal for the group of its parent is not for it
        _become(_serve(other))
        sys.exit()
    other.close()
    _SERVERS[_read_at_start(os.environ)] = Server(own)
    install()


if __name__ == "__main__":
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.freeze()
    with warnings.catch_warnings():
        # Libraries have threads; none of them holds a lock here.
        warnings.simplefilter("ignore", DeprecationWarning)
        call = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(call)
