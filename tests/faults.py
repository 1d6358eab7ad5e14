"""Put one deliberate fault into each of some modules, and count how many of them the tests find.

    python tests/faults.py [--seed 1] [--count 20] [--tests quick|test] [--only N] [--jobs 2]
    [--list]

A fault is an inverted condition or a dropped statement inside a function, in a module and at a line
drawn with the seed. Each is made in a copy of the repository, on which the tests run until the
first failure; the working tree is not touched. The last line says how many were found. A fault that
the tests miss deserves a test, unless the program with it does the same as before.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = {"quick": "not slow and not system", "test": "not slow"}
"""The marks of what `make quick` and `make test` run."""
PATIENCE = 1800.0  # seconds; a fault may make a loop endless, which nobody misses


@dataclass(frozen=True)
class Fault:
    """A part of a module's text, and what replaces it."""

    path: Path
    line: int
    kind: str
    start: int
    end: int
    new: str

    def apply(self, root: Path) -> None:
        text = (root / self.path).read_bytes()
        changed = text[: self.start] + self.new.encode() + text[self.end :]
        (root / self.path).write_bytes(changed)

    def __str__(self) -> str:
        old = (ROOT / self.path).read_bytes()[self.start : self.end].decode()
        return f"{self.path}:{self.line} {self.kind}: {' '.join(old.split())[:90]}"


def faults_of(path: Path) -> list[Fault]:
    """Return every fault that can be made inside the functions of a module."""
    source = (ROOT / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def fault(node: ast.expr | ast.stmt, kind: str, new: str) -> Fault:
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        return Fault(path, node.lineno, kind, start, end, new)

    faults = []
    for node in _inside_functions(ast.parse(source)):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            condition = ast.get_source_segment(source.decode(), node.test) or ""
            inverted = f"(not ({condition}))"
            faults.append(fault(node.test, "inverted condition", inverted))
        elif isinstance(node, (ast.Assign, ast.AugAssign)) or (
            isinstance(node, ast.Expr)
            and not isinstance(node.value, (ast.Constant, ast.Yield, ast.YieldFrom))
        ):
            faults.append(fault(node, "dropped statement", "pass"))
    return faults


def _inside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    nodes = dict[ast.AST, None]()  # each once, in order
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in function.body:
                nodes.update(dict.fromkeys(ast.walk(statement)))
    yield from nodes


def draw(count: int, seed: int) -> list[Fault]:
    """Draw a fault in each of `count` modules."""
    chance = random.Random(seed)
    paths = [path for path in _tracked("regard") if path.suffix == ".py"]
    modules = list(filter(None, map(faults_of, paths)))
    return [chance.choice(faults) for faults in chance.sample(modules, count)]


def _tracked(*folders: str) -> list[Path]:
    command = ["git", "ls-files", "-z", *folders]
    listed = subprocess.check_output(command, cwd=ROOT, text=True)
    paths = [Path(name) for name in listed.split("\0") if name]
    return [path for path in paths if (ROOT / path).is_file()]


def first_failure(fault: Fault | None, tests: str, jobs: int) -> str | None:
    """Return the first line that pytest prints of a failure with this fault in place, or None if
    every test passes.
    """
    with tempfile.TemporaryDirectory(prefix="regard-fault-") as folder:
        for path in _tracked():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, Path(folder) / path)
        packages = list[str]()
        if fault:
            fault.apply(Path(folder))
            own = [Path("tests", part) for part in reversed(fault.path.parts[1:-1])]
            packages = [str(path) for path in own if (Path(folder) / path).is_dir()]
        environment = {**os.environ, "PYTHONPATH": folder}
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", RUNS[tests]]
        command = [sys.executable, "-m", "pytest", *options]
        # The tests of the fault's own package are a part of all: where one of them fails, the others
        # need not run.
        for part in (*packages[:1], f"-n{jobs}"):
            if failure := _failure([*command, part], folder, environment):
                return failure
    return None


def _failure(
    command: list[str], folder: str, environment: dict[str, str]
) -> str | None:
    """Run pytest; return the first line about a failure, or None if nothing fails."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the tests do not end within {PATIENCE / 60:.0f} minutes"
    if done.returncode in (0, 5):  # 5: no test of that package has these marks
        return None
    causes = [f"pytest ended with {done.returncode}"]
    for line in done.stdout.splitlines():
        if line.startswith(("FAILED", "ERROR", "E  ")):
            causes.append(line)
    return causes[-1]


def main() -> None:
    """Run the tests with each fault in turn and print which are found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--tests", choices=tuple(RUNS), default="quick")
    parser.add_argument(
        "--only", type=int, nargs="*", help="numbers of the faults to try"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes of pytest")
    parser.add_argument(
        "--list", action="store_true", help="print the faults and run nothing"
    )
    options = parser.parse_args()
    faults = draw(options.count, options.seed)
    numbers = options.only or range(1, options.count + 1)
    if (
        not options.list
        and not options.only
        and (failure := first_failure(None, options.tests, options.jobs))
    ):
        sys.exit(f"the tests fail without any fault: {failure}")
    results = []

    for number in numbers:
        fault = faults[number - 1]
        if options.list:
            print(f"{number:3} {fault}")
            continue
        start = time.monotonic()
        failure = first_failure(fault, options.tests, options.jobs)
        results.append(failure is not None)
        print(
            f"{number:3} {'found ' if failure else 'MISSED'} {time.monotonic() - start:5.0f} s  {fault}",
            flush=True,
        )
        print(f"    {failure[:160]}" if failure else "    no test fails", flush=True)

    if results:
        print(
            f"{sum(results)} of {len(results)} faults found by make {options.tests} (seed {options.seed})"
        )


if __name__ == "__main__":
    main()
