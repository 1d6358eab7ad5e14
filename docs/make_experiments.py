"""Write a page for each experiment of the lab and their index, in English and in Korean, from the
results that Regard ships.

With a folder of `regard lab NAME --full` as an argument, its results take the place of the shipped
ones first.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.common.atomic import write_text
from regard.common.bilingual import Language, Text, words_by
from regard.common.errors import UsageError
from regard.learn.lab import EXPERIMENTS, Findings
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.experiment_page import NARROW
from regard.learn.lab.experiment_runs import shipped_results, with_sweep
from regard.learn.lab.findings import LABELS, OUTCOMES, Table
from regard.learn.lab.sweep import Sweep
from regard.visualisation import draw_svg
from regard.visualisation.charts import Chart, layout_chart
from regard.visualisation.figure import Figure

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "regard" / "learn" / "lab" / "results"
MEASURED = DOCS / "experiments" / "measured.json"
"""Measurements besides the scores of runs, such as curves of training and times."""
FOLDERS: dict[Language, Path] = {"en": DOCS, "ko": DOCS / "ko"}
WIDEST = 880.0
"""Pixels of a graph whose text of 12 pixels has 10 in a page."""
COMMON = {LABELS["small"], LABELS["full"]}
"""Remarks of all experiments, which the index makes."""
NAMED = re.compile(r"`([\w-]+)`")
NOTES = {
    True: Text("notes {source}", "노트 {source}"),
    False: Text("note {source}", "노트 {source}"),
}
CHANGE = Text("What would change this", "이 판단이 바뀌려면")
RUNS = Text(
    "{count} runs, {minutes:.1f} minutes of training in all, each on one thread.",
    "{count}번 학습, 모두 합해 {minutes:.1f}분(각각 스레드 하나).",
)
MORE = Text("Numbers, graph and method", "수치와 그래프, 방법")
BACK = Text("All experiments", "모든 실험")


class Replay(Bench):
    """Bench that trains nothing: its sweeps and its measurements are the recorded ones."""

    recorded: Mapping[str, Any]

    def sweep(self, _arms: Any, names: Any, *_others: Any) -> Sweep:
        assert self.shipped is not None, "every experiment that trains ships its sweep"
        self.digests = dict(self.shipped.recipes)
        runs = tuple(replace(run, is_shipped=False) for run in self.shipped.runs)
        self.swept = replace(self.shipped, names=names, runs=runs)
        return self.swept

    def data(self, _name: str = "sample") -> Path:
        for file in ("train.ko", "test.ko", "test.en"):
            (self.out / file).write_text("\n")
        return self.out

    def record(self, name: str, _measure: object) -> Any:
        return self.recorded[name]


def replayed(name: str) -> Findings:
    """Compute the findings of an experiment from its recorded results."""
    experiment = EXPERIMENTS[name]
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        bench = Replay(Path(folder), True, 1, 1, lambda _: None, shipped_results(name))
        bench.recorded = measured.get(name, {})
        return with_sweep(experiment.run(bench), bench, experiment)


def pages() -> dict[Path, str]:
    """Return all pages and graphs by path."""
    findings = {name: replayed(name) for name in EXPERIMENTS}
    result = {}
    for language, folder in FOLDERS.items():
        head, method = (
            (DOCS / "experiments" / f"{part}.{language}.txt").read_text(
                encoding="utf-8"
            )
            for part in ("head", "method")
        )
        sections = [head]
        for name, experiment in EXPERIMENTS.items():
            page = "\n".join(_page(experiment, findings[name], language))
            result[folder / "experiments" / f"{name}.md"] = page
            sections.append("\n".join(_section(experiment, findings[name], language)))
            title = experiment.title.by(language)
            chart = findings[name].graph.chart(title, language)
            graph = folder.relative_to(DOCS) / "lab" / name
            images = DOCS / "images" / graph
            result[images.with_suffix(".svg")] = draw_svg(_within_page(chart))
            result[images.with_name(f"{name}-narrow.svg")] = draw_svg(
                layout_chart(chart, NARROW)
            )
        names = "\n".join(f"experiments/{name}" for name in EXPERIMENTS)
        sections.append(method)
        sections.append(f"```{{toctree}}\n:hidden:\n\n{names}\n```\n")
        result[folder / "experiments.md"] = "\n".join(sections)
    return result


def _within_page(chart: Chart) -> Figure:
    """Lay out a chart in as many columns as a page has room for."""
    layouts = [
        layout_chart(replace(chart, columns=columns))
        for columns in range(chart.columns, 0, -1)
    ]
    return next((layout for layout in layouts if layout.width <= WIDEST), layouts[-1])


def _page(
    experiment: Experiment, findings: Findings, language: Language
) -> Iterator[str]:
    """Yield the lines of an experiment's page."""
    title = experiment.title.by(language)
    folder = "../images" if language == "en" else "../../images/ko"
    yield f"# {title}\n\n{_claim(experiment, language)}\n"
    yield f"{_headline(findings, language, '')}\n"
    for number, part in enumerate(findings.verdict.parts, 1):
        outcome = OUTCOMES[f"part_{part.outcome}"].by(language)
        yield (
            f"{number}. {part.claim.by(language)} **{outcome}.** {part.reason.by(language)} "
            f"*{CHANGE.by(language)}:* {part.change.by(language)}."
        )
    caption = findings.graph.caption.by(language)
    yield f"\n![{title}: {caption}]({folder}/lab/{experiment.name}.svg)\n"
    for table in findings.tables:
        yield _table(table, language)
    yield f"{experiment.method.by(language)} {_runs(experiment.name, language)}".strip()
    yield ""
    for remark in findings.remarks:
        if remark not in COMMON:
            yield f"- {_linked(remark.by(language), '')}"
    yield f"\n[{BACK.by(language)}](../experiments.md)\n"


def _section(
    experiment: Experiment, findings: Findings, language: Language
) -> Iterator[str]:
    """Yield the lines of an experiment in the index."""
    yield f"## {experiment.title.by(language)}\n\n{_claim(experiment, language)}\n"
    headline = _headline(findings, language, "experiments/")
    yield f"{headline} [{MORE.by(language)}](experiments/{experiment.name}.md)\n"


def _claim(experiment: Experiment, language: Language) -> str:
    option = " --korean" if language == "ko" else ""
    notes = NOTES["," in experiment.source].fill(source=experiment.source)
    claim = experiment.claim.by(language)
    return f"`regard lab {experiment.name}{option}` · {claim} ({notes.by(language)})"


def _headline(findings: Findings, language: Language, folder: str) -> str:
    verdict = findings.verdict
    text = verdict.text.by(language) if verdict.text else ""
    outcome = OUTCOMES[verdict.outcome].by(language)
    return f"**{outcome}.** {_linked(text, folder)}"


def _linked(text: str, folder: str) -> str:
    """Make links of the names of experiments."""

    def link(match: re.Match[str]) -> str:
        name = match[1]
        return f"[`{name}`]({folder}{name}.md)" if name in EXPERIMENTS else match[0]

    return NAMED.sub(link, text)


def _runs(name: str, language: Language) -> str:
    """Return the number of runs and the minutes that they took; empty without any."""
    sweep = shipped_results(name)
    if sweep is None:
        return ""
    minutes = sum(run.seconds for run in sweep.runs) / 60
    return RUNS.fill(count=len(sweep.runs), minutes=minutes).by(language)


def _table(table: Table, language: Language) -> str:
    rows = [table.columns, *table.rows]
    lines = []
    for row in rows:
        cells = [words_by(cell, language).replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    lines.insert(1, "|---" * len(table.columns) + "|")
    return f"{words_by(table.title, language)}:\n\n" + "\n".join(lines) + "\n"


def keep(results: Path, names: Sequence[str] = ()) -> None:
    """Put the results of a folder, of all experiments if none is named, in the place of the shipped
    ones. Raises UsageError if an experiment has no result.
    """
    folders = {name: results / f"{name}-full" for name in names or EXPERIMENTS}
    missing = {
        name: folder
        for name, folder in folders.items()
        if not (folder / "result.json").is_file()
    }
    if causes := [
        f"{folder} has no result.json; run `regard lab {name} --full`"
        for name, folder in missing.items()
    ]:
        raise UsageError(
            *causes,
            f"{len(causes)} of {len(folders)} results are missing; the pages stay as they were",
        )
    path = results / "shifts.json"
    shifts = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    for name, folder in folders.items():
        values = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        if "sweep" in values:
            sweep = values["sweep"]
            if name in shifts:
                sweep["shifted"] = shifts[name]
            write_text(RESULTS / f"{name}.json", _short_json(sweep))
        if values["measured"]:
            measured[name] = _rounded(values["measured"])
    text = json.dumps(measured, ensure_ascii=False, indent=1)
    write_text(MEASURED, _short_lists(text) + "\n")


def _short_json(sweep: dict[str, Any]) -> str:
    """Write a sweep with a line for each run and numbers of four digits."""
    runs = ",\n  ".join(
        json.dumps(_rounded(run), ensure_ascii=False) for run in sweep["runs"]
    )
    head = json.dumps(
        {key: sweep[key] for key in ("best", "recipes", "shifted") if key in sweep}
    )[1:-1]
    return f'{{{head}, "runs": [\n  {runs}\n]}}\n'


def _short_lists(text: str) -> str:
    """Join the lines of lists of numbers."""
    return re.sub(
        r"\[[\s\d.,e\[\]+-]+\]", lambda match: re.sub(r"\s+", " ", match[0]), text
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: inner if key == "rate" else _rounded(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def main() -> None:
    """Write the pages, or end with all reasons why they cannot be written."""
    if sys.argv[1:]:
        try:
            keep(Path(sys.argv[1]), sys.argv[2:])
        except UsageError as problem:
            sys.exit(str(problem))
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)


if __name__ == "__main__":
    main()
