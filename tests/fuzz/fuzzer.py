"""Make the material, and run cases by their numbers."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import fuzz.damage
import fuzz.inputs
import fuzz.planted  # noqa: F401
import torch
import torch._dynamo  # which the optimizer imports, for a second in each forked process
from fuzz.cases import KINDS, Case, Judge
from fuzz.material import Material

import regard.cli


@cache
def material(folder: Path) -> Material:
    """Return the folders to attack; made before the first case, and used again where they are there
    already.
    """
    torch.set_num_threads(1)
    os.environ["REGARD_CACHE"] = str(folder / "cache")
    assert regard.cli.app, "imported once, before processes are forked"
    return Material(folder / "material")


def draw(number: int, seed: int, material: Material) -> Case:
    """Return case `number`."""
    case: Case = KINDS.draw(f"{seed} {number}", material)
    return case


@cache
def _judge(folder: Path, process: int) -> Judge:
    return Judge(material(folder), folder / f"work-{process}")


def attempt(work: tuple[int, int, Path]) -> tuple[int, str, str, list[str]]:
    """Run one case; return its number, verdict, name with seconds, and messages."""
    number, seed, folder = work
    result = _judge(folder, os.getpid())(draw(number, seed, material(folder)))
    messages = [line[:300] for line in result.outcome.err.splitlines()][-6:]
    name = f"{result.outcome.seconds:5.1f} s  {result.case.name}"
    return number, result.verdict, name, messages
