"""regard export and regard import: convert models to CTranslate2 and Hugging Face, and from Hugging Face (Marian)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.app import app, say, setup_process, warn
from regard.cli.options import Debug, Quiet, Run, Threads
from regard.errors import UsageError

Precision = Literal["float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]
Toolkit = Literal["ctranslate2", "huggingface"]


@app.command()
def export(
    run: Run,
    out: Annotated[Path | None, typer.Argument(help="Folder to write; RUN/exports/… if left out.")] = None,
    to: Annotated[Toolkit, typer.Option(help="Toolkit to convert to.")] = "ctranslate2",
    precision: Annotated[Precision, typer.Option(help="Precision of the weights, for CTranslate2.")] = "float32",
    source: Annotated[
        Path | None, typer.Option(help="Sentences to compare both models on; if left out, of the sample.")
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Convert a model to another toolkit, and check on real sentences that both translate alike.

    regard export runs/first --to ctranslate2 first-int8 --precision int8
    """
    setup_process(threads, quiet, debug)
    from regard.interchange import ctranslate2, huggingface
    from regard.reading import check_links

    if to == "huggingface" and precision != "float32":
        raise UsageError(f"--precision {precision}: only --to ctranslate2 converts the weights; leave it out")
    if out is None:
        check_links(run, "exports")
    name = f"{to}-{precision}" if to == "ctranslate2" else to
    out = out or run / "exports" / name
    out = out if out.name else out.absolute()  # such as ..
    if to == "ctranslate2":
        parity = str(ctranslate2.export(run, out, precision, source))
    else:
        parity = str(huggingface.export(run, out, source))
    say(f"compared on {parity}", f"wrote {out}")


@app.command("import")
def import_(
    kind: Annotated[Literal["huggingface"], typer.Argument(help="Toolkit to convert from.")],
    folder: Annotated[Path, typer.Argument(help="Folder of a Marian model and its tokenizer.")],
    run: Annotated[Path, typer.Argument(help="Model folder to write.")],
    threads: Threads = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Convert a model of another toolkit to a model folder, to translate, inspect or fine-tune.

    regard import huggingface opus-mt-ko-en runs/opus
    """
    setup_process(threads, quiet, debug)
    assert kind == "huggingface", "the only toolkit that can be imported from"
    from regard.interchange import huggingface
    from regard.models import count_parameters

    imported, unchecked = huggingface.import_model(folder, run if run.name else run.absolute())
    if unchecked:
        sums = "".join(f"\n  {digest}  {name}" for name, digest in unchecked.items())
        why = "no checksums came with these files, so damage in them cannot be seen"
        warn(f"{folder}: {why}; compare with the publisher's SHA-256:{sums}")
    tokens = f"{len(imported.tokenizer.source):,} tokens"
    say(f"a Marian model with {count_parameters(imported.model):,} parameters and {tokens}", f"wrote {run}")
