"""The files of a comparison: the report as a page, all data as JSON, tables as CSV, and the texts
that were scored.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from regard.common.atomic import write_text
from regard.comparison.report import render_report
from regard.comparison.report_figures import breakdown_chart, breakdown_title
from regard.comparison.result import JSON, Comparison
from regard.data.text import write_lines
from regard.visualisation import save

REPORT = "report.html"


def folder_problems(out: Path) -> list[str]:
    """Return a sentence for each reason why a comparison cannot be written into this folder."""
    existing = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        return [
            f"`out={out}`: nothing can be written in {existing}; choose another folder"
        ]
    if (out / "train.toml").exists() or (out / "config.json").exists():
        return [f"`out={out}`: is a run or model folder; choose another"]
    return []


def write_files(comparison: Comparison, out: Path) -> None:
    """Write all files, each one atomically; the report comes last."""
    out.mkdir(parents=True, exist_ok=True)
    comparison.save(out / JSON)
    _write_csv(out / "scores.csv", _table(comparison.rows("score")))
    _write_csv(out / "systems.csv", _table(comparison.rows("system")))
    _write_csv(out / "breakdowns.csv", _table(comparison.rows("range")))
    _write_csv(out / "sentences.csv", _sentences(comparison))
    texts = out / "texts"
    texts.mkdir(exist_ok=True)
    references = zip_longest(*comparison.test.references, fillvalue="")
    for number, lines in enumerate(references, 1):
        write_lines(texts / f"reference{number}.txt", lines)
    names = _file_names([run.name for run in comparison.runs])
    for name, run in zip(names, comparison.runs, strict=True):
        write_lines(texts / f"{name}.txt", run.outputs)
    _draw_figures(comparison, out / "figures")
    write_text(out / REPORT, render_report(comparison))


def _draw_figures(comparison: Comparison, folder: Path) -> None:
    """Draw quality by length and by word frequency as figures for slides and papers."""
    folder.mkdir(exist_ok=True)
    for breakdown in comparison.breakdowns:
        chart = breakdown_chart(comparison, breakdown, breakdown_title(breakdown))
        if chart is not None:
            save(chart, folder / f"{breakdown.key}.svg")


def _file_names(names: Sequence[str]) -> list[str]:
    """Return a different file name for each run, also on file systems that ignore case."""
    file_names = list[str]()
    used = set[str]()
    for name in names:
        letters = [
            letter if letter.isalnum() or letter in "-_." else "-" for letter in name
        ]
        stem = "".join(letters).lstrip(".")
        file_name = stem or "run"
        number = 2
        while file_name.casefold() in used:
            file_name = f"{stem}-{number}"
            number += 1
        file_names.append(file_name)
        used.add(file_name.casefold())
    return file_names


def _table(rows: Sequence[Mapping[str, object]]) -> Iterable[Sequence[object]]:
    """Yield the names of all columns, then the cells of each row."""
    longest_first = sorted(
        rows, key=len, reverse=True
    )  # the baseline has no differences
    names = list(dict.fromkeys(name for row in longest_first for name in row))
    yield names
    for row in rows:
        yield [row.get(name) for name in names]


def _sentences(comparison: Comparison) -> Iterable[Sequence[object]]:
    names = [run.name for run in comparison.runs]
    yield (
        "number",
        "source",
        "reference",
        *names,
        *(f"score {name}" for name in names),
    )
    for index, source in enumerate(comparison.test.sources):
        outputs = [run.outputs[index] for run in comparison.runs]
        scores = [run.sentence_scores[index] for run in comparison.runs]
        yield (
            index + 1,
            source,
            comparison.test.references[index][0],
            *outputs,
            *scores,
        )


def _write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    write_text(path, file.getvalue())
