"""The model card: a README in the model folder that says what the model is, from what, and how good."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.atomic import write_bytes
from regard.data.corpus import CorpusFacts
from regard.training.journal import read
from regard.training.recipe import Recipe
from regard.training.trainer import Outcome

__all__ = ["write"]

_SIDES = "pairs | SHA-256 of the source side | of the target side"


def write(folder: Path, recipe: Recipe, corpora: Mapping[str, CorpusFacts], outcome: Outcome) -> None:
    """Write `README.md` from what the run knows: nothing in it is typed in by hand."""
    looks = {line["update"]: line for line in read(folder / "journal.jsonl") if line["event"] == "valid"}
    best = looks.get(outcome.progress.best_update)
    parts, pictures = recipe.model, recipe.data.images is not None
    kind = "captioning" if pictures else "translation"
    columns = "captions | SHA-256 of the pictures | of the captions" if pictures else _SIDES
    text = f"""# A {kind} model trained with Regard

- Encoder: {parts.encoder.kind}; decoder: {parts.decoder.kind}. The whole recipe is in `train.toml`.
- Command: {_command()}
- Training: {outcome.progress.update} updates, {outcome.progress.tokens:,} target pieces, \
{outcome.progress.seconds:.0f} s, {recipe.training.precision}, seed {recipe.training.seed}; {outcome.reason}.
- {_scores(best)}
- Licence: that of the data it was trained on; nobody has stated one here.

| data | {columns} |
|---|---|---|---|
{chr(10).join(_row(name, facts) for name, facts in corpora.items())}

Use it: {_use(folder.name, pictures)} in Python.
"""
    write_bytes(folder / "README.md", text.encode())


def _use(name: str, pictures: bool) -> str:
    if pictures:
        return f'`regard caption {name} PICTURE`, or `regard.load("{name}").caption("PICTURE")`'
    return f'`regard translate {name}`, or `regard.load("{name}").translate(["…"])`'


def _command() -> str:
    """How the run was started, where that was the command line."""
    if Path(sys.argv[0]).name in ("regard", "__main__.py"):
        return f"`{shlex.join(['regard', *sys.argv[1:]])}`"
    return "called from Python"


def _scores(best: Mapping[str, Any] | None) -> str:
    if best is None:
        return "No validation was reached: there are no scores."
    how = "(sacreBLEU's defaults)"
    if "cider" in best:
        how = f"(of words in lower case, all references), CIDEr-D {best['cider']:.2f}"
    return (
        f"Validation at update {best['update']}, greedy search: chrF {best['chrf']:.2f}, BLEU {best['bleu']:.2f} "
        f"{how}, {best['loss']:.4f} nats a piece."
    )


def _row(name: str, facts: CorpusFacts) -> str:
    return f"| {name} | {facts.pairs:,} | `{facts.source}` | `{facts.target}` |"
