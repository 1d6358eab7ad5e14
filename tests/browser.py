"""A real browser, node, and the library as WebAssembly; tests that need what is missing are
skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
MORE = ["--disable-component-update", "--disable-sync"]
NODE_MODULES = Path(
    os.environ.get("NODE_MODULES", Path(__file__).parent / "serving" / "node_modules")
)


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the script of axe-core, which finds what keeps people from using a page."""
    script = NODE_MODULES / "axe-core" / "axe.min.js"
    if not script.is_file():
        pytest.skip("axe-core is not installed: npm ci --prefix tests/serving")
    return script.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def wasm() -> Path:
    """Return the library for browsers, if it was built from today's sources."""
    # Late: annotations of what is imported before conftest.py are not checked.
    from regard.runtime import (
        native,
    )

    try:
        return native.wasm_file()
    except RuntimeError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def node() -> str:
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    return program


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM:
        pytest.skip("there is no Chromium: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=QUIET + MORE)
        yield chromium
        chromium.close()
