"""The site, built once for all tests of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.runtime import native

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built as `make site` does, where every warning is an error."""
    pytest.importorskip(
        "furo",
        reason="the generator of the site is not installed: pip install '.[site]'",
    )
    pytest.importorskip(
        "myst_parser",
        reason="the generator of the site is not installed: pip install '.[site]'",
    )
    try:
        native.wasm_file()
    except RuntimeError as problem:
        pytest.skip(str(problem))

    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "-c",
        "site",
    ]
    done = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), "docs", str(folder / "html")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr

    return folder / "html"
