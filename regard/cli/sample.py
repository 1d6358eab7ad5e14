"""regard sample: write the sample data that the examples of the documentation use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from regard.cli.app import app, say
from regard.common.requests import Option


@app.command(sets=("threads",))
def sample(
    folder: Annotated[
        Path,
        Option(
            "The folder to write into, such as . or sample.",
            name="DIR",
            is_argument=True,
            is_local=True,
        ),
    ],
    images: Annotated[
        bool,
        Option("Drawn images with captions, instead of sentences.", "--images"),
    ] = False,
) -> None:
    """Write sample data: Korean–English sentence pairs with gold word alignments, in five splits,
    and a page that describes them.

    The files are train.ko, train.en, train.align, valid.ko … length.align, and SAMPLE.md. With
    --images: images, captions in English and Korean, and the regions of the named objects. Existing
    files are not overwritten.
    """
    from regard.learn.samples.writing import PAGE, write_sample

    page = write_sample(folder, images)
    for line in page:
        if line.startswith("| `"):
            part, count = (cell.strip() for cell in line.split("|")[1:3])
            say(f"{part.strip('`')}: {count} {'images' if images else 'pairs'}")
    say(f"wrote {folder}; {folder / PAGE} says what each file is for")
