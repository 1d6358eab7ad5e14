"""regard caption: pictures in, a line about each out."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app, say, setup_process
from regard.cli.options import (
    Beam,
    Debug,
    Device,
    Diversity,
    Engine,
    Forbid,
    Groups,
    LengthPenalty,
    MaxLength,
    Mbr,
    MinLength,
    NBest,
    NoRepeat,
    Precision,
    Prefix,
    Quiet,
    Sample,
    Seed,
    Temperature,
    Threads,
    TopK,
    TopP,
    With,
    device_named,
)
from regard.errors import DataError, LineWarning

if TYPE_CHECKING:
    from regard.data.images import SourcePixels
    from regard.pipeline import Caption, Captioner

__all__ = ["caption"]

SEARCH = (
    *("beam", "nbest", "length_penalty", "sample", "temperature", "top_k", "top_p", "seed", "groups", "diversity"),
    *("mbr", "min_length", "max_length", "no_repeat_ngram"),
)
"""The options that are settings of the search."""
TOGETHER = 64
"""Pictures that are opened, captioned and printed together."""


@app.command()
def caption(
    run: Annotated[Path, typer.Argument(help="A model or run folder.")],
    images: Annotated[list[Path], typer.Argument(help="Pictures, or folders of them.")],
    beam: Beam = None,
    nbest: NBest = 1,
    format: Annotated[Literal["text", "jsonl"], typer.Option(help="Plain lines, or one JSON object a line.")] = "text",
    regions: Annotated[
        bool, typer.Option("--regions", help="With jsonl: the part of the picture that each word looked at most.")
    ] = False,
    length_penalty: LengthPenalty = None,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    groups: Groups = None,
    diversity: Diversity = None,
    min_length: MinLength = None,
    max_length: MaxLength = None,
    no_repeat_ngram: NoRepeat = None,
    mbr: Mbr = False,
    prefix: Prefix = "",
    forbid: Forbid = None,
    with_: With = None,
    engine: Engine = "auto",
    precision: Precision = "float32",
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say what is in pictures.

    As text: file and caption, tab-separated, as training reads them; with --nbest file, score and caption. A picture
    that cannot be used is told of in the end, after the captions of all others.
    """
    given = dict(locals())
    setup_process(threads, quiet, debug, seed)
    from regard.pipeline import load_captioner
    from regard.search import Constraints

    files, runs = _files(images), [run, *(with_ or ())]
    captioner = load_captioner(runs if len(runs) > 1 else run, device_named(device), engine, precision)
    search: dict[str, Any] = {
        name: given[name] for name in SEARCH if given[name] is not None and given[name] is not False
    }
    search |= {"wishes": Constraints(prefix, forbid=tuple(forbid or ())), "readings": regions and format == "jsonl"}
    causes = list[str]()
    for first in range(0, len(files), TOGETHER):
        shown = _opened(files[first : first + TOGETHER], captioner, causes)
        for (file, _), found in zip(shown, _captions(captioner, shown, search), strict=True):
            typer.echo(_json(file, found, regions) if format == "jsonl" else _text(file, found, nbest))
    if causes:
        raise DataError(*causes)


def _files(images: Sequence[Path]) -> list[Path]:
    """The pictures, those of folders in the order of their names. Raises DataError with all that is wrong."""
    from regard.data.images import SUFFIXES
    from regard.data.text import did_you_mean

    found, causes = list[Path](), list[str]()
    for image in images:
        inside = [image]
        if image.is_dir():
            inside = sorted(path for path in image.iterdir() if path.name.lower().endswith(SUFFIXES))
            if not inside:
                causes.append(f"{image}: there is no picture in this folder; its names end in {', '.join(SUFFIXES)}")
        elif not image.exists():
            causes.append(f"{image}: no such file{did_you_mean(image)}")
        found += inside
    if causes:
        raise DataError(*causes)
    return found


def _opened(files: Sequence[Path], captioner: Captioner, causes: list[str]) -> list[tuple[Path, SourcePixels]]:
    """The pictures that can be used; what is wrong with the others goes into `causes`."""
    from regard.data.images import SourcePixels, load_pixels, source_pixels

    found = list[tuple[Path, SourcePixels]]()
    for file in files:
        try:
            found.append((file, source_pixels(load_pixels(file, captioner.frame), captioner.frame)))
        except DataError as problem:
            causes += [cause for cause in problem.causes if cause not in causes]
    return found


def _captions(
    captioner: Captioner, shown: Sequence[tuple[Path, SourcePixels]], search: dict[str, Any]
) -> list[Caption]:
    """A caption for each; warnings name the picture."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", LineWarning)
        found = captioner.caption([picture for _, picture in shown], **search)
    for each in heard:
        where = f"{shown[each.message.index][0]}: " if isinstance(each.message, LineWarning) else ""
        say(f"warning: {where}{each.message}")
    return found


def _text(file: Path, found: Caption, nbest: int) -> str:
    if nbest == 1:
        return f"{file}\t{found.text}"
    return "\n".join(f"{file}\t{each.score:.4f}\t{each.text}" for each in found.nbest)


def _json(file: Path, found: Caption, regions: bool) -> str:
    values = {
        "file": os.fsencode(file).decode("utf-8", "replace"),
        **_values(found),
        "nbest": [_values(each) for each in found.nbest],
    }
    if found.repeats is not None:
        values["repeats"] = {"text": found.repeats[0], "times": found.repeats[1]}
    if regions:
        assert found.readings is not None, "they were asked for"
        words = zip(found.readings.target_text, found.regions, strict=False)
        values["regions"] = [{"word": word, "box": [round(side, 4) for side in box]} for word, box in words]
    return json.dumps(values, ensure_ascii=False)


def _values(found: Caption) -> dict[str, Any]:
    return {"text": found.text, "score": round(found.score, 6), "tokens": found.tokens}
