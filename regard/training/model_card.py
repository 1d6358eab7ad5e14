"""Model card: the README of a model folder, with training data, command and scores."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.common.atomic import write_bytes
from regard.common.counting import counted
from regard.common.markdown import code_span, escape_text, quote_argument
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.data.corpus_facts import CorpusFacts
from regard.data.languages import english_name
from regard.training.journal import JournalEvent, of_kind
from regard.training.journal import read as read_journal
from regard.training.recipe import Recipe
from regard.training.trainer import Outcome

_SIDES = "pairs | SHA-256 of the source side | of the target side"


def write(
    folder: Path, recipe: Recipe, corpora: Mapping[str, CorpusFacts], outcome: Outcome
) -> None:
    """Write `README.md` from the recipe, the journal and the corpora of a run."""
    events = read_journal(folder / "journal.jsonl")
    validations = {event["update"]: event for event in of_kind(events, "valid")}
    best = validations.get(outcome.progress.best_update)
    model = recipe.model
    images = recipe.data.images is not None
    kind = "captioning" if images else "translation"
    columns = "captions | SHA-256 of the images | of the captions" if images else _SIDES
    experiment = (
        f"**An experiment, not for use**: {'; '.join(model.ablations())}.\n\n"
        if model.ablations()
        else ""
    )
    rows = (
        f"| {escape_text(name)} | {facts.pairs:,} | `{facts.source}` | `{facts.target}` |"
        for name, facts in corpora.items()
    )
    table = "\n".join(rows)
    text = f"""# A {kind} model trained with Regard

{experiment}\
{_in_short(recipe, corpora, best)}

## How it was made

- Encoder: {model.encoder.kind}; decoder: {model.decoder.kind}. The whole recipe is in `train.toml`.
- {_languages(recipe)}
- Command: {_command()}
- Training: {counted(outcome.progress.update, "update")}, \
{outcome.progress.tokens:,} target tokens, {outcome.progress.seconds:.0f} s, \
{recipe.training.precision}, seed {recipe.training.seed}; {outcome.reason}.
- {_scores(best, recipe.data.languages.target)}
{_test(events)}\
{_rights(recipe)}

| data | {columns} |
|---|---|---|---|
{table}

Use it: {_usage(folder.name, images)} in Python.
"""
    write_bytes(folder / "README.md", text.encode())


def _in_short(
    recipe: Recipe, corpora: Mapping[str, CorpusFacts], best: JournalEvent | None
) -> str:
    """Return a paragraph for people who use the model: its purpose, training data and score."""
    images = recipe.data.images is not None
    pairs = {name: facts.pairs for name, facts in corpora.items()}
    source, target = map(english_name, recipe.data.languages.pair)
    does = (
        f"It translates {source} into {target}."
        if source and target
        else "It translates."
    )
    tested = counted(pairs.get("valid", 0), "validation pair")
    score = f"; on {tested} it reaches chrF {best['chrf']:.0f} of 100" if best else ""
    count = pairs.get("train", 0)
    learnt = (
        counted(count, "caption")
        if images
        else counted(count, "pair of texts", "pairs of texts")
    )
    return (
        f"{'It describes images.' if images else does} It has learnt from {learnt}{score}. "
        "Expect less of anything of another kind."
    )


def _languages(recipe: Recipe) -> str:
    languages = recipe.data.languages
    images = recipe.data.images is not None
    kind = "Language of the captions" if images else "Languages"
    return (
        f"{kind}: {' → '.join(code or 'unknown' for code in languages.pair[images:])}."
    )


def _usage(name: str, images: bool) -> str:
    command = "caption" if images else "translate"
    argument = " IMAGE" if images else ""
    call = '.caption("IMAGE")' if images else '.translate(["…"])'
    loaded = f"regard.load({json.dumps(name, ensure_ascii=not name.isprintable())})"
    return (
        f"{code_span(f'regard {command} {quote_argument(name)}{argument}')}, or "
        f"{code_span(loaded + call)}"
    )


def _command() -> str:
    """Return the command line that started the run, if there was one."""
    if Path(sys.argv[0]).name in ("regard", "__main__.py"):
        return code_span(" ".join(["regard", *map(quote_argument, sys.argv[1:])]))
    return "called from Python"


def _scores(best: JournalEvent | None, language: str) -> str:
    if best is None:
        return "The run ended before its first validation: there are no scores."
    signature = f"(sacreBLEU's defaults, tok:{bleu_tokenizer(language)})"
    if "cider" in best:
        signature = (
            f"(of words in lower case, all references), CIDEr-D {best['cider']:.2f}"
        )
    return (
        f"Validation at update {best['update']}, greedy search: chrF {best['chrf']:.2f}, BLEU "
        f"{best['bleu']:.2f} {signature}, {best['loss']:.4f} nats a token."
    )


def _rights(recipe: Recipe) -> str:
    """Return the lines on licence, author and origin, if these are stated."""
    data = recipe.data
    licence = (
        "that of the data it was trained on; none has been stated here (`--licence`)"
    )
    if data.licence:
        licence = escape_text(data.licence)
    lines = [f"- Licence: {licence}."]
    if data.author:
        lines.append(f"- Author: {escape_text(data.author)}")
    if data.origin:
        lines.append(f"- Data from: {escape_text(data.origin)}")
    return "\n".join(lines)


def _test(events: Sequence[JournalEvent]) -> str:
    """Return the line on the test scores, if the run had test pairs and was not stopped."""
    tests = of_kind(events, "test")
    if not tests:
        return ""
    scores = ", ".join(
        f"{s['name']} {s['value']:.1f} ({s['low']:.1f} to {s['high']:.1f})"
        for s in tests[-1]["scores"]
    )
    return (
        f"- Test on {counted(tests[-1]['pairs'], 'pair')}, beam {tests[-1]['beam']}, with 95 % "
        f"intervals: {scores}.\n"
    )
