"""Tables and ratios of the training benchmark. `python benchmarks/report.py` prints the last ones
again.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from runs import table
from shapes import SHAPES, useful_flops
from systems import OURS, SYSTEMS, System

__all__ = ["RESULTS", "report"]

RESULTS = Path(__file__).resolve().parent / ".work" / "train.json"
ALIKE = 0.05  # a larger relative difference in parameters is noted
HEADS = (
    "system",
    "precision",
    "target tokens/s",
    "lowest–highest",
    "of Regard",
    "padding source, target",
    "parameters",
    "of matrix rate",
    "peak MB",
    "others' cores",
)

Measured = dict[str, Any]
"""Everything in train.json: `machine`, `settings` and `runs`."""


@dataclass(frozen=True)
class Row:
    """Runs of one system at one shape."""

    system: System
    shape: str
    runs: list[dict[str, Any]]

    def median_of(self, field: str) -> float:
        """Return the median of a field over the runs."""
        return median(run[field] for run in self.runs)

    @property
    def speed(self) -> float:
        """Target tokens per second, without padding."""
        return self.median_of("tgt_tok_s")

    @property
    def disturbed(self) -> bool:
        """True if other processes used the processor in a run that counts."""
        return any(run["disturbed"] for run in self.runs)


def report(measured: Measured) -> str:
    """Return all tables, the failures and, at the end, the ratios."""
    parts = [_table(measured, shape) for shape in SHAPES if _rows(measured, shape)]
    parts += [failures] if (failures := _failures(measured)) else []
    return "\n\n".join([*parts, _ratios(measured)])


def _rows(measured: Measured, shape: str) -> dict[str, Row]:
    """Return the rows of a table, the fastest first."""
    rows = {}
    for name, system in SYSTEMS.items():
        runs = [
            run
            for run in measured["runs"]
            if (run["system"], run["shape"]) == (name, shape)
        ]
        if successful := [run for run in runs if "error" not in run]:
            rows[name] = Row(system, shape, successful)
    return dict(sorted(rows.items(), key=lambda item: -item[1].speed))


def _table(measured: Measured, shape: str) -> str:
    rows = _rows(measured, shape)
    ours = rows.get(OURS)
    cells = [
        HEADS,
        *(
            _cells(row, ours, measured["machine"]["matrix_rate"])
            for row in rows.values()
        ),
    ]
    notes = []
    if any(row.disturbed for row in rows.values()):
        notes.append(
            "\\* other processes used the processor in one of its runs, and again when it was "
            "repeated"
        )
    if ours is not None:
        notes += [note for row in rows.values() if (note := _parameter_note(row, ours))]
    return "\n".join(
        [f"## {shape}", "", table(cells), *(["", *notes] if notes else [])]
    )


def _cells(
    row: Row, ours: Row | None, matrix_rate: dict[str, float]
) -> tuple[str, ...]:
    speeds = [run["tgt_tok_s"] for run in row.runs]
    disturbance = [
        run["other_cores"] for run in row.runs if run["other_cores"] is not None
    ]
    flops = useful_flops(SHAPES[row.shape], row.median_of("src_tok_s"), row.speed)
    precision = row.runs[-1]["precision"]
    return (
        row.system.label + (" *" if row.disturbed else ""),
        precision,
        f"{row.speed:,.0f}",
        f"{min(speeds):,.0f}–{max(speeds):,.0f}",
        f"{row.speed / ours.speed:.2f}" if ours else "",
        f"{row.median_of('pad_src'):.1%}, {row.median_of('pad_tgt'):.1%}",
        f"{row.runs[-1]['params']:,}",
        f"{flops / matrix_rate[precision]:.0%}" if flops else "",
        f"{row.median_of('peak_rss_mb'):,.0f}",
        f"{max(disturbance):.2f}" if disturbance else "unknown",
    )


def _parameter_note(row: Row, ours: Row) -> str | None:
    difference = row.runs[-1]["params"] / ours.runs[-1]["params"] - 1
    return (
        f"{row.system.label}: {difference:+.1%} parameters beside Regard"
        if abs(difference) > ALIKE
        else None
    )


def _failures(measured: Measured) -> str:
    """Return each system that failed at a shape, with its last error message."""
    failed = {
        (run["system"], run["shape"]): run["error"]
        for run in measured["runs"]
        if "error" in run
    }
    return "\n\n".join(
        f"{system} at {shape} failed:\n{error}"
        for (system, shape), error in failed.items()
    )


def _ratios(measured: Measured) -> str:
    """Return Regard's speed over the fastest peer's; at base in float32, and apart over
    transformers in bfloat16.
    """
    tiny, base, gru = (_rows(measured, shape) for shape in ("tiny", "base", "gru"))
    single = {
        name: row
        for name, row in base.items()
        if row.system.precision == "float32" or name == OURS
    }
    half = {name: row for name, row in base.items() if name in (OURS, "hf-bfloat16")}
    return (
        f"Regard / transformers in bfloat16, base: {_ratio(half)}\n"
        f"ratio tiny {_ratio(tiny)} base {_ratio(single)} gru {_ratio(gru)}"
    )


def _ratio(rows: dict[str, Row]) -> str:
    peers = [row.speed for row in rows.values() if not row.system.ours]
    return f"{rows[OURS].speed / max(peers):.2f}" if peers and OURS in rows else "-"


if __name__ == "__main__":
    if not RESULTS.is_file():
        sys.exit("nothing has been measured yet: run `make bench-train` first")
    print(report(json.loads(RESULTS.read_text())))
