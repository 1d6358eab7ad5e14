"""Programs in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
