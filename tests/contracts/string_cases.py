"""The strings of `benchmarks/strings`, right translations of them, and planted faults."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "strings"


@cache
def benchmark(name: str) -> ModuleType:
    """Return a script of the folder as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None, f"{name} is a module"
    assert spec.loader is not None, f"{name} is a module"

    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def lines() -> list[dict[str, Any]]:
    """Return the thousand strings."""
    text = (FOLDER / "strings.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def texts(dialect: str) -> list[str]:
    """Return the strings of a dialect."""
    return [line["text"] for line in lines() if line["dialect"] == dialect]


DIALECTS = sorted({line["dialect"] for line in lines()})
