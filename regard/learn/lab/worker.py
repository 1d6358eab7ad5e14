"""Train one run of an experiment in a process of its own, on one thread.

It stops, and saves a checkpoint, when its standard input is closed: when the process that started it is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from regard.common.errors import RegardError
from regard.run import train


def main(recipe: str, out: str, seed: str) -> int:
    """Train a run, or resume it; return the exit status: 0 at its end, 128 + n if signal n stopped it, else 1."""
    threading.Thread(target=_stop_without_parent, daemon=True).start()
    folder = Path(out)
    # At its end a run is translated once for its report, which nobody reads: greedily is enough.
    new: dict[str, Any] = {"recipe": Path(recipe), "seed": int(seed), "settings": {"search.beam": 1}}
    call = {"resume": True} if (folder / "journal.jsonl").exists() else new
    try:
        run = train(**call, out=folder, device="cpu", threads=1)
    except RegardError as problem:
        print(*problem.causes, sep="\n", file=sys.stderr)
        return 1
    return 0 if run.outcome.stopped is None else 128 + run.outcome.stopped


def _stop_without_parent() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock a thread must not hold when Python ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
