"""Translate a million lines: is memory constant, and does a killed and resumed translation equal an
uninterrupted one?

`make bench-million`, or with the options below. All files are in .work/million/; the last line
printed is the summary.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path

from machine import clock, others

HERE = Path(__file__).resolve().parent
WORK = HERE / ".work" / "million"
MILESTONES = {"1 %": 0.01, "25 %": 0.25, "50 %": 0.5, "75 %": 0.75}
LAST = "100 %"  # the last measurement before the end


@dataclass
class MonitoredRun:
    """A translation whose memory was measured while it ran."""

    name: str
    memory: dict[str, int] = field(default_factory=dict)  # bytes at each milestone
    peak: int = 0
    lines: int = 0  # translated by it
    seconds: float = 0.0
    others: float | None = None
    killed: int | None = None  # line at which it was killed

    def row(self) -> str:
        """Format one line of the table."""
        memory = "".join(
            f"{_megabytes(self.memory.get(point)):>8}" for point in (*MILESTONES, LAST)
        )
        end = "end" if self.killed is None else f"{self.killed:,}"
        speed = self.lines / self.seconds if self.seconds else 0
        busy = "?" if self.others is None else f"{self.others:.2f}"
        cells = f"{end:>12}{self.seconds:>9.0f}{speed:>9,.0f}{busy:>8}"
        return f"{self.name:14}{memory}{_megabytes(self.peak):>8}{cells}"


def main() -> int:
    """Translate once without and once with an interruption, and compare."""
    options = _options()
    WORK.mkdir(parents=True, exist_ok=True)
    for old in WORK.glob("*.out*"):
        old.unlink()
    run = options.run or _trained(options.minutes)
    lines = _lines(options.corpus)
    source = _sampled(lines, WORK / "in.txt", options.lines)
    compared = min(options.lines, options.compare or options.lines)
    if compared % options.chunk and compared < options.lines:
        sys.exit(
            f"--compare {compared}: must be a multiple of --chunk {options.chunk}, or the last "
            "batches differ"
        )
    prefix = (
        source
        if compared == options.lines
        else _sampled(lines, WORK / "prefix.txt", compared)
    )
    print(f"{options.lines:,} lines drawn from {len(lines):,}; the model is {run}")
    uninterrupted = _monitored(
        "uninterrupted", prefix, WORK / "whole.out", run, options, compared
    )
    killed = _monitored(
        "killed",
        source,
        WORK / "killed.out",
        run,
        options,
        options.lines,
        kill=options.lines // 2,
    )
    resumed = _monitored(
        "resumed", source, WORK / "killed.out", run, options, options.lines
    )
    print(_table([uninterrupted, killed, resumed]))
    differing, count = _differing(WORK / "whole.out", WORK / "killed.out", compared)
    written = _count(WORK / "killed.out")
    growth = _growth(killed, resumed)
    print(
        f"{count:,} lines compared with the uninterrupted run, {differing:,} differ; {written:,} "
        "lines were written"
    )
    passed = differing == 0 and count == compared and written == options.lines
    equal = "yes" if passed else "NO"
    print(
        f"million: lines {written:,} · equal {equal} · memory at 100 % over memory at 1 % "
        f"{growth:.3f}"
    )
    return 0 if passed else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--run",
        type=Path,
        help="a run folder; without it a tiny model is trained on the sample",
    )
    parser.add_argument(
        "--minutes", type=float, default=3, help="training time of that model"
    )
    parser.add_argument(
        "--corpus",
        type=Path,
        help="lines to sample from; without it those of the built-in sample",
    )
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument(
        "--compare",
        type=int,
        help="compare only this many lines: the uninterrupted run ends after them",
    )
    parser.add_argument("--chunk", type=int, default=2000)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument(
        "options", nargs="*", help="further options of regard translate, after --"
    )
    return parser.parse_args()


def _trained(minutes: float) -> Path:
    """Train a tiny model on the sample, unless it exists."""
    run = WORK / f"run-{minutes:g}"
    if not (run / "model.safetensors").exists():
        command = [
            sys.executable,
            "-m",
            "regard",
            "train",
            "--preset",
            "transformer-tiny",
            "--out",
            str(run),
        ]
        files = [
            f"--{prefix}{side}={_sample() / f'{split}.{language}'}"
            for prefix, split in (("", "train"), ("valid-", "valid"))
            for side, language in (("source", "ko"), ("target", "en"))
        ]
        subprocess.run(
            [*command, *files, "--set", f"training.minutes={minutes}"], check=True
        )
    return run


def _sample() -> Path:
    folder = WORK / "sample"
    if not (folder / "train.ko").exists():
        from regard.learn.samples import korean_english

        korean_english(short=1.0).write(folder, "ko", "en")
    return folder


def _lines(corpus: Path | None) -> list[str]:
    return (corpus or _sample() / "train.ko").read_text(encoding="utf-8").splitlines()


def _sampled(lines: list[str], path: Path, count: int) -> Path:
    """Write `count` lines sampled from these; a shorter file is a prefix of a longer one."""
    generator = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{generator.choice(lines)}\n" for _ in range(count))
    return path


def _monitored(  # noqa: PLR0913 - one call, measured with all its options
    name: str,
    source: Path,
    output: Path,
    run: Path,
    options: argparse.Namespace,
    total: int,
    kill: int | None = None,
) -> MonitoredRun:
    """Translate, measuring the memory every fifth of a second; kill the process at line `kill`."""
    journal = output.with_name(output.name + ".part.json")
    arguments = {"output": output, "beam": options.beam, "chunk": options.chunk}
    command = [
        sys.executable,
        "-m",
        "regard",
        "translate",
        str(run),
        str(source),
        "--resume",
    ]
    command += [
        part for key, value in arguments.items() for part in (f"--{key}", str(value))
    ]
    result = MonitoredRun(name)
    first = _finished_lines(journal)
    before = clock()
    began = time.monotonic()
    last = previous = 0
    latest = first
    process = subprocess.Popen([*command, *options.options])
    while process.poll() is None:
        finished = _finished_lines(journal)
        memory = _memory(process.pid)
        latest = finished or latest
        result.peak = max(result.peak, memory)
        for point, share in MILESTONES.items():
            if memory and first < share * total <= latest:
                result.memory.setdefault(point, memory)
        if memory and finished > first:
            # The larger of two: the process may be ending already.
            last, previous = (
                max(memory, previous),
                memory,
            )
        if kill and latest >= kill:
            process.send_signal(signal.SIGKILL)
            process.wait()
            result.killed = latest = _finished_lines(journal)
            break
        time.sleep(0.2)
    if result.killed is None and process.returncode:
        sys.exit(f"the {name} run failed with status {process.returncode}")
    else:
        result.memory[LAST] = last
    result.seconds = time.monotonic() - began
    result.others = others(before, clock())
    result.lines = (total if result.killed is None else latest) - first
    return result


def _finished_lines(journal: Path) -> int:
    try:
        return int(json.loads(journal.read_text(encoding="utf-8"))["mark"]["lines"])
    except (OSError, ValueError):
        return 0


def _memory(process: int) -> int:
    """Return the bytes used by a process (PSS: what it shares with others in part)."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _table(runs: list[MonitoredRun]) -> str:
    points = "".join(f"{point:>8}" for point in (*MILESTONES, LAST))
    titles = f"{'until line':>12}{'seconds':>9}{'lines/s':>9}{'others':>8}"
    head = f"{'MB at':14}{points}{'peak':>8}{titles}"
    return "\n".join(["", head, *(run.row() for run in runs), ""])


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.0f}"


def _growth(killed: MonitoredRun, resumed: MonitoredRun) -> float:
    """Return the last memory of the resumed run over the first of the killed run."""
    first = killed.memory.get("1 %")
    last = resumed.memory.get(LAST)
    return last / first if first and last else float("nan")


def _differing(expected: Path, actual: Path, count: int) -> tuple[int, int]:
    """Return how many of the first lines of two files differ, and how many were compared."""
    with expected.open("rb") as left_file, actual.open("rb") as right_file:
        lines = islice(left_file, count), islice(right_file, count)
        pairs: Iterator[tuple[bytes | None, bytes | None]] = zip_longest(*lines)
        differing = compared = 0
        for left, right in pairs:
            differing = differing + (left != right)
            compared = compared + 1
    return differing, compared


def _count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


if __name__ == "__main__":
    sys.exit(main())
