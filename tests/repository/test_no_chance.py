"""No test of the default run depends on the clock or on a draw: there is no chance that a busy
machine fails it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.time_limits import LEAST

pytestmark = pytest.mark.system  # reads every file

TESTS = Path(__file__).resolve().parents[1]
CLOCKS = {
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
}
LONGEST_SLEEP = 0.2
SEEDED = {
    "Random",
    "default_rng",
    "Generator",
    "fork_rng",
    "get_rng_state",
    "set_rng_state",
}
TOOLS = {"time_limits.py", "faults.py", "gpu_checks.py"}
"""Files that are no tests; those of `fuzz` but for its tests are none either."""


def _files() -> Iterator[Path]:
    for path in sorted(TESTS.rglob("*.py")):
        is_tool = path.name in TOOLS or (
            path.parent.name == "fuzz" and not path.name.startswith("test_")
        )
        if not is_tool and "node_modules" not in path.parts:
            yield path


def _is_slow(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr == "slow"
        for part in ast.walk(node)
    )


def _unmarked(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all nodes outside functions that are marked slow; none if the whole file is."""
    marks = (
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    )
    rest: list[ast.AST] = [] if any(map(_is_slow, marks)) else [tree]
    while rest:
        node = rest.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(
                child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            )
            if not (is_function and any(map(_is_slow, child.decorator_list))):
                rest.append(child)


def _problem(node: ast.AST) -> str:
    """Return what is wrong with a node, and what to do about it."""
    if isinstance(node, ast.ImportFrom) and node.module in ("time", "random"):
        return f"import {node.module} as a whole, so that its use is seen"
    if (
        isinstance(node, ast.Attribute)
        and ast.unparse(node.value) == "time"
        and node.attr in CLOCKS
    ):
        return f"{ast.unparse(node)}: use time_limit or wait_until of tests/helpers/time_limits.py, or count"
    if (
        isinstance(node, ast.keyword)
        and node.arg == "timeout"
        and isinstance(node.value, ast.Constant)
    ):
        seconds = node.value.value
        if seconds is not None and seconds < LEAST:
            return f"timeout={seconds}: wanted at least {LEAST} seconds, as machines may be busy"
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        first = node.args[0] if node.args else None
        if (
            name in ("time.sleep", "asyncio.sleep")
            and isinstance(first, ast.Constant)
            and first.value > LONGEST_SLEEP
        ):
            return f"{name}({first.value}): wait for an event, or use wait_until of tests/helpers/time_limits.py"
        module, _, function = name.rpartition(".")
        if function == "wait_for_timeout":
            return f"{name}: wait for what the page shows, or use wait_until of tests/helpers/time_limits.py"
        if module in ("random", "np.random", "numpy.random") and (
            function not in SEEDED or not node.args
        ):
            return (
                f"{name}: draw from a generator with a seed, such as random.Random(1)"
            )
        if name in ("uuid.uuid1", "uuid.uuid4", "os.urandom") or module == "secrets":
            return f"{name}: use a number that is the same in each run"
    return ""


def _problems(source: str) -> list[tuple[int, str]]:
    nodes = _unmarked(ast.parse(source))
    return sorted(
        (getattr(node, "lineno", 0), problem)
        for node in nodes
        if (problem := _problem(node))
    )


def test_no_test_depends_on_chance() -> None:
    problems = [
        f"{path.relative_to(TESTS.parent)}:{line}: {problem}"
        for path in _files()
        for line, problem in _problems(path.read_text(encoding="utf-8"))
    ]
    assert not problems, "\n".join(problems)
