"""Marks of tests that need what not every operating system has."""

from __future__ import annotations

import os
import sys

import pytest

posix = pytest.mark.skipif(
    os.name != "posix",
    reason="needs signals, forks, links or named pipes as on Linux and macOS",
)
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="reads /proc, which only Linux has"
)
