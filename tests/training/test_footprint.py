"""Memory of a long run: the caches of past batch shapes stay small."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from regard.training.recipe import has_bfloat16

pytestmark = pytest.mark.slow

SHAPES = """
import regard.training
import torch
from regard.common.processes import peak_memory

weight = torch.randn(256, 128, requires_grad=True)
for rows in range(8, 8 + 8 * 200, 8):
    if rows == 80:
        before = peak_memory()
    with torch.autocast("cpu", torch.bfloat16):
        torch.nn.functional.linear(torch.randn(rows, 128), weight).float().sum().backward()
print(peak_memory() - before)
"""


@pytest.mark.skipif(not has_bfloat16("cpu"), reason="this processor trains in float32")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")
def test_batches_of_many_shapes_take_little_memory() -> None:
    """A program is compiled for each shape; 200 of them would take 250 MiB if all stayed in the
    cache.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_CACHE_CAPACITY")
    }
    command = [sys.executable, "-c", SHAPES]
    process = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert float(process.stdout) < 150


def test_cache_sizes_set_by_the_user_are_kept() -> None:
    command = [
        sys.executable,
        "-c",
        "import os, regard.training; print(os.environ['LRU_CACHE_CAPACITY'])",
    ]
    environment = {**os.environ, "LRU_CACHE_CAPACITY": "7"}
    process = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert process.stdout.strip() == "7"
    assert os.environ["LRU_CACHE_CAPACITY"], "of this process, by the import above"
