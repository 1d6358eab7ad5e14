"""Checklist of a publication: what is missing or to be decided, each with what mends it, and what
those who use the models should know of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath, PureWindowsPath

from regard.common.counting import counted
from regard.common.markdown import escape_around_code, escape_text, quote_argument
from regard.evaluation.training_report import NO_USE, USABLE, is_usable
from regard.explain.licences import licence_address
from regard.explain.published_model import (
    ABOUT,
    LICENCE,
    PublishedModel,
    PublishedModels,
)
from regard.training.journal import scores_of
from regard.training.model_card import describe_experiment

NOTHING_SENT = "Nothing was uploaded."
FEW = 300
"""Number of test lines below which an interval is wide."""
FEW_VALID = 100
"""Number of validation lines below which they choose the weights badly."""
LARGE = 25_000_000
"""Bytes of a file above which GitHub's page for uploads and Cloudflare Pages refuse it."""
VERY_LARGE = 100_000_000
"""Bytes of a file above which GitHub refuses it."""

_IS_IN_TRAIN = re.compile(r"(valid|test): [1-9].* also in train")
"""A line on the data that counts at least one text or image that training saw as well."""

_STATEMENTS = (
    (
        "author",
        "no author is stated, so nobody knows whom to ask",
        "--author 'NAME, ADDRESS'",
    ),
    (
        "origin",
        "the origin of the data is not stated, so nobody can see whether the licence holds",
        "--source-of-data 'WHERE, UNDER WHICH LICENCE'",
    ),
)
"""Statements by their names, what is missing without each, and its option."""


@dataclass(frozen=True)
class ChecklistItem:
    """A thing that is missing or to be decided, and what mends it.

    - `problem`: empty if it is only to be known.
    - `warning`: what those who use the model should know of it, in Markdown.
    """

    problem: str = ""
    remedy: str = ""
    warning: str = ""

    def __str__(self) -> str:
        return f"{self.problem}\n  → {self.remedy}"


def make_checklist(
    published: PublishedModels, sizes: Mapping[str, int], examples: str
) -> tuple[ChecklistItem, ...]:
    """Return what is missing.

    `sizes` are those of the files, in bytes, by name; `examples` is the file whose sentences the
    page proposes, empty if they are nobody's.
    """
    items = [*_statements(published)]
    for model in published.models:
        prefix = f"{model.title}: " if len(published.models) > 1 else ""
        items += [
            replace(item, problem=prefix + item.problem)
            for item in model_items(model)
            if item.problem
        ]
    items += _sizes(sizes)
    if examples:
        items.append(
            ChecklistItem(
                f"the page proposes sentences of {examples}",
                "if they may not be shown, publish again with `--source FILE`, which has others",
            )
        )
    if not published.has_page:
        obstacles = [cause for model in published.models for cause in model.obstacles]
        why = obstacles or ["no page was wanted"]
        remedy = "let people install Regard, or put it on a server: `regard serve RUN`"
        if not obstacles:
            remedy = "leave out --no-page for one that does"
        items.append(
            ChecklistItem(
                f"index.html describes, and does not run the model ({'; '.join(why)})",
                remedy,
            )
        )
    return tuple(items)


def render_checklist(items: Sequence[ChecklistItem]) -> str:
    """Return the checklist in Markdown."""
    lines = ["# Before you publish", ""]
    lines += [f"{NOTHING_SENT} This file is for you; leave it out of what you upload."]
    lines += [
        "",
        *(
            f"- [ ] {escape_around_code(item.problem)}: {escape_around_code(item.remedy)}."
            for item in items
        ),
    ]
    if not items:
        lines.append("Nothing is missing.")
    lines += ["", "Then copy the folder to any web space, or to a forge."]
    return "\n".join(lines) + "\n"


def _statements(published: PublishedModels) -> Iterator[ChecklistItem]:
    """Yield what only people can state: rights, origin, languages, and a text of their own."""
    licence = published.licence
    run = published.models[0].folder
    if not licence:
        yield ChecklistItem(
            "no licence is stated, so nobody may use the model",
            "publish again with `--licence CC-BY-4.0`, or another that the data allow "
            "(https://spdx.org/licenses)",
        )
    elif not published.licence_text:
        address = licence_address(licence)
        source = f" from {address}" if address else ""
        yield ChecklistItem(
            f"the text of {licence} is missing",
            f"save it{source} as `{run / LICENCE}`, and publish again",
        )
    for name, problem, option in _STATEMENTS:
        if not getattr(published, name):
            yield ChecklistItem(problem, f"publish again with `{option}`")
    if not published.about:
        yield ChecklistItem(
            "the card has no words of yours: whom the model is for, and in their language",
            f"write them into `{run / ABOUT}`, and publish again",
        )
    wanted = 1 if published.models[0].is_captioner else 2
    if len(published.models[0].languages.codes) < wanted:
        codes = "en" if wanted == 1 else "ko,en"
        yield ChecklistItem(
            "the languages are unknown", f"publish again with `--languages {codes}`"
        )


def model_items(model: PublishedModel) -> Iterator[ChecklistItem]:
    """Yield what is to be known of a model, and what its training left open."""
    ablations = model.settings.model.ablations()
    if ablations:
        yield ChecklistItem(warning=describe_experiment(ablations))
    items = [*_of_scores(model), *_of_data(model)]
    if model.record.recipe is None:
        yield ChecklistItem(
            "how the model was made is not recorded here",
            f"tell it in `{ABOUT}` in the run folder",
        )
        items = [replace(item, problem="") for item in items]
    yield from items


def _of_scores(model: PublishedModel) -> Iterator[ChecklistItem]:
    """Yield what the scores of a model mean, and how far they are to be trusted."""
    record = model.record
    train_on = f"`{_resume(model)} --budget 20m`"
    best = record.best
    test = record.last("test")
    end = record.last("end").get("update", 0)
    validated = record.last("valid").get("update", 0)
    tested = {score["name"].lower(): score["value"] for score in test.get("scores", ())}
    scores = scores_of(best) | tested
    chrf = min(scores.get("chrf", math.inf), best.get("chrf", math.inf))
    if "chrf" not in scores:
        yield ChecklistItem(
            "the model was never validated",
            f"train on: {train_on}",
            "It was never scored here: nobody knows how good it is.",
        )
    elif validated < end:
        yield ChecklistItem(
            f"the last validation is of update {validated:,}, and training went on to {end:,}",
            f"train on: {train_on}",
        )
    if not model.is_captioner and not is_usable(chrf):
        yield ChecklistItem(
            f"chrF {chrf:.0f} is of no use for drafts (below {USABLE:.0f})",
            f"train longer, {train_on}, or say on the card what it is good for",
            f"It is {NO_USE}: chrF is {chrf:.0f}, and below {USABLE:.0f} nearly "
            "every sentence has to be written anew.",
        )
    elif scores.get("bleu", 1.0) < 1:
        yield ChecklistItem(
            warning="BLEU says nothing here, as it counts four words in a row; read chrF.",
        )
    if not test:
        problem = "there is no test, and the scores of the validation pairs flatter"
        remedy = f"train with `--test {FEW}` next time, which holds pairs out"
        if record.pairs("test"):
            problem = "training was stopped before its test"
            remedy = f"go on with `{_resume(model)}`"
        elif model.is_captioner:
            problem = ""
        yield ChecklistItem(
            problem,
            remedy,
            f"It was not tested. The scores are of the validation {model.noun}s by which its "
            "weights were chosen, and flatter it."
            if best
            else "",
        )
    elif test["pairs"] < FEW:
        yield ChecklistItem(
            f"{counted(test['pairs'], 'test pair')} tell little",
            f"train with `--test {FEW}` or more next time",
            f"It was tested on {counted(test['pairs'], 'pair')} only: see how wide the intervals "
            "are.",
        )
    if record.test_is_outdated:
        yield ChecklistItem(
            f"the test is of update {test['update']:,}, and the weights are of "
            f"{record.update or 'another'}",
            f"let training end, which tests again: {train_on}",
            "It was trained on after its test: the test scores are of older weights.",
        )


def _of_data(model: PublishedModel) -> Iterator[ChecklistItem]:
    """Yield what is to be decided about the data of a model."""
    record = model.record
    if 0 < record.pairs("valid") < FEW_VALID:
        yield ChecklistItem(
            f"{counted(record.pairs('valid'), f'validation {model.noun}')} tell little",
            f"give {FEW_VALID} or more next time",
        )
    for line in record.report:
        if _IS_IN_TRAIN.match(line):
            what = "images" if model.is_captioner else "lines"
            yield ChecklistItem(
                f"{line}, so that scores flatter",
                f"take these {what} out of the training data, and train anew",
                f"Its scores flatter: {escape_text(line)}.",
            )
    is_compared = any("share" in line or "in train" in line for line in record.report)
    if not model.is_captioner and not is_compared:
        yield ChecklistItem(
            "whether training saw the validation pairs is not recorded",
            f"`{_resume(model)}` compares them, where the data still are",
        )
    paths = [str(file.get("path", "")) for file in record.files.values()]
    private = [path for path in paths if _is_absolute(path)]
    if private:
        yield ChecklistItem(
            f"{model.recipe_file} and the card name folders of your machine, such as {private[0]}",
            "if nobody should see them, train in the folder of the data, with names alone",
        )


def _resume(model: PublishedModel) -> str:
    """Return the command that trains a model on."""
    return f"regard train --out {quote_argument(str(model.folder))} --resume"


def _is_absolute(path: str) -> bool:
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()


def _sizes(sizes: Mapping[str, int]) -> Iterator[ChecklistItem]:
    """Yield the files that some hosts refuse."""
    for name, size in sizes.items():
        if size > LARGE:
            who = "GitHub's page for uploads and Cloudflare Pages refuse files above 25 MB"
            remedy = "upload by git, or choose another host"
            if size > VERY_LARGE:
                who = "GitHub refuses files above 100 MB"
                remedy = "choose another host, or train a smaller model"
            yield ChecklistItem(f"{name} has {size / 1e6:.0f} MB: {who}", remedy)
