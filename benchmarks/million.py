"""A file of a million lines: is memory flat, and does a killed and resumed translation equal an undisturbed one?

`make bench-million`, or with the options below. Everything goes to .work/million/; the last line printed sums it up.
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
LOOKS = {"1 %": 0.01, "25 %": 0.25, "50 %": 0.5, "75 %": 0.75}
LAST = "100 %"  # the last look before the end


@dataclass
class Watched:
    """A translation that was watched while it ran."""

    name: str
    memory: dict[str, int] = field(default_factory=dict)  # bytes at each look
    peak: int = 0
    lines: int = 0  # of those translated by it, the number
    seconds: float = 0.0
    others: float | None = None
    killed: int | None = None  # at which line

    def row(self) -> str:
        """One line of the table."""
        looks = "".join(f"{_megabytes(self.memory.get(look)):>8}" for look in (*LOOKS, LAST))
        end = "end" if self.killed is None else f"{self.killed:,}"
        speed = self.lines / self.seconds if self.seconds else 0
        busy = "?" if self.others is None else f"{self.others:.2f}"
        return f"{self.name:14}{looks}{_megabytes(self.peak):>8}{end:>12}{self.seconds:>9.0f}{speed:>9,.0f}{busy:>8}"


def main() -> int:
    """Translate without a stop, then with one, and compare."""
    options = _options()
    WORK.mkdir(parents=True, exist_ok=True)
    for old in WORK.glob("*.out*"):
        old.unlink()
    run = options.run or _trained(options.minutes)
    lines = _lines(options.corpus)
    source = _repeated(lines, WORK / "in.txt", options.lines)
    compared = min(options.lines, options.compare or options.lines)
    if compared % options.chunk and compared < options.lines:
        sys.exit(f"--compare {compared}: must be a multiple of --chunk {options.chunk}, or the last batches differ")
    prefix = source if compared == options.lines else _repeated(lines, WORK / "prefix.txt", compared)
    print(f"{options.lines:,} lines drawn from {len(lines):,}; the model is {run}")
    whole = _watched("undisturbed", prefix, WORK / "whole.out", run, options, compared)
    killed = _watched("killed", source, WORK / "hurt.out", run, options, options.lines, kill=options.lines // 2)
    resumed = _watched("resumed", source, WORK / "hurt.out", run, options, options.lines)
    print(_table([whole, killed, resumed]))
    differing, count = _differing(WORK / "whole.out", WORK / "hurt.out", compared)
    there = _count(WORK / "hurt.out")
    grown = _growth(killed, resumed)
    print(f"{count:,} lines compared with the undisturbed run, {differing:,} differ; {there:,} lines are there")
    right = differing == 0 and count == compared and there == options.lines
    equal = "yes" if right else "NO"
    print(f"million: lines {there:,} · equal {equal} · memory at 100 % over memory at 1 % {grown:.3f}")
    return 0 if right else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a model; without it a tiny one is trained on the sample")
    parser.add_argument("--minutes", type=float, default=3, help="how long it is trained")
    parser.add_argument("--corpus", type=Path, help="lines to draw from; without it those of the sample")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--compare", type=int, help="compare so many lines only: the undisturbed run is shorter")
    parser.add_argument("--chunk", type=int, default=2000)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("options", nargs="*", help="further options of regard translate, after --")
    return parser.parse_args()


def _trained(minutes: float) -> Path:
    """A tiny model of the sample."""
    run = WORK / f"run-{minutes:g}"
    if not (run / "model.safetensors").exists():
        command = [sys.executable, "-m", "regard", "train", "--preset", "transformer-tiny", "--out", str(run)]
        files = [
            f"--{prefix}{side}={_sample() / f'{split}.{language}'}"
            for prefix, split in (("", "train"), ("valid-", "valid"))
            for side, language in (("source", "ko"), ("target", "en"))
        ]
        subprocess.run([*command, *files, "--set", f"training.minutes={minutes}"], check=True)
    return run


def _sample() -> Path:
    folder = WORK / "sample"
    if not (folder / "train.ko").exists():
        from regard.samples import korean_english

        korean_english(short=1.0).write(folder, "ko", "en")
    return folder


def _lines(corpus: Path | None) -> list[str]:
    return (corpus or _sample() / "train.ko").read_text(encoding="utf-8").splitlines()


def _repeated(lines: list[str], path: Path, count: int) -> Path:
    """So many lines drawn from these; a shorter file is the beginning of a longer one."""
    chance = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{chance.choice(lines)}\n" for _ in range(count))
    return path


def _watched(
    name: str, source: Path, output: Path, run: Path, options: argparse.Namespace, total: int, kill: int | None = None
) -> Watched:
    """Translate, looking at the memory every fifth of a second, and kill at a line."""
    journal = output.with_name(output.name + ".part.json")
    given = {"output": output, "beam": options.beam, "chunk": options.chunk, "workers": options.workers}
    command = [sys.executable, "-m", "regard", "translate", str(run), str(source), "--resume"]
    command += [part for key, value in given.items() for part in (f"--{key}", str(value))]
    found, first, before, began = Watched(name), _done(journal), clock(), time.monotonic()
    last = previous = 0
    latest, process = first, subprocess.Popen([*command, *options.options])
    while process.poll() is None:
        now, memory = _done(journal), _memory(process.pid)
        latest = now or latest
        found.peak = max(found.peak, memory)
        for look, share in LOOKS.items():
            if memory and first < share * total <= latest:
                found.memory.setdefault(look, memory)
        if memory and now > first:
            last, previous = max(memory, previous), memory  # a process that is going already counts for nothing
        if kill and latest >= kill:
            process.send_signal(signal.SIGKILL)
            process.wait()
            found.killed = latest = _done(journal)
            break
        time.sleep(0.2)
    if found.killed is None and process.returncode:
        sys.exit(f"the {name} run failed with status {process.returncode}")
    else:
        found.memory[LAST] = last
    found.seconds, found.others = time.monotonic() - began, others(before, clock())
    found.lines = (total if found.killed is None else latest) - first
    return found


def _done(journal: Path) -> int:
    try:
        return int(json.loads(journal.read_text(encoding="utf-8"))["mark"]["lines"])
    except (OSError, ValueError):
        return 0


def _memory(process: int) -> int:
    """Bytes that a process and its children occupy; what they share counts once (PSS)."""
    return sum(_occupied(each) for each in (process, *_children(process)))


def _children(process: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _occupied(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _table(runs: list[Watched]) -> str:
    looks = "".join(f"{look:>8}" for look in (*LOOKS, LAST))
    head = f"{'MB at':14}{looks}{'peak':>8}{'until line':>12}{'seconds':>9}{'lines/s':>9}{'others':>8}"
    return "\n".join(["", head, *(run.row() for run in runs), ""])


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.0f}"


def _growth(killed: Watched, resumed: Watched) -> float:
    """From the first look of the run that was killed to the last of the run that went on."""
    first, last = killed.memory.get("1 %"), resumed.memory.get(LAST)
    return last / first if first and last else float("nan")


def _differing(one: Path, other: Path, count: int) -> tuple[int, int]:
    """How many of the first lines differ, and how many there are."""
    with one.open("rb") as a, other.open("rb") as b:
        pairs: Iterator[tuple[bytes | None, bytes | None]] = zip_longest(islice(a, count), islice(b, count))
        differing = compared = 0
        for left, right in pairs:
            differing, compared = differing + (left != right), compared + 1
    return differing, compared


def _count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


if __name__ == "__main__":
    sys.exit(main())
