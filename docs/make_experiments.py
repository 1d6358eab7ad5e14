"""Write docs/experiments.md, its graphs and the results in the package from a folder of `regard lab
NAME --full`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.common.atomic import write_text
from regard.common.bilingual import Text
from regard.common.errors import UsageError
from regard.learn.lab import EXPERIMENTS
from regard.learn.lab.findings import LABELS, OUTCOMES, Outcome, Part, Verdict
from regard.learn.lab.verdicts import despite_shifts

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "regard" / "learn" / "lab" / "results"
COMMON = {LABELS["small"].en, LABELS["full"].en}
"""Remarks of all experiments, which the head of the page makes."""
HEAD = """# Claims about attention, tried

`regard lab` lists the claims of [the notes](notes.md), five Korean introductions to attention that Regard set out
to implement. `regard lab NAME` tries one of them on your machine; `--korean` writes everything in Korean, and Ctrl-C
keeps what is done.

- `--full`, as here, takes 3 to 10 minutes on two cores at rest, 12 where others share them. Each model is trained at
  three learning rates or more (the sweep goes on while the last rate is the best, or nothing is learnt), and with three
  seeds at its best one, which the first seed's validation score picks.
- `--quick` took half a minute to 2.1 minutes there, and says beforehand how long it will take: it trains one seed of
  each model at the best rate of the results below, which are part of the package, and puts it beside them.

A part of a claim **holds** if every seed of one model is above every seed of the other, and their means are 1 chrF
apart at least (0.05 nats of a loss); where a part names a bound, if every seed is beyond it. Of three against three
seeds, chance puts all of one above all of the other once in twenty times: one or two of the parts on this page may hold
by chance alone, and together, since some have runs in common (`attention` and `directions`; `heads`, `positions`,
`mask` and `scaling`). A part **does not hold** if that is the other way round, or if all seeds lie within 1. Else it is
**undecided**, as it is if the worse model was still getting better at the last rate tried, or if the outcome was
another one with all learning rates halved, or doubled. Means stand with the lowest and the highest seed behind them.
`dictionary` (one rate), `failures` (one seed of each field) and `costs` (no training) have rules of their own. Models
are small and are trained for a minute on sentences of a grammar; what they show need not hold for large ones.

The runs come from several machines, partly beside other work, two at once: their minutes mean little; the seconds in
the package, by which `--quick` forecasts, were measured at rest, those of `score` beside other work.
This page and the results in the package are written by `python docs/make_experiments.py FOLDER`.
`python benchmarks/lab_rates.py FOLDER` makes the folder, and tries every verdict again with all learning rates halved
and doubled ([log](log/attention.md)).
"""


def page(results: Path, names: Sequence[str] = ()) -> str:
    """Return the page; graphs are copied into docs/images/lab. Raises UsageError if an experiment
    has no result.

    `names`: the experiments to renew, all if not given; the others keep their part of the page.
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
            f"{len(causes)} of {len(folders)} results are missing; the page stays as it was",
        )
    text = (DOCS / "experiments.md").read_text(encoding="utf-8")
    earlier = {
        part.partition("\n")[0]: f"## {part.strip()}\n"
        for part in text.split("\n## ")[1:]
    }
    path = results / "shifts.json"
    shifts = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    parts = [HEAD]
    (DOCS / "images" / "lab").mkdir(parents=True, exist_ok=True)
    for name, experiment in EXPERIMENTS.items():
        head = (
            f"## {experiment.title.en}\n"
            "\n"
            f"`regard lab {name}` · {experiment.claim.en} (notes {experiment.source})\n"
            "\n"
        )
        if name not in folders:
            parts.append(earlier.get(experiment.title.en, f"{head}No result yet.\n"))
            continue
        values = _result(folders[name], shifts.get(name, []))
        shutil.copy(
            folders[name] / "graph.svg", DOCS / "images" / "lab" / f"{name}.svg"
        )
        shown = "\n".join(
            f"{number}. {part['claim']['en']} **{OUTCOMES['part_' + part['outcome']].en}.** "
            f"{part['reason']['en']} *What would change this: {part['change']['en']}.*"
            for number, part in enumerate(values["verdict"]["parts"], 1)
        )
        text = (
            f" {values['verdict']['text']['en']}" if values["verdict"]["text"] else ""
        )
        parts.append(
            head + f"**{OUTCOMES[values['outcome']].en}.**{text}\n\n{shown}\n\n"
            f"![{experiment.title.en}](images/lab/{name}.svg)\n\n"
            + "\n".join(_table(table) for table in values["tables"])
            + f"\n{experiment.method.en} {'; '.join(_facts(values))}.\n"
            + "".join(
                f"\n- {remark['en']}"
                for remark in values["remarks"]
                if remark["en"] not in COMMON
            )
            + "\n"
        )
        if "sweep" in values:
            RESULTS.mkdir(exist_ok=True)
            write_text(RESULTS / f"{name}.json", _short_json(values["sweep"]))
    return "\n".join(parts)


def _result(folder: Path, shifted: list[list[Outcome]]) -> dict[str, Any]:
    """Read a result; parts that came out otherwise with all learning rates halved or doubled are
    undecided.
    """
    values: dict[str, Any] = json.loads(
        (folder / "result.json").read_text(encoding="utf-8")
    )
    if shifted:
        parts = [
            despite_shifts(
                Part(
                    part["outcome"],
                    *(Text(**part[key]) for key in ("claim", "reason", "change")),
                ),
                outcomes,
            )
            for part, outcomes in zip(
                values["verdict"]["parts"], zip(*shifted, strict=True), strict=True
            )
        ]
        values["verdict"]["parts"] = [asdict(part) for part in parts]
        values["outcome"] = Verdict(tuple(parts)).outcome
        values["sweep"]["shifted"] = shifted
    return values


def _facts(values: dict[str, Any]) -> list[str]:
    """Return what the result says of its run, without the folder that holds the models."""
    return [fact["en"].partition("; the models are in")[0] for fact in values["facts"]]


def _short_json(sweep: dict[str, Any]) -> str:
    """Write a sweep with a line for each run and numbers of four digits."""
    runs = ",\n  ".join(
        json.dumps(_rounded(run), ensure_ascii=False) for run in sweep["runs"]
    )
    head = json.dumps(
        {key: sweep[key] for key in ("best", "recipes", "shifted") if key in sweep}
    )[1:-1]
    return f'{{{head}, "runs": [\n  {runs}\n]}}\n'


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: inner if key == "rate" else _rounded(inner)
            for key, inner in value.items()
        }
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _table(table: dict[str, Any]) -> str:
    rows = [table["columns"], *table["rows"]]
    lines = ["| " + " | ".join(_english(cell) for cell in row) + " |" for row in rows]
    lines.insert(1, "|---" * len(table["columns"]) + "|")
    return f"{_english(table['title'])}:\n\n" + "\n".join(lines) + "\n"


def _english(cell: Any) -> str:
    return (cell if isinstance(cell, str) else str(cell["en"])).replace("|", "\\|")


def main() -> None:
    """Write the page, or end with all reasons why it cannot be written."""
    if len(sys.argv) < 2:
        sys.exit(
            "wanted a folder of results: python docs/make_experiments.py FOLDER [NAME …]"
        )
    try:
        text = page(Path(sys.argv[1]), sys.argv[2:])
    except UsageError as problem:
        sys.exit(str(problem))
    (DOCS / "experiments.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
