"""Names and docstrings of the package: docstrings begin with a verb or a noun, and no variable has
a vague name.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import regard

pytestmark = pytest.mark.system  # reads every file

ROOT = Path(regard.__file__).parent
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
RIDDLE = re.compile(r"(What|Which|Where|Whether|How|As|That) ")
VAGUE = {"found", "some", "told", "said", "heard"}


def test_docstrings_and_variables_say_the_thing() -> None:
    problems = []
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ""
            if isinstance(node, DOCUMENTED):
                text = ast.get_docstring(node) or ""
                if not RIDDLE.match(text):
                    continue
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                text = node.id
            elif isinstance(node, ast.arg):
                text = node.arg
            if text in VAGUE or RIDDLE.match(text):
                line = getattr(node, "lineno", 1)
                problems.append(f"{path.relative_to(ROOT)}:{line} {text[:60]}")
    assert not problems, (
        "begin with a verb in the imperative or a noun, and name the thing"
    )
