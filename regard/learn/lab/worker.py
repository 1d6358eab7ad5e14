"""Train the runs that standard input names, one on each line; stop with a checkpoint when it is
closed.

It closes when the process that started this one is gone. Each run is computed on one thread.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from regard.common.errors import RegardError
from regard.learn.lab.training import ENDED
from regard.run import train


def main() -> int:
    """Train each run, or resume it, and print `ENDED` and why it failed; return 128 + n if signal n
    stopped one.
    """
    lines = SimpleQueue[bytes]()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    while True:
        recipe, out, seed = json.loads(lines.get())
        # At its end a run is translated once for its report, which nobody reads: greedily is
        # enough.
        new: dict[str, Any] = {
            "recipe": Path(recipe),
            "seed": seed,
            "settings": {"search.beam": 1},
        }
        call = {"resume": True} if (Path(out) / "journal.jsonl").exists() else new
        reason = ""
        try:
            if (
                stopped := train(
                    **call, out=out, device="cpu", threads=1
                ).outcome.stopped
            ) is not None:
                return 128 + stopped
        except RegardError as problem:
            reason = problem.causes[-1]
        print(ENDED + json.dumps(reason), flush=True)


def _read(lines: SimpleQueue[bytes]) -> None:
    for line in open(0, "rb", 0, closefd=False):  # noqa: SIM115 - sys.stdin has a lock, which must be free at the end
        lines.put(line)
    os.kill(os.getpid(), signal.SIGTERM)
