"""The package's folder reads as a table of contents, and functions are short."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import regard

pytestmark = pytest.mark.system  # reads every file

ROOT = Path(regard.__file__).parent
MAP = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
MOST_STATEMENTS = 45
"""Of a function. Lines are not counted, since that would make them dense."""


def test_the_package_is_a_table_of_contents() -> None:
    entries = {path.name.removesuffix(".py") for path in ROOT.iterdir()}
    packages = entries - {"__pycache__", "__init__", "__main__", "py.typed"}
    text = MAP.read_text(encoding="utf-8")
    described = re.findall(r"^\| \d+ \| `(\w+)/?` \|", text, re.MULTILINE)
    assert sorted(packages) == sorted(described), "each once in CONTRIBUTING.md"


def test_functions_are_short() -> None:
    causes = []
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count = sum(isinstance(inner, ast.stmt) for inner in ast.walk(node)) - 1
                if count > MOST_STATEMENTS:
                    causes.append(f"{path}, {node.name}: {count} statements")
    assert not causes, f"divide what has more than {MOST_STATEMENTS} statements"
