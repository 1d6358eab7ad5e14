"""Run commands of `regard` one after another, each in a forked copy of this process: python
serve.py FOLDER.

FOLDER/jobs.json is a list of tables with name, arguments and stdin. FOLDER/results.json gets status
and stderr of each; what a command opens is noted in FOLDER/watched/NAME.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from fuzz.process import run

sys.path.pop(0)  # the commands import nothing from there


def main(folder: Path) -> None:
    import torch
    import torch._dynamo  # which the optimizer imports, for a second

    import regard.cli

    assert regard.cli.app, "imported once, before processes are forked"

    torch.set_num_threads(1)
    results = {}
    before = os.environ["REGARD_WATCH"]
    for job in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
        os.environ["REGARD_WATCH"] = str(folder / "watched" / job["name"])
        outcome = run(job["arguments"], folder / "work", job["stdin"].encode())
        results[job["name"]] = {
            "status": outcome.status,
            "out": outcome.out.decode(errors="replace"),
            "err": outcome.err,
        }

    os.environ["REGARD_WATCH"] = before
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
