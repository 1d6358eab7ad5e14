"""Attack every command, and the server, with damaged files, hostile input and odd options, and
count what becomes of it.

    python tests/fuzz [--cases 10000 | --kills 250 | --http 10000 | --attack 10 | --restarts 200]
    [--seed 1] [--jobs 2]
                      [--only 17 23] [--folder DIR]

Each case runs in a forked process. The last line counts: unchanged (damage without an effect),
done, refused (in a sentence), aloud (done, with a warning); and what must not be: silent (damaged
bytes, or an image that is none, accepted, and nothing said), wrong (the translation of
neither file that was read), internal (a crash, or an error that is no sentence of ours), slow (over 10 s, or four times as long for twice the input), executed (a module of the
current folder), followed (a link to a file outside was read into an output, or written through).
Every one of the latter is printed with its number; `--only` runs it again and prints its messages.

`--kills` kills training of every family, and translation of files, at drawn moments instead;
resumed, they have to end with the same bytes as undisturbed. Each kill that did not is printed with
its number and command.

`--http` sends hostile requests to a server instead, and now and then kills its processes, changes a
served file or links one elsewhere. Counted are: done (with the right answer, where there is one),
refused (in a sentence of the endpoint's form), closed (the connection, by either side); and what
must not be: internal (a status from 500 up, a traceback or a line of more than 2,000 bytes in the
log), wrong (another answer, none, or one too many), slow, hung (no answer within a minute), down
(no more /health, or translations), leaked (a file that nobody named), executed.

`--attack` lets eight attackers of different kinds at a server for some minutes, beside a client
with a key, and prints what it got, before and then, memory, and how long the server takes to end.
What should not be is printed last. `--without killed_processes` leaves one of them out, to see what
is due to it.

`--restarts` kills the process that serves again and again, under the load of several clients, and
prints how soon the next answer came.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(TESTS), str(TESTS.parent)]
# As tests/conftest.py does, which this does not load.
os.register_at_fork(after_in_child=gc.freeze)

from fuzz import attackers, fuzzer, http_cases, http_fuzzer, kills, restarts  # noqa: E402
from fuzz.cases import BAD, VERDICTS  # noqa: E402


class Progress:
    """Counts of what became of the cases, which are printed as they are done."""

    def __init__(self, options: argparse.Namespace, bad: Collection[str]) -> None:
        self.options = options
        self.bad = bad
        self.counts = Counter[str]()
        self.start = time.monotonic()

    def note(
        self, number: int, verdict: str, name: str, messages: Iterable[str]
    ) -> None:
        """Count a case, and print it if it went badly or was asked for."""
        self.counts[verdict] += 1
        if verdict in self.bad or self.options.only:
            lines = [f"{number:6} {verdict:9} {name}", *messages]
            print("\n       ".join(lines), flush=True)
        done = self.counts.total()
        if done % 500 == 0:
            print(f"… {done} cases, {self.minutes:.0f} minutes", flush=True)

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.start) / 60

    def finish(self, title: str, verdicts: Iterable[str]) -> bool:
        """Print the last line; return whether no case went badly."""
        counts = ", ".join(f"{verdict} {self.counts[verdict]}" for verdict in verdicts)
        seed = self.options.seed
        print(f"{title} (seed {seed}) in {self.minutes:.1f} minutes: {counts}")
        return not any(self.counts[verdict] for verdict in self.bad)


def _run(options: argparse.Namespace, folder: Path) -> bool:
    """Run commands and print the counts."""
    fuzzer.material(folder)
    progress = Progress(options, BAD)
    work = [(number, options.seed, folder) for number in options.numbers]
    with ProcessPoolExecutor(options.jobs, get_context("fork")) as pool:
        for result in pool.map(fuzzer.attempt, work):
            progress.note(*result)
    return progress.finish(f"fuzz: {len(work)} cases", VERDICTS)


def _request(options: argparse.Namespace, folder: Path) -> bool:
    """Send requests to servers, one for each of the jobs, and print the counts."""
    material = fuzzer.material(folder)
    progress = Progress(options, http_cases.BAD)
    numbers = options.numbers
    for number, name, report in http_fuzzer.attempts(
        numbers, options.seed, material, folder, options.jobs
    ):
        name = f"{report.seconds:5.1f} s  {name}"
        progress.note(number, report.verdict, name, report.messages)
    return progress.finish(f"http: {len(numbers)} cases", http_cases.VERDICTS)


def _attack(options: argparse.Namespace, folder: Path) -> bool:
    """Attack a server beside a well-behaved client, and print what should not have been."""
    material = fuzzer.material(folder)
    minutes = options.attack
    problems = attackers.attack(
        material, folder, minutes, options.seed, options.without
    )
    return _are_none(problems, f"attack: {minutes:g} minutes (seed {options.seed})")


def _restart(options: argparse.Namespace, folder: Path) -> bool:
    """Kill the process that serves under load, and print what should not have been."""
    material = fuzzer.material(folder)
    count = options.restarts
    problems = restarts.restart(material, folder, count, options.seed)
    return _are_none(problems, f"restarts: {count} (seed {options.seed})")


def _are_none(problems: list[str], title: str) -> bool:
    print(*problems[:20], sep="\n")
    print(f"{title}: {len(problems)} faults")
    return not problems


def _kill(options: argparse.Namespace, folder: Path) -> bool:
    """Kill commands and print the counts."""
    names = kills.families(folder).names
    progress = Progress(options, kills.VERDICTS[1:])
    cases = [kills.draw(number, options.seed, names) for number in options.numbers]
    work = [(case, folder) for case in cases]
    results = list[kills.Result]()
    with ProcessPoolExecutor(options.jobs, get_context("fork")) as pool:
        undisturbed = {case.command: (case, folder) for case in cases}
        list(pool.map(kills.make, undisturbed.values()))
        for result in pool.map(kills.attempt, work):
            results.append(result)
            when = "; ".join(map(str, result.moments))
            name = f"{result.case.name}, killed at {when}"
            progress.note(result.case.number, result.verdict, name, result.problems)
    return progress.finish(f"kills: {kills.summary(results)}", kills.VERDICTS)


MODES: dict[str, tuple[type, str, Callable[[argparse.Namespace, Path], bool]]] = {
    "cases": (int, "commands to run, by default 10,000", _run),
    "kills": (int, "commands to kill, four of five in training", _kill),
    "http": (int, "hostile requests to send to a server", _request),
    "attack": (float, "minutes to attack a server, beside a client", _attack),
    "restarts": (int, "times to kill the process that serves, under load", _restart),
}


def main() -> None:
    """Run the cases and print the counts; the exit status is 1 if one of them went badly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    modes = parser.add_mutually_exclusive_group()
    for name, (kind, text, _) in MODES.items():
        modes.add_argument(f"--{name}", type=kind, help=text)
    parser.add_argument(
        "--without", nargs="*", default=[], help="attackers that stay away"
    )
    parser.add_argument("--seed", type=int, default=1)
    jobs = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=jobs, help="processes")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of cases to run")
    parser.add_argument("--folder", type=Path, help="folder to keep the models in")
    options = parser.parse_args()
    given = [name for name in MODES if getattr(options, name) is not None]
    mode = given[0] if given else "cases"
    count = getattr(options, mode) if given else 10_000
    options.numbers = options.only or range(int(count))
    folder = options.folder or Path(tempfile.mkdtemp(prefix="regard-fuzz-"))
    try:
        is_right = MODES[mode][2](options, folder.absolute())
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
