"""The files of a comparison: the report as a page, all data as JSON, tables as CSV, and the texts
that were scored.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
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
    _write_csv(out / "scores.csv", _scores(comparison))
    _write_csv(out / "breakdowns.csv", _breakdowns(comparison))
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


def _scores(comparison: Comparison) -> Iterable[Sequence[object]]:
    yield (
        "run",
        "system",
        "seed",
        "score",
        "value",
        "low",
        "high",
        "p",
        "against",
        "signature",
    )
    for run in comparison.runs:
        for score in run.scores:
            yield (
                run.name,
                run.system,
                run.seed,
                score.name,
                score.value,
                score.low,
                score.high,
                score.p,
                score.against,
                score.signature,
            )


def _breakdowns(comparison: Comparison) -> Iterable[Sequence[object]]:
    names = [
        "breakdown",
        "system",
        "bucket",
        "first",
        "last",
        "items",
        "score",
        "value",
        "low",
        "high",
    ]
    yield (*names, "minus baseline", "its low", "its high")
    for breakdown in comparison.breakdowns:
        for system, buckets in breakdown.systems.items():
            for bucket in buckets:
                row = (
                    breakdown.key,
                    system,
                    bucket.label,
                    bucket.first,
                    bucket.last,
                    bucket.items,
                    breakdown.score,
                    bucket.value,
                    bucket.low,
                    bucket.high,
                )
                yield (*row, *(bucket.lead or ("", "", "")))


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
