"""Model card: the README of a model folder, with training data, command and scores."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.common.atomic import write_text
from regard.common.counting import counted
from regard.common.markdown import quote_command
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.data.languages import english_name
from regard.text.quality import Quality
from regard.training.best_weights import CARD
from regard.training.journal import describe_test
from regard.training.recipe import Recipe
from regard.training.run_record import RunRecord
from regard.visualisation.template import make_page


def write(folder: Path, recipe: Recipe, quality: Quality | None = None) -> None:
    """Write `README.md` from the recipe, the journal and the data of a run."""
    record = RunRecord.read(folder, recipe)
    name = folder.name
    text = make_page(
        "regard.training",
        "card.md",
        record=record,
        summary=summary(record, recipe),
        making=describe_making(record, quality),
        folder_name=name,
        loaded=f"regard.load({json.dumps(name, ensure_ascii=not name.isprintable())})",
        describe_experiment=describe_experiment,
        quote_command=quote_command,
    )
    write_text(folder / CARD, f"{text}\n")


def describe_experiment(ablations: Sequence[str]) -> str:
    """Return the warning of a model that is broken on purpose."""
    return f"**An experiment, not for use**: {'; '.join(ablations)}."


def summary(record: RunRecord, recipe: Recipe) -> str:
    """Return a paragraph for people who use the model: its purpose, training data and score."""
    images = recipe.data.images is not None
    source, target = map(english_name, recipe.data.languages.pair)
    does = (
        f"It translates {source} into {target}."
        if source and target
        else "It translates."
    )
    if images:
        does = "It describes images."
    count = record.pairs("train")
    noun = ("caption", "captions") if images else ("pair of texts", "pairs of texts")
    learnt = f"It has learnt from {counted(count, *noun)}" if count else ""
    score = ""
    if record.best:
        pairs = record.pairs("valid")
        unit = "validation caption" if images else "validation pair"
        tested = counted(pairs, unit) if pairs else f"{unit}s"
        score = f"On {tested} it reaches chrF {record.best['chrf']:.0f} of 100"
    facts = "; ".join(filter(None, (learnt, score))).replace("; On", "; on")
    facts = f" {facts}." if facts else ""
    return f"{does}{facts} Expect less of anything of another kind."


def describe_making(
    record: RunRecord, quality: Quality | None, recipe_file: str = "train.toml"
) -> str:
    """Return a list in Markdown of how a run was made, with its scores; the run has a recipe."""
    assert record.recipe is not None, "a model that was trained has a recipe"
    making = make_page(
        "regard.training",
        "making.md",
        record=record,
        quality=quality,
        recipe_file=recipe_file,
        tokenizer=bleu_tokenizer(record.recipe.data.languages.target),
        describe_test=describe_test,
    )
    return making.strip()


def command_line() -> str:
    """Return the command line of this process, quoted for a shell; empty if it is not `regard`."""
    program = Path(sys.argv[0])
    if program.name == "regard" or program.parts[-2:] == ("regard", "__main__.py"):
        return quote_command(*sys.argv[1:])
    return ""
