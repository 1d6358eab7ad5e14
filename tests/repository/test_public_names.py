"""No public name disappears unnoticed; `import regard` offers exactly the documented names, loaded
when first used.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.text_table import items
from repository.public_names import public_names, recorded_names

import regard

NAMES = {
    *items(
        "Caption Captioner Comparison compare Publication RegardError Run Translation Translator"
    ),
    *items("ablate documents load presets publish train watch __version__"),
    *items("register_decoder register_encoder register_normaliser register_positions"),
    *items(
        "register_score register_tokenizer reproduce Reproduction Callback TrainingContext"
    ),
}
REMOVED = {
    "regard check --json": "--format json, beside sarif and github",
    "regard.Translation.with_doubts threshold": "trust, which has the calibration, too",
    "regard check PAIRS": "any number of files: FILES",
    "regard check TARGET": "any number of files: FILES",
}
REMOVED |= {
    f"regard.comparison.result.SeedLead{name}": "Lead, also of two runs, with its test"
    for name in ("", ".high", ".low", ".p", ".value")
}
"""Recorded names that there are no longer, each with the reason."""


def test_no_public_name_disappears_without_a_reason() -> None:
    names = public_names()
    recorded = recorded_names()

    assert recorded - names == set(REMOVED), "list what is removed, with the reason"
    assert not names - recorded, "new: run tests/repository/public_names.py"
    assert all(REMOVED.values())


def test_the_public_names_are_these_and_exist() -> None:
    assert set(regard.__all__) == set(dir(regard)) == NAMES
    assert all(hasattr(regard, name) for name in NAMES)
    with pytest.raises(
        AttributeError, match="no attribute 'trian'; it has Callback, Caption"
    ):
        _ = regard.trian


def test_editors_see_every_name() -> None:
    tree = ast.parse(Path(regard.__file__).read_text(encoding="utf-8"))
    (typing_only,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = {
        (alias.name, node.module)
        for node in ast.walk(typing_only)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert {name for name, _ in imports} == NAMES - {"RegardError", "__version__"}
    for name, module in imports:
        value = getattr(regard, name)
        own = value.__name__ if inspect.ismodule(value) else value.__module__
        assert own.startswith(str(module))


def test_importing_regard_or_its_command_line_does_not_import_pytorch() -> None:
    code = "import regard.cli, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
