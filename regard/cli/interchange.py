"""regard export: a model for other toolkits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.app import app, prepare, say
from regard.cli.options import Debug, Quiet, Threads

__all__ = ["export"]

Precision = Literal["float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A model or run folder.")],
    out: Annotated[Path | None, typer.Argument(help="The folder to write; RUN/exports/… if not given.")] = None,
    to: Annotated[Literal["ctranslate2"], typer.Option(help="The toolkit that is to load it.")] = "ctranslate2",
    precision: Annotated[Precision, typer.Option(help="Of the weights.")] = "float32",
    source: Annotated[
        Path | None, typer.Option(help="Sentences to compare the two on; else of the run's data.")
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a model for another toolkit, and check on real sentences that it translates there as it does here.

    regard export runs/first --to ctranslate2 first-int8 --precision int8
    """
    prepare(threads, quiet, debug)
    assert to == "ctranslate2", "there is no other yet"
    from regard.engine.ctranslate2 import exports
    from regard.interchange import ctranslate2

    out = out or exports(run, precision)
    parity = ctranslate2.export(run, out, precision, source)
    say(f"compared on {parity}", f"wrote {out}")
