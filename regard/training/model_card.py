"""Model card: the README of a model folder, with training data, command and scores."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.common.atomic import write_bytes
from regard.common.counting import counted
from regard.common.markdown import code_span, escape_text, quote_argument
from regard.data.bleu_tokenizer import bleu_tokenizer
from regard.data.languages import english_name
from regard.training.journal import JournalEvent, describe_test
from regard.training.recipe import Recipe
from regard.training.run_record import RunRecord

_SIDES = "pairs | SHA-256 of the source side | of the target side"


def write(folder: Path, recipe: Recipe) -> None:
    """Write `README.md` from the recipe, the journal and the data of a run."""
    record = RunRecord.read(folder, recipe)
    images = recipe.data.images is not None
    kind = "captioning" if images else "translation"
    columns = "captions | SHA-256 of the images | of the captions" if images else _SIDES
    rows = (
        f"| {escape_text(name)} | {facts.pairs:,} | `{facts.source}` | `{facts.target}` |"
        for name, facts in record.corpora.items()
    )
    table = "\n".join(rows)
    data = recipe.data
    rights = "\n".join(rights_lines(data.licence, data.author, data.origin))
    ablations = recipe.model.ablations()
    experiment = f"{describe_experiment(ablations)}\n\n" if ablations else ""
    how = "\n".join(how_lines(record))
    text = f"""# A {kind} model trained with Regard

{experiment}\
{summary(record, recipe)}

## How it was made

{how}
{rights}

| data | {columns} |
|---|---|---|---|
{table}

Use it: {_usage(folder.name, images)} in Python.
"""
    write_bytes(folder / "README.md", text.encode())


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
        tested = counted(pairs, "validation pair") if pairs else "validation pairs"
        score = f"On {tested} it reaches chrF {record.best['chrf']:.0f} of 100"
    facts = "; ".join(filter(None, (learnt, score))).replace("; On", "; on")
    facts = f" {facts}." if facts else ""
    return f"{does}{facts} Expect less of anything of another kind."


def how_lines(record: RunRecord) -> list[str]:
    """Return a list in Markdown of how a run was made, with its scores; the run has a recipe."""
    recipe = record.recipe
    assert recipe is not None, "a model that was trained has a recipe"
    model = recipe.model
    progress = record.progress
    commands = record.commands
    called = [code_span(text) if text else "called from Python" for text in commands]
    commands_text = ", then ".join(called) or "not recorded"
    lines = [
        f"Encoder: {model.encoder.kind}; decoder: {model.decoder.kind}. The whole recipe is in "
        "`train.toml`.",
        _languages(recipe),
        f"{'Commands' if len(commands) > 1 else 'Command'}: {commands_text}",
        f"Training: {counted(progress.get('update', 0), 'update')}, "
        f"{progress.get('tokens', 0):,} target tokens, {progress.get('seconds', 0):.0f} s, "
        f"{recipe.training.precision}, seed {recipe.training.seed}; "
        f"{progress.get('reason', 'not ended')}.",
        _scores(record.best, recipe.data.languages.target),
    ]
    if record.test:
        lines.append(f"Test on {describe_test(record.test)}.")
    for test in record.earlier_tests:
        lines.append(
            f"Earlier test, of the weights at update {test['update']:,}, on {describe_test(test)}."
        )
    return [f"- {line}" for line in lines]


def command_line() -> str:
    """Return the command line of this process, quoted for a shell; empty if it is not `regard`."""
    program = Path(sys.argv[0])
    if program.name == "regard" or program.parts[-2:] == ("regard", "__main__.py"):
        return " ".join(["regard", *map(quote_argument, sys.argv[1:])])
    return ""


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


def _scores(best: JournalEvent, language: str) -> str:
    if not best:
        return "The run ended before its first validation: there are no scores."
    signature = f"(sacreBLEU's defaults, tok:{bleu_tokenizer(language)})"
    if "cider" in best:
        signature = (
            f"(of words in lower case, all references), CIDEr-D {best['cider']:.2f}"
        )
    if best.get("short_lines", 0.0) > 0.5:
        signature += ", which means nothing for lines of fewer than four words"
    return (
        f"Validation at update {best['update']}, greedy search: chrF {best['chrf']:.2f}, BLEU "
        f"{best['bleu']:.2f} {signature}, {best['loss']:.4f} nats a token."
    )


def rights_lines(
    licence: str | None, author: str | None, origin: str | None
) -> list[str]:
    """Return a list in Markdown of licence, author and origin, if these are stated."""
    stated = (
        "that of the data it was trained on; none has been stated here (`--licence`)"
    )
    if licence:
        stated = escape_text(licence)
    lines = [f"- Licence: {stated}."]
    if author:
        lines.append(f"- Author: {escape_text(author)}")
    if origin:
        lines.append(f"- Data from: {escape_text(origin)}")
    return lines
