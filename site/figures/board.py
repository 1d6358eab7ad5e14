"""Board of the sixty trainings of the lab's experiment `failures`, from its results in the
package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib import resources
from typing import Any

from regard.common.bilingual import Language
from regard.learn.lab.experiments import failures
from regard.visualisation.colours import level
from regard.visualisation.figure import (
    MARGIN,
    Box,
    Figure,
    Group,
    Mark,
    Text,
    make_figure,
)
from regard.visualisation.screen import screen_width

LEFT, CELL, ROW = 150.0, 62.0, 30.0
NARROW_LEFT, NARROW_CELL = 104.0, 40.0
SIZE, SMALL = 13.0, 11.0
EDGE = 10.0
STARTS = ("warm", "cold")


def make() -> dict[str, Any]:
    """Return the runs, and the words for norms, starts and rates."""
    path = resources.files("regard.learn.lab").joinpath("results/failures.json")
    results = json.loads(path.read_text(encoding="utf-8"))
    runs = []
    for run in results["runs"]:
        norm, _, start = run["arm"].rpartition("-")
        kept = {key: run[key] for key in ("rate", "seed", "valid", "seconds")}
        runs.append({"norm": norm, "start": start, **kept})
    scores = [run["valid"] for run in runs]
    return {
        "norms": {key: asdict(words) for key, words in failures.NORMS.items()},
        "starts": {key: asdict(failures.TEXTS[key]) for key in STARTS},
        "rates": sorted({run["rate"] for run in runs}),
        "updates": failures.PLAN.updates,
        "warmup": failures.PLAN.updates // 4,
        "learns": failures.SHARE * max(scores),
        "best": max(scores),
        "runs": runs,
    }


def still(data: dict[str, Any], language: Language, _: dict[str, str]) -> Figure:
    """Draw the board: a field for each training, darker for a higher chrF."""
    title = failures.TEXTS["title"].by(language)
    groups = []
    top = MARGIN
    for start in STARTS:
        groups.append(Group(start, tuple(_fields(data, start, top, language))))
        top += (2 + len(data["norms"])) * ROW
    left, cell, _ = _sizes()
    width = left + cell * len(data["rates"]) + EDGE
    return make_figure(width, top, groups, title, title)


def _sizes() -> tuple[float, float, float]:
    """Return the left edge and the width of fields, and the size of their texts."""
    return (NARROW_LEFT, NARROW_CELL, SMALL) if screen_width() else (LEFT, CELL, SIZE)


def _fields(
    data: dict[str, Any], start: str, top: float, language: Language
) -> Iterator[Mark]:
    left, cell, size = _sizes()
    yield Text(EDGE, top + 20, data["starts"][start][language], SIZE)
    for column, rate in enumerate(data["rates"]):
        x = left + (column + 0.5) * cell
        yield Text(x, top + 20, f"{rate:g}", size, "muted", "middle")
    for row, (norm, words) in enumerate(data["norms"].items(), 1):
        y = top + row * ROW
        yield Text(EDGE, y + 20, words[language], size)
        for run in data["runs"]:
            if (run["norm"], run["start"]) == (norm, start):
                x = left + data["rates"].index(run["rate"]) * cell
                shade = level(run["valid"], data["best"])
                yield Box(x, y, cell - 2, ROW - 2, f"w{shade}")
                text = f"{run['valid']:.1f}"
                yield Text(x + cell / 2, y + 20, text, size, f"v{shade}", "middle")
