"""Compare the speed of two versions of Regard: python benchmarks/versions.py BASE [NEW] [--minutes
5]

A version is a commit of this repository or a checkout; NEW is the current folder if it is left out.
Of each the package is copied without what was built in it: its C library is compiled from its own
sources, by this machine's compiler.

Each version trains its own `transformer-tiny` (50 updates) and `transformer-base` (one), whose
targets have twelve tokens by their search settings, and writes their runtime files. Then BASE and
NEW take turns, with one thread, in rounds, until a further round would not fit into the minutes.
Measured are times and memory, so that less is better everywhere. Ratios are of neighbours in time,
and the table has their median and quartiles.

Decoding and starting are measured in processor time, which other programs disturb less than the
clock; a start, a request and training by the clock, too.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

MODELS = ("tiny", "base")
SLOWER = 1.05
TRAINED, VALIDATED = 1000, 10
"""Lines of the sample that models are trained on, and validated on."""
UPDATES = {"tiny": 50, "base": 1}
MEASURED_UPDATES = 20
STEPS = 12
"""Tokens of every target, set in a way that does not load the search settings to check them, as
`max_length` does.
"""
STARTS = 4
TURNS = 3
REQUESTS = 40
SENTENCES = {"tiny": 60, "base": 20}
WORKER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import regard
translator = regard.load(sys.argv[1])
if sys.argv[1].endswith(".regard"):
    translator.threads = 1
else:
    import torch
    torch.set_num_threads(1)
for line in sys.stdin:
    texts, beam = json.loads(line)
    began = time.process_time()
    translator.translate(texts, beam=beam)
    print(time.process_time() - began, flush=True)
"""
"""Translates what it is told to, and answers with the processor seconds."""


@dataclass(frozen=True)
class Version:
    """A version: what it is called in the table, and a folder with its package and, below `models`,
    its models.
    """

    name: str
    folder: Path

    def model(self, name: str) -> Path:
        """Return the run folder of a model."""
        return self.folder / "models" / name

    def runtime_file(self, name: str) -> Path:
        """Return the runtime file of a model."""
        return self.folder / "models" / f"{name}.regard"


Pair = tuple[Version, Version]
Results = dict[str, list[tuple[float, float]]]
"""Of each row of the table the values of BASE and NEW, measured one after the other."""


def main() -> None:
    """Measure both versions and print the table."""
    began = time.monotonic()
    options = _options()
    with tempfile.TemporaryDirectory(prefix="regard-versions-") as name:
        data = _write_data(Path(name) / "data")
        pair = (
            _version(options.base, Path(name) / "base"),
            _version(options.new, Path(name) / "new"),
        )
        with ThreadPoolExecutor(len(pair)) as pool:
            [*pool.map(_prepare, pair, [data] * len(pair))]
        lines = (data / "test.ko").read_text("utf-8").splitlines()
        print(
            f"prepared in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True
        )
        results = defaultdict[str, list[tuple[float, float]]](list)
        line = _quiet_line(pair, lines)
        longest = 0.0
        rounds = 0
        while rounds == 0 or time.monotonic() + longest - began < 60 * options.minutes:
            start = time.monotonic()
            _measure_start(pair, results, line)
            for model in MODELS:
                _measure_decoding(pair, results, model, lines[: SENTENCES[model]])
            _measure_requests(pair, results, lines[:REQUESTS])
            _measure_training(pair, results, data)
            longest = max(longest, time.monotonic() - start)
            rounds = rounds + 1
    print(
        f"\n{rounds} rounds, {time.monotonic() - began:.0f} s in all\n\n{_table(pair, results)}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("base", metavar="BASE", help="a commit, or a checkout")
    parser.add_argument("new", metavar="NEW", nargs="?", default=".")
    parser.add_argument(
        "--minutes",
        type=float,
        default=5.0,
        help="of all; one round is measured in any case",
    )
    return parser.parse_args()


# --- versions and their models


def _version(name: str, folder: Path) -> Version:
    """Copy the package of a commit or a checkout, without libraries that were built in it."""
    folder.mkdir()
    if Path(name).is_dir():
        shutil.copytree(
            Path(name) / "regard",
            folder / "regard",
            ignore=shutil.ignore_patterns("lib", "__pycache__"),
        )
        return Version(name, folder)
    archive = folder / "package.tar"
    subprocess.run(
        ["git", "archive", f"--output={archive}", name, "regard"], check=True
    )
    with tarfile.open(archive) as package:
        package.extractall(folder, filter="data")
    return Version(name[:10], folder)


def _write_data(folder: Path) -> Path:
    """Write a part of the sample."""
    from regard.learn.samples import korean_english

    korean_english().write(folder, "ko", "en")
    for name, count in (("train", TRAINED), ("valid", VALIDATED)):
        for side in ("ko", "en"):
            file = folder / f"{name}.{side}"
            file.write_text(
                "".join(file.read_text("utf-8").splitlines(keepends=True)[:count]),
                "utf-8",
            )
    return folder


def _prepare(version: Version, data: Path) -> None:
    """Train the models of a version, and write their runtime files."""
    for model in MODELS:
        _train(version, model, data, version.model(model), UPDATES[model])
        files = [
            "--to=runtime",
            f"--source={data}/valid.ko",
            str(version.runtime_file(model)),
        ]
        _run(version, "export", str(version.model(model)), *files)


def _train(
    version: Version, model: str, data: Path, folder: Path, updates: int
) -> None:
    files = [
        f"--{side}={data}/train.{end}"
        for side, end in (("source", "ko"), ("target", "en"))
    ]
    files += [
        f"--valid-{side}={data}/valid.{end}"
        for side, end in (("source", "ko"), ("target", "en"))
    ]
    values: dict[str, float] = {
        "training.updates": updates,
        "training.log_every": updates,
        "training.validate_with": 4,
    }
    values |= {"batching.tokens": 1024, "schedule.warmup": 20}
    values |= {
        "search.min_length": STEPS,
        "search.max_extra": STEPS,
        "search.max_ratio": 0.01,
    }
    sets = [f"--set={name}={value}" for name, value in values.items()]
    sets += [
        f"--preset=transformer-{model}",
        f"--out={folder}",
        "--threads=1",
        "--quiet",
    ]
    _run(version, "train", *files, *sets, "--set=schedule.peak=3e-3")


def _environment(version: Version) -> dict[str, str]:
    """Return an environment with one thread, in which a version is imported, from compiled modules
    after the first.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(version.folder),
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _run(version: Version, *command: str, stdin: str = "") -> str:
    """Run `regard` with a command; return what it says. Ends this program if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "regard", *command],
        env=_environment(version),
        cwd=version.folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{version.name}: regard {' '.join(command)[:100]}\n{done.stderr}")
    return done.stderr


def _quiet_line(pair: Pair, lines: list[str]) -> str:
    """Return the first line that neither version warns of: warnings load the command line, which
    takes long.
    """
    for line in lines:
        if not any(_translate_line(version, line) for version in pair):
            return line
    print(
        "both versions warn of each line, so a start is that of the command line",
        file=sys.stderr,
    )
    return lines[0]


# --- measurements: each adds what it finds to the results


def _translate_line(version: Version, line: str) -> str:
    return _run(
        version,
        "translate",
        str(version.runtime_file("tiny")),
        "--threads=1",
        stdin=f"{line}\n",
    )


def _measure_start(pair: Pair, results: Results, line: str) -> None:
    """Measure a line from a new process."""

    def start(version: Version) -> tuple[float, float]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        _translate_line(version, line)
        clock = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            clock,
        )

    for _ in range(STARTS):
        (base, base_clock), (new, new_clock) = map(start, pair)
        results["a line from a new process, processor ms"].append(
            (1000 * base, 1000 * new)
        )
        results["a line from a new process, ms"].append(
            (1000 * base_clock, 1000 * new_clock)
        )


def _measure_decoding(
    pair: Pair, results: Results, model: str, lines: list[str]
) -> None:
    """Measure single sentences, greedy and beam search, through the runtime file and the run
    folder; and memory.
    """
    tasks = {
        "single sentence": ([[line] for line in lines], 1),
        "greedy": ([lines], 1),
        "beam of 5": ([lines], 5),
    }
    for kind, path in (("file", Version.runtime_file), ("folder", Version.model)):
        with ExitStack() as stack:
            workers = [
                stack.enter_context(_worker(version, path(version, model)))
                for version in pair
            ]
            for worker in workers:
                worker(lines[:5], 1)  # what the first call imports is not measured
            if (kind, model) == ("file", "base"):
                base, new = (worker.resident() for worker in workers)
                results["memory with `base`, file, MB"].append((base, new))
            for _ in range(TURNS):
                for task, (calls, beam) in tasks.items():
                    base, new = (
                        sum(worker(call, beam) for call in calls) for worker in workers
                    )
                    row = (1000 * base / len(lines), 1000 * new / len(lines))
                    results[
                        f"`{model}`, {kind}, {task}, processor ms a sentence"
                    ].append(row)


class _Worker:
    """A process that translates: it is called with lines and the width of the beam, and returns
    processor seconds.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, lines: list[str], beam: int) -> float:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([lines, beam]) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def resident(self) -> float:
        """Return the resident memory in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text("utf-8")
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024 / 1e6


@contextmanager
def _worker(version: Version, model: Path) -> Iterator[_Worker]:
    command = [sys.executable, "-c", WORKER, str(model)]
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "text": True,
    }
    with subprocess.Popen(
        command, env=_environment(version), cwd=version.folder, **pipes
    ) as process:
        yield _Worker(process)
        assert process.stdin
        process.stdin.close()


def _measure_requests(pair: Pair, results: Results, lines: list[str]) -> None:
    """Measure requests of one sentence to `/translate` of a server on the loopback address."""
    with ExitStack() as stack:
        servers = [stack.enter_context(_server(version)) for version in pair]
        for _, ask in servers:
            [ask(line) for line in lines[:5]]
        for _ in range(TURNS):
            row = [
                (median(map(ask, lines)), used() - before)
                for used, ask in servers
                for before in [used()]
            ]
            (base, base_used), (new, new_used) = row
            results["/translate, ms"].append((1000 * base, 1000 * new))
            results["/translate, processor ms"].append(
                (1000 * base_used / len(lines), 1000 * new_used / len(lines))
            )


@contextmanager
def _server(
    version: Version,
) -> Iterator[tuple[Callable[[], float], Callable[[str], float]]]:
    """Start a server of `tiny`; yield functions that return its processor seconds and those that a
    line takes.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "regard",
        "serve",
        str(version.runtime_file("tiny")),
    ]
    command += [
        f"--port={port}",
        "--threads=1",
        "--languages=ko,en",
        "--reload-seconds=0",
        "--quiet",
    ]
    silent: dict[str, Any] = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    with subprocess.Popen(
        command, env=_environment(version), cwd=version.folder, **silent
    ) as process:
        try:
            connection = _connect(port)

            def ask(line: str) -> float:
                body = json.dumps({"q": line, "source": "ko", "target": "en"})
                began = time.perf_counter()
                connection.request(
                    "POST", "/translate", body, {"Content-Type": "application/json"}
                )
                answer = connection.getresponse()
                content = answer.read()
                seconds = time.perf_counter() - began
                if answer.status != 200:
                    sys.exit(
                        f"{version.name}: /translate answered {answer.status}: {content[:200]!r}"
                    )
                return seconds

            yield lambda: _processor_seconds(process.pid), ask
            connection.close()
        finally:
            process.terminate()


def _connect(port: int) -> http.client.HTTPConnection:
    """Connect to a server as soon as it listens and is ready; end this program if that takes a
    minute.
    """
    for _ in range(600):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/health")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                return connection
        except OSError:
            pass
        connection.close()
        time.sleep(0.1)
    sys.exit("the server did not start within a minute")


def _processor_seconds(process: int) -> float:
    """Return what a process and its descendants have used."""
    own = Path(f"/proc/{process}/task")
    nanoseconds = 0
    seconds = 0.0
    for thread in own.iterdir():
        nanoseconds += int((thread / "schedstat").read_text("utf-8").split()[0])
        seconds += sum(
            map(
                _processor_seconds,
                map(int, (thread / "children").read_text("utf-8").split()),
            )
        )
    return seconds + nanoseconds / 1e9


def _measure_training(pair: Pair, results: Results, data: Path) -> None:
    """Train `tiny` by some updates; the rate is the journal's, without start and validation."""
    rates = []
    for version in pair:
        folder = version.folder / "trained"
        _train(version, "tiny", data, folder, MEASURED_UPDATES)
        journal = [
            json.loads(line)
            for line in (folder / "journal.jsonl").read_text("utf-8").splitlines()
        ]
        rates += [
            event["tokens_per_second"] for event in journal if event["event"] == "train"
        ][-1:]
        shutil.rmtree(folder)
    base, new = (1_000_000 / rate for rate in rates)
    results["training `tiny`, s a million tokens"].append((base, new))


# --- the table


def _table(pair: Pair, results: Results) -> str:
    lines = [
        f"| less is better | {pair[0].name} | {pair[1].name} | ratio | its quartiles | |",
        "|---|---|---|---|---|---|",
    ]
    slower = []
    for row, values in results.items():
        ratios = [new / base for base, new in values]
        ratio = median(ratios)
        low, _, high = (
            quantiles(ratios, n=4, method="inclusive")
            if len(ratios) > 1
            else ratios * 3
        )
        is_slower = ratio > SLOWER
        base, new = (median(side) for side in zip(*values, strict=True))
        note = "slower" if is_slower else ""
        lines.append(
            f"| {row} | {base:.4g} | {new:.4g} | {ratio:.2f} | {low:.2f} to {high:.2f} | {note} |"
        )
        slower += [f"{row} ({ratio:.2f})"] if is_slower else []
    conclusion = "; ".join(slower) if slower else "nothing"
    return "\n".join(
        [*lines, "", f"more than {SLOWER - 1:.0%} above {pair[0].name}: {conclusion}"]
    )


if __name__ == "__main__":
    main()
