"""Attack every command, and the server, with damaged files, hostile input and odd options, and
count what becomes of it.

    python tests/fuzz [--cases 10000 | --kills 250 | --http 10000 | --attack 10 | --restarts 200]
    [--seed 1] [--jobs 2]
                      [--only 17 23] [--folder DIR]

Each case runs in a forked process. The last line counts: unchanged (damage without an effect),
done, refused (in a sentence), aloud (done, with a warning); and what must not be: silent (damaged
bytes accepted, another output, nothing said; a promise not kept, such as a word of --keep that is
not there, and nothing said), wrong (a line lost, an empty translation, a line without letters
changed, a known code of a language refused), internal (a crash, or an error that is no sentence of
ours), slow (over 10 s, or four times as long for twice the input), executed (a module of the
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
from collections.abc import Collection, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(TESTS), str(TESTS.parent)]
# As tests/conftest.py does, which this does not load.
os.register_at_fork(after_in_child=gc.freeze)

from fuzz import attackers, fuzzer, http_cases, http_fuzzer, kills, restarts  # noqa: E402
from fuzz.cases import BAD, VERDICTS  # noqa: E402


def main() -> None:
    """Run the cases and print the counts; the exit status is 1 if one of them went badly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument(
        "--kills",
        type=int,
        help="kill so many commands instead, four of five in training",
    )
    parser.add_argument(
        "--http", type=int, help="send so many hostile requests to a server instead"
    )
    parser.add_argument(
        "--attack",
        type=float,
        help="attack a server for so many minutes instead, beside a client",
    )
    parser.add_argument(
        "--without",
        nargs="*",
        default=[],
        help="attackers that stay away, such as killed_processes",
    )
    parser.add_argument(
        "--restarts",
        type=int,
        help="kill the process that serves so many times instead, under load",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes"
    )
    parser.add_argument(
        "--only",
        type=int,
        nargs="*",
        help="numbers of the cases to run, with their messages",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="folder of the models to attack; kept, and used again",
    )
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="regard-fuzz-"))
    try:
        chosen = {
            "attack": _attack,
            "restarts": _restart,
            "http": _request,
            "kills": _kill,
        }
        attack = next(
            (do for name, do in chosen.items() if getattr(options, name) is not None),
            _run,
        )
        counts = attack(options, folder.absolute())
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    bad = {*BAD, *kills.VERDICTS[1:], *http_cases.BAD}
    sys.exit(any(counts[verdict] for verdict in bad))


class Progress:
    """What became of the cases so far, printed as they are done."""

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

    def print_total(self, title: str, verdicts: Iterable[str]) -> Counter[str]:
        """Print the last line; return the counts."""
        counts = ", ".join(f"{verdict} {self.counts[verdict]}" for verdict in verdicts)
        cases = f"{self.counts.total()} cases (seed {self.options.seed})"
        print(f"{title}: {cases} in {self.minutes:.1f} minutes: {counts}")
        return self.counts


def _run(options: argparse.Namespace, folder: Path) -> Counter[str]:
    """Run commands and print the counts."""
    fuzzer.material(folder)
    progress = Progress(options, BAD)
    work = [
        (number, options.seed, folder)
        for number in options.only or range(options.cases)
    ]
    with ProcessPoolExecutor(options.jobs, get_context("fork")) as pool:
        for number, name, verdict, messages, seconds in pool.map(fuzzer.attempt, work):
            progress.note(number, verdict, f"{seconds:5.1f} s  {name}", messages)
    return progress.print_total("fuzz", VERDICTS)


def _request(options: argparse.Namespace, folder: Path) -> Counter[str]:
    """Send requests to servers, one for each of the jobs, and print the counts."""
    material = fuzzer.material(folder)
    progress = Progress(options, http_cases.BAD)
    work = [(number, options.seed) for number in options.only or range(options.http)]
    for number, name, report in http_fuzzer.attempts(
        work, material, folder, options.jobs
    ):
        name = f"{report.seconds:5.1f} s  {name}"
        progress.note(number, report.verdict, name, report.messages)
    return progress.print_total("http", http_cases.VERDICTS)


def _attack(options: argparse.Namespace, folder: Path) -> Counter[str]:
    """Attack a server beside a well-behaved client, and print what should not have been."""
    problems = attackers.attack(
        fuzzer.material(folder), folder, options.attack, options.seed, options.without
    )
    print(*problems[:20], sep="\n")
    print(
        f"attack: {options.attack:g} minutes (seed {options.seed}): {len(problems)} faults"
    )
    return Counter({http_cases.BAD[0]: len(problems)})


def _restart(options: argparse.Namespace, folder: Path) -> Counter[str]:
    """Kill the process that serves under load, and print what should not have been."""
    material = fuzzer.material(folder)
    problems = restarts.restart(material, folder, options.restarts, options.seed)
    print(*problems[:20], sep="\n")
    print(f"restarts: {options.restarts} (seed {options.seed}): {len(problems)} faults")
    return Counter({http_cases.BAD[0]: len(problems)})


def _kill(options: argparse.Namespace, folder: Path) -> Counter[str]:
    """Kill commands and print the counts."""
    names = kills.families(folder).names
    progress = Progress(options, kills.VERDICTS[1:])
    numbers = options.only or range(options.kills)
    work = [(kills.draw(number, options.seed, names), folder) for number in numbers]
    results = list[kills.Result]()
    with ProcessPoolExecutor(options.jobs, get_context("fork")) as pool:
        undisturbed = {
            (case.family, case.form, case.packed): (case, root) for case, root in work
        }
        list(pool.map(kills.make, undisturbed.values()))
        for result in pool.map(kills.attempt, work):
            results.append(result)
            when = "; ".join(map(str, result.moments))
            name = f"{result.case.name}, killed at {when}"
            progress.note(result.case.number, result.verdict, name, result.problems)
    summary = kills.summary(results, options.seed)
    print(
        f"kills: {summary} in {progress.minutes:.1f} minutes: {kills.verdicts(results)}"
    )
    return progress.counts


if __name__ == "__main__":
    main()
