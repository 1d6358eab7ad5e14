"""The package stays small: a budget of lines for each room, kept in the map of CONTRIBUTING.md, and short functions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import regard

ROOT = Path(regard.__file__).parent
MAP = Path(__file__).parent.parent / "CONTRIBUTING.md"
LONGEST_FUNCTION = 60
ROW = re.compile(r"^\|[^|]*\| `(?P<room>\w+)/?` \| (?P<lines>[\d,]+) \| (?P<reason>[^|]+) \|$", re.MULTILINE)
BUDGET = {row["room"]: int(row["lines"].replace(",", "")) for row in ROW.finditer(MAP.read_text(encoding="utf-8"))}


def modules(room: str) -> list[Path]:
    """Return the Python files of a room: those of a folder, or the one file of that name."""
    return sorted((ROOT / room).rglob("*.py")) or [ROOT / f"{room}.py"]


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_every_room_has_a_budget() -> None:
    rooms = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    assert rooms - {"__init__", "__main__"} == set(BUDGET), "the map of CONTRIBUTING.md lists every room once"


@pytest.mark.parametrize("room", BUDGET)
def test_a_room_keeps_its_budget(room: str) -> None:
    lines = sum(map(lines_of, modules(room)))
    assert lines <= BUDGET[room], (
        f"{room} has {lines:,} lines, {BUDGET[room]:,} were planned: remove code, or raise the number in "
        "CONTRIBUTING.md and give the reason there"
    )
    assert lines > 0.9 * BUDGET[room] - 30, f"{room} has only {lines:,} lines: lower its budget in CONTRIBUTING.md"


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_are_short(path: Path) -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, functions):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines; divide it"
