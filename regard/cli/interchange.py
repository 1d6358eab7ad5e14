"""regard export and regard import: models for other toolkits, and of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.app import app, say, setup_process
from regard.cli.options import Debug, Quiet, Threads
from regard.errors import UsageError

__all__ = ["export", "import_"]

Precision = Literal["float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]


Toolkit = Literal["ctranslate2", "huggingface"]


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A model or run folder.")],
    out: Annotated[Path | None, typer.Argument(help="The folder to write; RUN/exports/… if not given.")] = None,
    to: Annotated[Toolkit, typer.Option(help="The toolkit that is to load it.")] = "ctranslate2",
    precision: Annotated[Precision, typer.Option(help="Of the weights, for CTranslate2.")] = "float32",
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
    setup_process(threads, quiet, debug)
    from regard.interchange import ctranslate2, huggingface

    if to == "huggingface" and precision != "float32":
        raise UsageError(f"--precision {precision}: a folder for Hugging Face holds float32; leave it out")
    name = f"{to}-{precision}" if to == "ctranslate2" else to
    out = out or run / "exports" / name
    out = out if out.name else out.absolute()  # the folder one is in
    if to == "ctranslate2":
        said = str(ctranslate2.export(run, out, precision, source))
    else:
        said = str(huggingface.export(run, out, source))
    say(f"compared on {said}", f"wrote {out}")


@app.command("import")
def import_(
    kind: Annotated[Literal["huggingface"], typer.Argument(help="Whose model it is.")],
    folder: Annotated[Path, typer.Argument(help="The folder of a Marian model, with its tokenizer.")],
    run: Annotated[Path, typer.Argument(help="The model folder to write.")],
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make a model folder of another toolkit's model: to translate with, to look into, to train on.

    regard import huggingface opus-mt-ko-en runs/opus
    """
    setup_process(threads, quiet, debug)
    assert kind == "huggingface", "there is no other"
    from regard.interchange import huggingface
    from regard.models import count_parameters

    found = huggingface.import_model(folder, run if run.name else run.absolute())
    pieces = f"{len(found.tokenizer.source):,} pieces"
    say(f"a Marian model of {count_parameters(found.model):,} weights and {pieces}", f"wrote {run}")
