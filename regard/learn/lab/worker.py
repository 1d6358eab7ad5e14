"""Worker process: train the runs that the lines of standard input name, each on one thread.

Standard input closes when the parent process ends. The worker then saves a checkpoint and stops.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from queue import SimpleQueue

from regard.common.errors import RegardError
from regard.learn.lab.training import ENDED
from regard.run import train


def main() -> int:
    """Train or resume each run, and print `ENDED` with the reason of a failure, or an empty one.

    Return 128 + n if signal n stopped a run.
    """
    lines = SimpleQueue[bytes]()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    while True:
        recipe, out, seed = json.loads(lines.get())
        # A run ends with a report on translations, which the lab does not use: greedy search is
        # fast.
        new: dict[str, object] = {
            "recipe": Path(recipe),
            "seed": seed,
            "settings": {"search.beam": 1},
        }
        is_begun = (Path(out) / "journal.jsonl").exists()
        options = {"resume": True} if is_begun else new
        reason = ""
        try:
            run = train(**options, out=out, device="cpu", threads=1)
            if run.outcome.stopped is not None:
                return 128 + run.outcome.stopped
        except RegardError as problem:
            reason = problem.causes[-1]
        print(ENDED + json.dumps(reason), flush=True)


def _read(lines: SimpleQueue[bytes]) -> None:
    """Queue the lines of standard input; interrupt this process when it closes."""
    for line in open(0, "rb", 0, closefd=False):  # noqa: SIM115 - sys.stdin has a lock, which must be free at the end
        lines.put(line)
    os.kill(os.getpid(), signal.SIGTERM)
