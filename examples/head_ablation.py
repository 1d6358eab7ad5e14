"""Head ablation (Michel et al. 2019; Voita et al. 2019): the score that is lost without each head.

    python head_ablation.py runs/first test.ko test.en

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
from regard.pipeline import FolderTranslator


def chrf(
    translator: FolderTranslator,
    lines: Sequence[str],
    references: Sequence[str],
    change: AbstractContextManager[None],
) -> float:
    """Return the chrF of the translations while the model is changed."""
    with change, warnings.catch_warnings():
        warnings.simplefilter("ignore", LineWarning)  # of what a head was needed for
        outputs = [result.text for result in translator.translate(lines)]
    metrics = scores(outputs, [references])
    return next(metric.value for metric in metrics if metric.name == "chrF")


def ablation_table(
    translator: FolderTranslator, lines: Sequence[str], references: Sequence[str]
) -> list[dict[str, object]]:
    """Return layer, head, chrF and its loss for each head, the largest loss first."""
    whole = chrf(translator, lines, references, nullcontext())
    rows = []
    for layer, module in translator.model.named_modules():
        if not isinstance(module, Attention):
            continue
        for head in range(module.heads):
            change = regard.ablate(translator.model, layer, head)
            score = chrf(translator, lines, references, change)
            rows.append((whole - score, layer, head, score))
    rows.sort(key=lambda row: -row[0])
    return [
        {"layer": layer, "head": head, "chrF": score, "loss": loss}
        for loss, layer, head, score in rows
    ]


def markdown(rows: Sequence[dict[str, object]]) -> str:
    """Return the table as Markdown; heads are counted from 1, as in figures."""
    lines = ["| layer | head | chrF | loss |", "|---|---|---|---|"]
    for row in rows:
        head = int(str(row["head"])) + 1
        lines.append(
            f"| {row['layer']} | {head} | {row['chrF']:.1f} | {row['loss']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    run, source, reference = map(Path, sys.argv[1:])
    texts = [
        path.read_text(encoding="utf-8").splitlines() for path in (source, reference)
    ]
    loaded = regard.load(run, task="translation")
    assert isinstance(loaded, FolderTranslator), "a runtime file has no model to ablate"
    print(markdown(ablation_table(loaded, *texts)))
