"""Memory of a long run: caches of past batch shapes stay small."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from regard.training.recipe import has_bfloat16

SHAPES = """
import resource
import regard.training
import torch

weight = torch.randn(256, 128, requires_grad=True)
for rows in range(8, 8 + 8 * 500, 8):
    if rows == 80:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.autocast("cpu", torch.bfloat16):
        torch.nn.functional.linear(torch.randn(rows, 128), weight).float().sum().backward()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(not has_bfloat16("cpu"), reason="this processor trains in float32")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ru_maxrss is counted in something else")
def test_batches_of_many_shapes_take_little_memory() -> None:
    """A program is compiled for each shape: 500 of them are 400 MiB, where they are all kept."""
    given = {name: value for name, value in os.environ.items() if not name.endswith("_CACHE_CAPACITY")}
    line = [sys.executable, "-c", SHAPES]
    done = subprocess.run(line, env=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 200


def test_cache_sizes_that_the_user_set_hold() -> None:
    line = [sys.executable, "-c", "import os, regard.training; print(os.environ['LRU_CACHE_CAPACITY'])"]
    for given, wanted in ({}, "64"), ({"LRU_CACHE_CAPACITY": "7"}, "7"):
        rest = {name: value for name, value in os.environ.items() if name != "LRU_CACHE_CAPACITY"}
        done = subprocess.run(line, env={**rest, **given}, capture_output=True, text=True, timeout=120, check=True)
        assert done.stdout.strip() == wanted
