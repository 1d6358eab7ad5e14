"""Train one run of an experiment in a process of its own, on one thread.

It stops, and saves a checkpoint, when its standard input is closed: when the process that started it is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from regard.common.errors import RegardError
from regard.run import train


def main(recipe: str, out: str, seed: str) -> int:
    """Train a run, or resume it; return the exit status: 0 at its end, 128 + n if signal n stopped it, else 1."""
    threading.Thread(target=_stop_without_parent, daemon=True).start()
    folder = Path(out)
    resume = (folder / "journal.jsonl").exists()
    source = None if resume else Path(recipe)
    try:
        run = train(source, out=folder, seed=None if resume else int(seed), resume=resume, device="cpu", threads=1)
    except RegardError as problem:
        print(*problem.causes, sep="\n", file=sys.stderr)
        return 1
    return 0 if run.outcome.stopped is None else 128 + run.outcome.stopped


def _stop_without_parent() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock a thread must not hold when Python ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
