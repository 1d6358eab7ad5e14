"""Memory of a long run: the caches of past batch shapes stay small."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from helpers.system_marks import linux

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


def run(program: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.skipif(not has_bfloat16("cpu"), reason="this processor trains in float32")
@linux
def test_batches_of_many_shapes_take_little_memory() -> None:
    """A program is compiled for each shape; 200 of them would take 250 MiB if all stayed in the
    cache.
    """
    environment = dict(os.environ)
    for name in os.environ:
        if name.endswith("_CACHE_CAPACITY"):
            del environment[name]

    assert float(run(SHAPES, environment)) < 150


def test_cache_sizes_set_by_the_user_are_kept() -> None:
    program = "import os, regard.training; print(os.environ['LRU_CACHE_CAPACITY'])"

    assert run(program, {**os.environ, "LRU_CACHE_CAPACITY": "7"}) == "7"
    assert os.environ["LRU_CACHE_CAPACITY"], "of this process, by the import above"
