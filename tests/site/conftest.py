"""The site, built once for all tests of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.text_table import items

from regard.runtime import native

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built as `make site` does, where every warning is an error."""
    for name in ("furo", "myst_parser"):
        reason = "the generator of the site is not installed: pip install '.[site]'"
        pytest.importorskip(name, reason=reason)
    try:
        native.wasm_file()
    except RuntimeError as problem:
        pytest.skip(str(problem))

    folder = tmp_path_factory.mktemp("site")
    command = items("-m sphinx --quiet --fail-on-warning --keep-going -c site -d")
    folders = [str(folder / "doctrees"), "docs", str(folder / "html")]
    done = subprocess.run(
        [sys.executable, *command, *folders],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr

    return folder / "html"
