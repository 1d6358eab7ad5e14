"""Head ablation (Michel et al. 2019; Voita et al. 2019): the score that is lost without each head.

    python head_ablation.py runs/first test.ko test.en [chrF | BLEU | TER]

prints a table with a row for each attention head, those that the model needs most first. Each row
is a translation of the whole test file while the output of that head is zero.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import regard
from regard.attention import Attention
from regard.common.errors import LineWarning
from regard.evaluation.text_metrics import scores
from regard.pipeline import FolderTranslator, load_translator


def score(
    translator: FolderTranslator,
    lines: Sequence[str],
    references: Sequence[str],
    change: AbstractContextManager[None],
    name: str = "chrF",
) -> float:
    """Return a score of the translations while the model is changed."""
    with change, warnings.catch_warnings():
        warnings.simplefilter("ignore", LineWarning)  # of what a head was needed for
        outputs = [result.text for result in translator.translate(lines)]
    metrics = scores(outputs, [references])
    return {metric.name: metric.value for metric in metrics}[name]


def ablation_table(
    translator: FolderTranslator,
    lines: Sequence[str],
    references: Sequence[str],
    name: str = "chrF",
) -> list[dict[str, object]]:
    """Return layer, head, score and what is lost for each head, the largest loss first."""
    whole = score(translator, lines, references, nullcontext(), name)
    sign = -1 if name == "TER" else 1  # the lower, the better
    rows = []
    for layer, module in translator.model.named_modules():
        if not isinstance(module, Attention):
            continue
        for head in range(module.heads):
            change = regard.ablate(translator.model, layer, head)
            without = score(translator, lines, references, change, name)
            rows.append((sign * (whole - without), layer, head, without))
    rows.sort(key=lambda row: -row[0])
    return [
        {"layer": layer, "head": head, name: without, "loss": loss}
        for loss, layer, head, without in rows
    ]


def markdown(rows: Sequence[dict[str, object]]) -> str:
    """Return the table as Markdown; heads are counted from 1, as in figures."""
    names = [*rows[0]]
    lines = [f"| {' | '.join(names)} |", "|---|---|---|---|"]
    for row in rows:
        head = int(str(row["head"])) + 1
        lines.append(
            f"| {row['layer']} | {head} | {row[names[2]]:.1f} | {row['loss']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    run, *paths = sys.argv[1:4]
    texts = [Path(path).read_text("utf-8").splitlines() for path in paths]
    print(markdown(ablation_table(load_translator(run), *texts, *sys.argv[4:])))
