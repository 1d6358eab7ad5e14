"""No test of the default run depends on the clock or on a draw: there is no chance that a busy
machine fails it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.text_table import items
from helpers.time_limits import LEAST

pytestmark = pytest.mark.system  # reads every file

TESTS = Path(__file__).resolve().parents[1]
CLOCKS = items("""
    time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time
""")
LONGEST_SLEEP = 0.2
SEEDED = items("Random default_rng Generator fork_rng get_rng_state set_rng_state")
LIMITS = "tests/helpers/time_limits.py"
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
    if isinstance(node, ast.Attribute) and node.attr in CLOCKS:
        if ast.unparse(node.value) == "time":
            return f"time.{node.attr}: use a limit of {LIMITS}, or count"
    elif isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
        seconds = node.value.value
        if node.arg == "timeout" and seconds is not None and seconds < LEAST:
            return f"timeout={seconds}: wanted at least {LEAST} seconds, as machines may be busy"
    elif isinstance(node, ast.Call):
        return _problem_of_call(node)
    return ""


def _problem_of_call(call: ast.Call) -> str:
    name = ast.unparse(call.func)
    module, _, function = name.rpartition(".")
    first = call.args[0] if call.args else None
    is_long = function == "wait_for_timeout"
    if name in ("time.sleep", "asyncio.sleep") and isinstance(first, ast.Constant):
        is_long = first.value > LONGEST_SLEEP
    if is_long:
        return f"{name}: wait for an event, or use wait_until of {LIMITS}"
    is_seeded = function in SEEDED and bool(call.args)
    if module in ("random", "np.random", "numpy.random") and not is_seeded:
        return f"{name}: draw from a generator with a seed, such as random.Random(1)"
    if name == "gzip.compress" and not any(
        word.arg == "mtime" for word in call.keywords
    ):
        return f"{name}: give mtime=0, as the time would be in its bytes"
    if name in ("uuid.uuid1", "uuid.uuid4", "os.urandom") or module == "secrets":
        return f"{name}: use a number that is the same in each run"
    return ""


def test_no_test_depends_on_chance() -> None:
    problems = []
    for path in _files():
        for node in _unmarked(ast.parse(path.read_text(encoding="utf-8"))):
            if problem := _problem(node):
                line = getattr(node, "lineno", 0)
                problems.append(f"{path}:{line}: {problem}")
    assert not problems, "\n".join(problems)
