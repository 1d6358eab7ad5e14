"""Attack every command with damaged files, hostile input and odd options, and count what becomes of it.

    python tests/fuzz [--cases 10000] [--seed 1] [--jobs 2] [--only 17 23] [--folder DIR]

Each case runs in a forked process. The last line counts: unchanged (damage without an effect), done, refused (in a
sentence), aloud (done, with a warning); and what must not be: silent (damaged bytes accepted, another output, nothing
said), internal (a crash, or an error that is no sentence of ours), slow (over 10 s, or four times as long for twice the
input). Every one of the latter is printed with its number; `--only` runs it again and prints its messages.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(TESTS), str(TESTS.parent)]

from fuzz import fuzzer  # noqa: E402
from fuzz.cases import BAD, VERDICTS  # noqa: E402


def main() -> None:
    """Run the cases and print the counts; the exit status is 1 if one of them went badly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the cases to run, with their messages")
    parser.add_argument("--folder", type=Path, help="folder of the models to attack; kept, and used again")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="regard-fuzz-"))
    try:
        counts = _run(options, folder.absolute())
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(any(counts[verdict] for verdict in BAD))


def _run(options: argparse.Namespace, folder: Path) -> Counter[str]:
    numbers = options.only or range(options.cases)
    fuzzer.material(folder)
    start, counts = time.monotonic(), Counter[str]()
    with ProcessPoolExecutor(options.jobs, get_context("fork")) as pool:
        work = [(number, options.seed, folder) for number in numbers]
        for done, (number, name, verdict, messages, seconds) in enumerate(pool.map(fuzzer.attempt, work), 1):
            counts[verdict] += 1
            if verdict in BAD or options.only:
                print(f"{number:6} {verdict:9} {seconds:5.1f} s  {name}", *messages, sep="\n       ", flush=True)
            if done % 500 == 0:
                print(f"… {done} cases, {(time.monotonic() - start) / 60:.0f} minutes", flush=True)
    total = ", ".join(f"{verdict} {counts[verdict]}" for verdict in VERDICTS)
    minutes = (time.monotonic() - start) / 60
    print(f"fuzz: {counts.total()} cases (seed {options.seed}) in {minutes:.1f} minutes: {total}")
    return counts


if __name__ == "__main__":
    main()
