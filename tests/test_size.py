"""The package stays small: a budget of lines for each room, kept in the map of CONTRIBUTING.md, and short functions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

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


def test_rooms_keep_their_budgets() -> None:
    sizes = {room: sum(map(lines_of, modules(room))) for room in BUDGET}
    causes = [f"{room} has {n:,} lines, {BUDGET[room]:,} were planned" for room, n in sizes.items() if n > BUDGET[room]]
    assert not causes, "remove code, or raise the number in CONTRIBUTING.md and give the reason there"
    causes = [f"{room} has only {n:,} lines" for room, n in sizes.items() if n <= 0.9 * BUDGET[room] - 30]
    assert not causes, "lower the budget in CONTRIBUTING.md"


def test_functions_are_short() -> None:
    causes = []
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    causes.append(f"{path.relative_to(ROOT)}, {node.name}: {length} lines")
    assert not causes, f"divide what is longer than {LONGEST_FUNCTION} lines"
