"""Run a command of `regard` in a forked copy of this process, with limits of time, so that it may
crash or hang.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Seconds of wall time until a command is killed; the machine may be busy with others.
PATIENCE = 120.0
PROCESSOR_SECONDS = 40
LARGEST_FILE = 1 << 28  # bytes
SIGNS = (
    "internal error",
    "Traceback (most recent",
    "pydantic",
    "terminate called",
    "Fatal Python",
)
"""Parts of a message that is no sentence of ours."""
_SIGNAL_OF_PARENT = 1  # PR_SET_PDEATHSIG of prctl


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `status` is negative after a signal; `seconds` are those of the
    processor.

    `group` is the number of its process and of the group of all processes that it started.
    """

    status: int
    out: bytes
    err: str
    seconds: float
    group: int = 0

    @property
    def is_internal(self) -> bool:
        """Whether it crashed, or ended with an error that is not a sentence of our own."""
        lines = [line for line in self.err.splitlines() if line]
        causes = [line for line in lines if not line.startswith(("warning: ", "  "))]
        has_sentence = any(line.startswith("regard: ") for line in causes)
        is_refusal = self.status in (1, 2) and has_sentence
        has_sign = any(sign in self.err for sign in SIGNS)
        return has_sign or not (self.status == 0 or is_refusal)

    @property
    def is_aloud(self) -> bool:
        """Whether it was refused, or succeeded with a warning."""
        return self.status != 0 or "warning: " in self.err


def end_with(parent: int) -> None:
    """Let the system kill this process as soon as the thread of `parent` that started it ends, by
    whatever cause.
    """
    ctypes.CDLL(None).prctl(_SIGNAL_OF_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("whoever started this process has ended")


def run(
    arguments: Sequence[str],
    folder: Path,
    stdin: bytes = b"",
    before: Callable[[], object] = lambda: None,
    patience: float = PATIENCE,
) -> Outcome:
    """Run `regard` with these arguments in `folder`, and wait for its end; `before` is called in
    its process first.
    """
    streams = [folder / name for name in ("stdin", "stdout", "stderr")]
    streams[0].write_bytes(stdin)
    child = os.fork()
    if child == 0:
        _become(arguments, folder, streams, before)
    status, usage = _wait(child, patience)
    seconds = usage.ru_utime + usage.ru_stime
    out = streams[1].read_bytes()
    err = streams[2].read_text(errors="replace")
    outcome = Outcome(status, out, err, seconds, child)
    for stream in streams:
        stream.unlink()
    return outcome


def _become(
    arguments: Sequence[str],
    folder: Path,
    streams: Sequence[Path],
    before: Callable[[], object],
) -> None:
    """Turn the forked process into the command; never returns."""
    status = 99
    try:
        os.setsid()
        os.chdir(folder)
        # Which a model card would name: the same whoever runs the command.
        sys.argv = ["fuzz"]
        # Beside other work, threads of CTranslate2 spin for minutes in a fork.
        os.environ["OMP_NUM_THREADS"] = "1"
        for number, stream in enumerate(streams):
            os.dup2(os.open(stream, os.O_RDWR | os.O_CREAT, 0o600), number)
        sys.stdin = os.fdopen(0, "r")
        sys.stdout = os.fdopen(1, "w")
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace")  # as Python opens it
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        warnings.resetwarnings()
        before()
        from regard.cli import main

        main(list(arguments))
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else 98
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int, patience: float) -> tuple[int, resource.struct_rusage]:
    """Wait for the process, and end it with all that it has started if that takes too long."""
    start = time.monotonic()
    pause = 0.002
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), usage
        if time.monotonic() - start > patience:
            os.killpg(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)
