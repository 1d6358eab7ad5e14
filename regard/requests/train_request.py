"""The request of `regard.train` and of `regard train`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from pydantic.dataclasses import dataclass

from regard.common.arguments import (
    FUNCTION,
    PATH,
    WHOLE,
    FlagField,
    Kind,
    PathField,
    Report,
    TableField,
    TextField,
    WholeField,
)
from regard.common.requests import COMMAND, REQUEST, Option
from regard.common.settings import Settings, parse_assignments
from regard.requests.shared_fields import Device, Seed, ThreadCount


def is_iterable(value: object) -> bool:
    """Return whether a value is an iterable, and no text or path."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        return False
    return getattr(value, "ndim", 1) > 0  # an array without axes has no items


RECIPE = Kind("a path", lambda value: isinstance(value, Settings) or PATH.holds(value))
PAIRS = Kind(
    "a path, or an iterable of pairs",
    lambda value: PATH.holds(value) or is_iterable(value),
)
PairsField = Annotated[str | Path | Iterable[Any], PAIRS]
CALLBACKS = Kind("a list of callbacks", lambda value: isinstance(value, (list, tuple)))
COUNT_OR_PATH = Kind("a path", lambda value: WHOLE.holds(value) or PATH.holds(value))


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class TrainArguments:
    """A training: its recipe, data and settings; the folder of the run may be left open."""

    recipe: Annotated[
        Annotated[Settings | str | Path, RECIPE] | None,
        Option(
            "A TOML file with a whole recipe or part of one.",
            "config",
            is_argument=True,
            is_local=True,
        ),
    ] = field(default=None, kw_only=False)
    out: Annotated[
        PathField | None,
        Option("The run folder to write: it is a model folder too.", is_local=True),
    ] = None
    source: Annotated[PathField | None, Option("Training sentences, one a line.")] = (
        None
    )
    target: Annotated[PathField | None, Option("Their translations, line by line.")] = (
        None
    )
    valid_source: Annotated[PathField | None, Option("Validation sentences.")] = None
    valid_target: Annotated[PathField | None, Option("Their translations.")] = None
    pairs: Annotated[
        PairsField | None,
        Option(
            "Instead of --source and --target: CSV, TSV, XLSX, ODS, JSONL, TMX, XLIFF or PO."
        ),
    ] = None
    columns: Annotated[
        TextField | None,
        Option(
            "Columns of --pairs, as English,hsb or 2,3, or of --captions; found if left out."
        ),
    ] = None
    valid_pairs: Annotated[PairsField | None, Option("The same for validation.")] = None
    test: Annotated[
        Annotated[int | str | Path, COUNT_OR_PATH] | None,
        Option(
            "A file of pairs, or how many pairs or images to hold out: scored once, at the end."
        ),
    ] = None
    alignments: Annotated[
        PathField | None,
        Option(
            "Word alignments of the training pairs, such as 0-0 1-2: one head learns them."
        ),
    ] = None
    corrections: Annotated[
        PathField | None,
        Option(
            "RUN/suspects.tsv, or the table of regard check, in which pairs have been corrected."
        ),
    ] = None
    images: Annotated[
        PathField | None, Option("Instead of sentences: a folder of images.")
    ] = None
    captions: Annotated[
        PathField | None,
        Option(
            "Their captions: CSV, XLSX, ODS; lines of file, tab, caption; Flickr8k; COCO; JSONL."
        ),
    ] = None
    valid_captions: Annotated[PathField | None, Option("Captions for validation.")] = (
        None
    )
    languages: Annotated[
        TextField | None,
        Option(
            "Languages of source and target, as ko,en; by the names of the files if left out."
        ),
    ] = None
    licence: Annotated[
        TextField | None,
        Option("Licence of the model, for its card, such as CC-BY-4.0 (SPDX)."),
    ] = None
    author: Annotated[
        TextField | None, Option("Who trained the model, for its card.")
    ] = None
    source_of_data: Annotated[
        TextField | None, Option("Where the data are from, for the card.")
    ] = None
    preset: Annotated[
        TextField | None, Option("A named starting point; regard.presets() lists them.")
    ] = None
    settings: Annotated[
        TableField | None,
        Option(
            "key=value, as often as needed.",
            "--set",
            is_repeated=True,
            parse=parse_assignments,
        ),
    ] = None
    resume: Annotated[
        FlagField, Option("Continue the run in --out from its checkpoint.")
    ] = False
    parent: Annotated[
        PathField | None,
        Option(
            "Start from this run's weights and vocabulary.", "--from", is_local=True
        ),
    ] = None
    budget: Annotated[
        TextField | None,
        Option(
            "Train for this time, 30m or 2h; chooses the model size. With --resume: so much longer."
        ),
    ] = None
    device: Device = "auto"
    threads: ThreadCount = None
    seed: Seed = None


@dataclass(frozen=True, config=REQUEST, kw_only=True)
class TrainRequest(TrainArguments):
    """A training: its arguments, its folder, and what Python alone can give."""

    out: PathField = field()  # not optional, as it is in the base class
    report: Report | None = None
    objective: Annotated[Callable[[Any, Any], Any], FUNCTION] | None = None
    callbacks: Annotated[Sequence[Any], CALLBACKS] = ()


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class TrainCommand(TrainArguments):
    """A call of `regard train`: a training, or its description alone."""

    dry_run: Annotated[
        FlagField, Option("Describe the model, its memory and speed only.")
    ] = False
    processes: Annotated[
        WholeField,
        Option(
            "With --dry-run: also the needs of this many processes.", least=1, most=1024
        ),
    ] = 1
