"""regard caption: caption images, as text or JSON lines."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli import options
from regard.cli.app import app, warn
from regard.cli.search_options import search_command
from regard.common.counting import counted
from regard.common.errors import DataError, LineWarning
from regard.requests.caption_request import CaptionCommand

if TYPE_CHECKING:
    from regard.data.images import SourcePixels
    from regard.pipeline import Caption, Captioner

IMAGES_AT_ONCE = 64
"""Images that are loaded, captioned and printed together."""


@app.command(
    request=CaptionCommand,
    search=search_command(without=("coverage_penalty", "max_ratio", "max_extra")),
    sets=("threads", "seed"),
)
def caption(command: CaptionCommand) -> None:
    """Caption images.

    As text: file and caption, tab-separated, as training reads them; with --nbest file, score and
    caption. Images that cannot be used are reported at the end, after the captions of all others.
    """
    from regard.pipeline import load_captioner
    from regard.pipeline.bulk import OutputFormat
    from regard.search import Constraints

    causes = list[str]()
    files = _files(command.images, causes)
    if not files:
        raise DataError(*causes)
    captioner = load_captioner(
        command.runs if command.with_ else command.run,
        options.select_device(command.device),
        command.precision,
    )
    arguments = {
        "nbest": command.nbest,
        **command.settings,
        "readings": command.regions and command.format == "jsonl",
        "constraints": Constraints(command.prefix, forbid=command.forbid),
    }
    output = OutputFormat(command.format == "jsonl", command.nbest)
    for first in range(0, len(files), IMAGES_AT_ONCE):
        loaded = _load_images(files[first : first + IMAGES_AT_ONCE], captioner, causes)
        results = _captions(captioner, loaded, arguments)
        for (file, _), result in zip(loaded, results, strict=True):
            typer.echo(output(str(file), result), nl=False)
    DataError.raise_all(causes)


def _files(paths: Sequence[Path], causes: list[str]) -> list[Path]:
    """List the images, those of a folder sorted by name; problems with other paths are added to
    `causes`.
    """
    from regard.data.caption_formats import SUFFIXES
    from regard.data.file_formats import is_table
    from regard.data.text import did_you_mean

    files = list[Path]()
    for path in paths:
        if not path.exists():
            causes.append(f"{path}: no such file{did_you_mean(path)}")
            continue
        if path.is_file() and is_table(path.name):
            causes.append(
                f"{path}: text or a table, no image; give images or their folder (`regard evaluate "
                f"RUN --images FOLDER --captions {path}` scores captions against those of a table)"
            )
            continue
        if not path.is_dir():
            files.append(path)
            continue

        images = list[Path]()
        other_kinds = list[str]()
        for file in sorted(file for file in path.iterdir() if file.is_file()):
            if file.name.lower().endswith(SUFFIXES):
                images.append(file)
            else:
                other_kinds.append(file.suffix or file.name)
        if other_kinds:
            count = counted(len(other_kinds), "file")
            kinds = ", ".join(dict.fromkeys(other_kinds))
            warn(f"{path}: {count} of other kinds passed over: {kinds}")
        if not images:
            causes.append(
                f"{path}: no image in this folder; names of images end in {', '.join(SUFFIXES)}"
            )
        files += images
    return files


def _load_images(
    files: Sequence[Path], captioner: Captioner, causes: list[str]
) -> list[tuple[Path, SourcePixels]]:
    """Load the images that can be used; problems with the others are added to `causes`."""
    from regard.data.images import SourcePixels, load_pixels, source_pixels

    size = captioner.image_size
    loaded = list[tuple[Path, SourcePixels]]()
    for file in files:
        try:
            loaded.append((file, source_pixels(load_pixels(file, size), size)))
        except DataError as problem:
            causes += [cause for cause in problem.causes if cause not in causes]
    return loaded


def _captions(
    captioner: Captioner,
    images: Sequence[tuple[Path, SourcePixels]],
    arguments: dict[str, Any],
) -> list[Caption]:
    """Caption loaded images, and print the warnings with the names of their files."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LineWarning)
        captions = captioner.caption([pixels for _, pixels in images], **arguments)
    for warning in caught:
        message = warning.message
        if isinstance(message, LineWarning):
            file, _ = images[message.index]
            warn(f"{file}: {message}")
        else:
            warn(f"{message}")
    return captions
