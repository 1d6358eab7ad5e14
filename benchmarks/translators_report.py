"""Tables and ratios of the decoding benchmark. `python benchmarks/translators_report.py` prints the
last ones again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from runs import WORK, table
from translators import FORCED, MODELS, TABLES, TRANSLATORS, Translator

__all__ = ["RESULTS", "report"]

RESULTS = WORK / "translate.json"
HEADS = (
    "system",
    "model",
    "sentences/s",
    "lowest–highest",
    "p50 ms",
    "p95 ms",
    "peak MB",
    "measured on",
    "others' cores",
)
QUALITY = ("BLEU", "over float32", "same tokens")
OTHERS = ("hf", "opennmt", "eole", "joeynmt")

Measured = dict[str, Any]
"""Everything in translate.json: `settings`, `runs` and `quality`."""


@dataclass(frozen=True)
class Row:
    """Runs of one system with one model."""

    name: str
    model: str
    runs: list[dict[str, Any]]

    @property
    def translator(self) -> Translator:
        """The system."""
        return TRANSLATORS[self.name]

    @property
    def speed(self) -> float:
        """Sentences per second."""
        return self.median_of("sentences_s")

    @property
    def latency(self) -> float:
        """Milliseconds per request."""
        return self.median_of("p50_ms")

    @property
    def valid(self) -> bool:
        """True if every sentence got the required number of tokens, if there is one."""
        return all(
            run["mode"] != "forced" or run["shortest"] == run["longest"] == FORCED
            for run in self.runs
        )

    @property
    def disturbed(self) -> bool:
        """True if other processes used the processor in a run that counts."""
        return any(run["disturbed"] for run in self.runs)

    def median_of(self, field: str) -> float:
        """Return the median of a field over the runs."""
        return median(run[field] for run in self.runs)


def report(measured: Measured) -> str:
    """Return all tables, the failures and, at the end, the ratios."""
    parts = [part for mode in ("forced", "natural") for part in _tables(measured, mode)]
    parts += [failures] if (failures := _failures(measured)) else []
    return "\n\n".join([*parts, _ratios(measured)])


def _tables(measured: Measured, mode: str) -> Iterator[str]:
    for title, models in TABLES.items():
        for beam in sorted({run["beam"] for run in measured["runs"]}):
            if rows := _rows(measured, mode, models, beam):
                yield _table(
                    measured,
                    rows,
                    mode,
                    f"{title}, beam {beam}, {_lengths(mode)}",
                    beam,
                )


def _lengths(mode: str) -> str:
    return (
        f"{FORCED} tokens for every sentence" if mode == "forced" else "natural length"
    )


def _rows(
    measured: Measured, mode: str, models: tuple[str, ...], beam: int
) -> list[Row]:
    """Return the rows of a table, the fastest first."""
    rows = []
    for name in TRANSLATORS:
        for model in models:
            key = (mode, model, beam, name)
            runs = [
                run
                for run in measured["runs"]
                if tuple(run[k] for k in ("mode", "model", "beam", "name")) == key
            ]
            if successful := [run for run in runs if "error" not in run]:
                rows.append(Row(name, model, successful))
    return sorted(rows, key=lambda row: -row.speed)


def _table(
    measured: Measured, rows: list[Row], mode: str, title: str, beam: int
) -> str:
    natural = mode == "natural"
    cells = [(*HEADS, *(QUALITY if natural else ()))]
    cells += [
        _cells(row) + (_quality(measured, row, beam) if natural else ()) for row in rows
    ]
    notes = [MODELS[model] for model in dict.fromkeys(row.model for row in rows)]
    notes = [f"models: {'; '.join(notes)}"]
    notes += [
        f"{_label(row)}: {_settings(row)}" for row in rows if row.runs[-1]["setting"]
    ]
    invalid = [row for row in rows if not row.valid]
    notes += [
        f"{_label(row)}: not valid, as it did not write {FORCED} tokens for every sentence"
        for row in invalid
    ]
    if any(row.disturbed for row in rows):
        notes.append("\\* other processes used the processor in a run that counts")
    return "\n".join([f"## {title}", "", table(cells), "", *notes])


def _label(row: Row) -> str:
    return f"{row.translator.label} {_precision(row)}"


def _precision(row: Row) -> str:
    """Return the precision; for CTranslate2 the type that was found fastest."""
    many = row.runs[-1]["setting"].get("many")
    return str(many["type"]) if many else row.translator.precision


def _settings(row: Row) -> str:
    """Format the settings that were found best."""
    many, one = (row.runs[-1]["setting"][part] for part in ("many", "one"))
    return (
        f"{many['workers']} × {many['threads']} threads, batches of {many['batch']}; "
        f"alone {one['type']} by {one['threads']} threads"
    )


def _cells(row: Row) -> tuple[str, ...]:
    speeds = [run["sentences_s"] for run in row.runs]
    disturbance = [
        run["other_cores"] for run in row.runs if run["other_cores"] is not None
    ]
    return (
        _label(row) + (" *" if row.disturbed else ""),
        row.model,
        f"{row.speed:,.1f}",
        f"{min(speeds):,.1f}–{max(speeds):,.1f}",
        f"{row.latency:,.2f}",
        f"{row.median_of('p95_ms'):,.2f}",
        f"{row.median_of('peak_rss_mb'):,.0f}",
        f"{row.median_of('sentences'):,.0f}, {row.median_of('requests'):.0f} alone",
        f"{max(disturbance):.2f}" if disturbance else "unknown",
    )


def _quality(measured: Measured, row: Row, beam: int) -> tuple[str, ...]:
    """Return BLEU, its difference to Regard in float32, and the share of sentences with the same
    tokens.
    """
    scores = measured.get("quality", {})
    own, ours = (
        scores.get(f"{row.model} {beam} {name}", {})
        for name in (row.name, "regard-float32")
    )
    bleu = own.get("bleu")
    reference = ours.get("bleu")
    same = own.get("same")
    return (
        "-" if bleu is None else f"{bleu:.2f}",
        "-" if bleu is None or reference is None else f"{bleu - reference:+.2f}",
        "-" if same is None else f"{same:.1%}",
    )


def _failures(measured: Measured) -> str:
    """Return each run that failed, with its last error message."""
    failed = {
        f"{run['name']}, {run['mode']}, {run['model']}, beam {run['beam']}": run[
            "error"
        ]
        for run in measured["runs"]
        if "error" in run
    }
    return "\n\n".join(f"{run} failed:\n{error}" for run, error in failed.items())


def _ratios(measured: Measured) -> str:
    """Return Regard's speed over that of the fastest other system, at forced length; above 1,
    Regard is faster.
    """
    first = {
        beam: _ratio_of(measured, "rnn", beam, ("spine",), _throughput)
        for beam in (1, 5)
    }
    lines = [f"Regard / its first search, rnn: beam 1 {first[1]} beam 5 {first[5]}"]
    for model in ("tiny", "base"):
        for beam in (1, 5):
            speed, latency = (
                _ratio_of(measured, model, beam, OTHERS, kind)
                for kind in (_throughput, _request_rate)
            )
            lines.append(
                f"Regard / best of other toolkits, {model}, beam {beam}: throughput {speed} "
                f"latency {latency}"
            )
    lines += _auto(measured)
    lines += [
        f"beam 5: {_ratio_line(measured, 5)}",
        f"ratio {_ratio_line(measured, 1)}",
    ]
    return "\n".join(lines)


def _auto(measured: Measured) -> Iterator[str]:
    """Yield the ratios of the engine `auto` over CTranslate2, if both were run."""
    for model in ("tiny", "base"):
        for beam in (1, 5):
            rows = {row.name: row for row in _rows(measured, "natural", (model,), beam)}
            if (auto := rows.get("regard-auto")) and (other := rows.get("ctranslate2")):
                throughput = auto.speed / other.speed
                latency = other.latency / auto.latency
                title = f"{model}, beam {beam}, natural length"
                yield (
                    f"Regard, engine auto / CTranslate2, {title}: throughput {throughput:.2f} "
                    f"latency {latency:.2f}"
                )


def _ratio_line(measured: Measured, beam: int) -> str:
    theirs = ("ctranslate2", "ctranslate2-float32")
    kinds = {"throughput": _throughput, "latency": _request_rate}
    return " ".join(
        f"{model}-{name} {_ratio_of(measured, model, beam, theirs, kind)}"
        for model in ("base", "tiny")
        for name, kind in kinds.items()
    )


def _ratio_of(
    measured: Measured,
    model: str,
    beam: int,
    theirs: tuple[str, ...],
    kind: Callable[[Row], float],
) -> str:
    """Return the figure of Regard's best precision over the best of theirs."""
    rows = [row for row in _rows(measured, "forced", (model,), beam) if row.valid]
    ours = [kind(row) for row in rows if row.translator.ours]
    others = [kind(row) for row in rows if row.name in theirs]
    return f"{max(ours) / max(others):.2f}" if ours and others else "-"


def _throughput(row: Row) -> float:
    return row.speed


def _request_rate(row: Row) -> float:
    return 1 / row.latency


if __name__ == "__main__":
    if not RESULTS.is_file():
        sys.exit("nothing has been measured yet: run `make bench-translate` first")
    print(report(json.loads(RESULTS.read_text())))
