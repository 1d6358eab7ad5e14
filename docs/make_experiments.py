"""Write docs/experiments.md and its graphs from a folder with the results of `regard lab NAME --full`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from regard.common.errors import UsageError
from regard.learn.lab import EXPERIMENTS
from regard.learn.lab.findings import OUTCOMES

DOCS = Path(__file__).parent
HEAD = """# The claims of the notes, tried

`regard lab` lists the claims of [the notes](notes.md), five Korean introductions to attention that Regard set out
to implement.
`regard lab NAME` tries one of them on your machine: `--quick` in at most three minutes
on two cores, `--full`, as here, in at most ten, with three seeds; `--korean` writes everything in Korean, and Ctrl-C
keeps what is done. Each experiment prints a table, draws a graph, writes a page, and gives a verdict with the numbers
behind it. Models are small and are trained for a minute or two on the sample; what they show need not hold for large
ones. Intervals hold 95 %, over seeds (Student) or, of quality by length, over sentences and seeds.

This page is written by `python docs/make_experiments.py FOLDER`, from the results in the folder.
"""


def page(results: Path) -> str:
    """Return the page; graphs are copied into docs/images/lab. Raises UsageError if an experiment has no result."""
    folders = {name: results / f"{name}-full" for name in EXPERIMENTS}
    missing = {name: folder for name, folder in folders.items() if not (folder / "result.json").is_file()}
    if causes := [f"{folder} has no result.json; run `regard lab {name} --full`" for name, folder in missing.items()]:
        raise UsageError(*causes, f"{len(causes)} of {len(folders)} results are missing; the page stays as it was")
    parts = [HEAD]
    (DOCS / "images" / "lab").mkdir(parents=True, exist_ok=True)
    for name, experiment in EXPERIMENTS.items():
        values = json.loads((folders[name] / "result.json").read_text(encoding="utf-8"))
        shutil.copy(folders[name] / "graph.svg", DOCS / "images" / "lab" / f"{name}.svg")
        verdict = values["verdict"]
        parts.append(
            f"## {experiment.title.en}\n\n`regard lab {name}` · {experiment.claim.en} (notes {experiment.source})\n\n"
            f"**{OUTCOMES[verdict['outcome']].en}.** {verdict['text']['en']}\n\n"
            f"![{experiment.title.en}](images/lab/{name}.svg)\n\n"
            + "\n".join(_table(table) for table in values["tables"])
            + "".join(f"\n{remark['en']}\n" for remark in values["remarks"])
            + f"\n{experiment.method.en} {'; '.join(_facts(values))}.\n"
        )
    return "\n".join(parts)


def _facts(values: dict[str, Any]) -> list[str]:
    """Return what the result says of its run, without the folder that holds the models."""
    return [fact["en"].partition("; the models are in")[0] for fact in values["facts"]]


def _table(table: dict[str, Any]) -> str:
    rows = [table["columns"], *table["rows"]]
    lines = ["| " + " | ".join(_english(cell) for cell in row) + " |" for row in rows]
    lines.insert(1, "|---" * len(table["columns"]) + "|")
    return f"{_english(table['title'])}:\n\n" + "\n".join(lines) + "\n"


def _english(cell: Any) -> str:
    return (cell if isinstance(cell, str) else str(cell["en"])).replace("|", "\\|")


def main() -> None:
    """Write the page, or end with all reasons why it cannot be written."""
    if len(sys.argv) != 2:
        sys.exit("wanted one folder of results: python docs/make_experiments.py FOLDER")
    try:
        text = page(Path(sys.argv[1]))
    except UsageError as problem:
        sys.exit(str(problem))
    (DOCS / "experiments.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
