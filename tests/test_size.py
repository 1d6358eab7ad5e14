"""The package stays small: a budget of lines for each wing, kept in CONTRIBUTING.md, and short functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import Path

import regard

ROOT = Path(regard.__file__).parent
MAP = Path(__file__).parent.parent / "CONTRIBUTING.md"
LONGEST_FUNCTION = 60
TABLE = MAP.read_text(encoding="utf-8").partition("| wing | rooms |")[2]
ROW = re.compile(r"^\| (?P<wing>\w+) \| (?P<rooms>[^|]*) ?\| (?P<lines>[\d,]+) \| (?P<more>[\d,]+) \|$", re.MULTILINE)
BUDGETS = {
    row["wing"]: (int(row["lines"].replace(",", "")), int(row["more"].replace(",", ""))) for row in ROW.finditer(TABLE)
}
WINGS = {row["wing"]: re.findall(r"`(\w+)`", row["rooms"]) for row in ROW.finditer(TABLE)}
ENTRIES = range(23, 26)
"""Entries of the package's folder: a table of contents."""


def size(rooms: Collection[str] | None = None) -> int:
    """Count the lines of some rooms, or of those that no wing names."""
    named = {room for names in WINGS.values() for room in names}
    return sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for path in ROOT.rglob("*.py")
        for room in [path.relative_to(ROOT).parts[0].removesuffix(".py")]
        if (room in rooms if rooms else room not in named)
    )


def test_the_package_is_a_table_of_contents() -> None:
    entries = [path.name for path in ROOT.iterdir() if path.name != "__pycache__"]
    assert len(entries) in ENTRIES, "a new room is a decision: make room first"
    rooms = {name.removesuffix(".py") for name in entries} - {"__init__", "__main__", "py.typed"}
    described = set(re.findall(r"^\| \d+ \| `(\w+)/?` \|", MAP.read_text(encoding="utf-8"), re.MULTILINE))
    assert rooms == described, "the map of CONTRIBUTING.md describes every room once"


def test_wings_keep_their_budgets() -> None:
    sizes = {wing: size(rooms) for wing, rooms in WINGS.items() if wing != "TOTAL"}
    sizes["TOTAL"] = sum(sizes.values())
    assert sizes.keys() == BUDGETS.keys()
    for column in (0, 1):
        wings = [budget[column] for wing, budget in BUDGETS.items() if wing != "TOTAL"]
        assert sum(wings) == BUDGETS["TOTAL"][column], "the total of the table is not the sum of its wings"
    limits = {wing: lines + more for wing, (lines, more) in BUDGETS.items()}
    causes = [f"{wing} has {n:,} lines of {limits[wing]:,}" for wing, n in sizes.items() if n > limits[wing]]
    assert not causes, "make room first: remove as many lines as you add"
    causes = [f"{wing} has only {n:,} lines" for wing, n in sizes.items() if n <= 0.9 * BUDGETS[wing][0] - 30]
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
