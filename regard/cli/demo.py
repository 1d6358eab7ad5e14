"""regard demo: train, score and draw a translator or a captioner, on the sample data of the
package.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import app, say
from regard.cli.options import select_device
from regard.cli.progress import TrainReporter
from regard.common.errors import UsageError
from regard.common.requests import Option
from regard.requests.shared_fields import Device, Seed


@app.command(sets=("threads",))
def demo(
    out: Annotated[
        Path | None,
        Option(
            "The folder to write, runs/demo or runs/demo-images; an interrupted "
            "demonstration resumes there.",
            is_local=True,
        ),
    ] = None,
    images: Annotated[
        bool, Option("Caption images instead of translating.", "--images")
    ] = False,
    korean: Annotated[
        bool, Option("With --images: caption them in Korean.", "--korean")
    ] = False,
    device: Device = "auto",
    seed: Seed = None,
) -> None:
    """Train Korean → English and English → Korean on the sample corpus, score both, and draw their
    attention.

    With --images: train a captioner on drawings of shapes, check each caption of unseen
    combinations fact by fact and whether its nouns attend to the named objects, and draw where they
    attend.
    """
    if korean and not images:
        raise UsageError(
            "--korean: only with --images; without it both directions are trained anyway"
        )
    from regard.learn.demo.images import demo_images
    from regard.learn.demo.sentences import demo_sentences
    from regard.learn.demo.training import Output
    from regard.run import Interrupted

    seed = 1 if seed is None else seed
    device = select_device(device)
    with TrainReporter() as report:
        output = Output(typer.echo, say, report)
        try:
            if images:
                folder = out or Path("runs/demo-images")
                language = "ko" if korean else "en"
                succeeded = demo_images(folder, language, device, seed, output)
            else:
                folder = out or Path("runs/demo")
                succeeded = demo_sentences(folder, device, seed, output)
        except Interrupted as interrupted:
            sys.exit(128 + interrupted.signal)
    if not succeeded:
        sys.exit(1)
