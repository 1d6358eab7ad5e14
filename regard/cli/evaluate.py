"""regard evaluate: translate a test set and score it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.app import app, prepare, say
from regard.cli.options import Debug, Device, Engine, Precision, Quiet, Seed, Threads, device_named
from regard.cli.strangers import warn_of_strangers
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.evaluation.lengths import Bucket

__all__ = ["evaluate"]


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A model or run folder.")],
    source: Annotated[str, typer.Option(help="Test sentences, one a line.")],
    reference: Annotated[list[str], typer.Option(help="Right translations, line by line; as often as there are sets.")],
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept side by side; 1 is greedy search.")] = None,
    length_penalty: Annotated[float | None, typer.Option(min=0, help="α of the length penalty.")] = None,
    format: Annotated[Literal["text", "json"], typer.Option(help="For people or for programs.")] = "text",
    lengths: Annotated[
        bool, typer.Option("--by-length", help="Add chrF by source length, with 95 % intervals.")
    ] = False,
    figure: Annotated[Path | None, typer.Option(help="Draw chrF by source length: .svg, .png or .html.")] = None,
    engine: Engine = "auto",
    precision: Precision = "float32",
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Print BLEU, chrF and TER of the translations, each with the sacreBLEU signature that says how it was counted."""
    prepare(threads, quiet, debug, seed)
    from regard.data.text import read_files
    from regard.evaluation.lengths import by_length
    from regard.evaluation.metrics import LONGEST_FOR_TER, scores
    from regard.pipeline import load_translator

    sources, *references = (file.lines for file in read_files([source, *reference]))
    uneven = [
        f"{path} has {len(lines)} lines and {source} has {len(sources)}; give files whose lines belong together"
        for path, lines in zip(reference, references, strict=True)
        if len(lines) != len(sources)
    ]
    if uneven:
        raise DataError(*uneven)
    translator = load_translator(run, device_named(device), engine, precision)
    say(f"translating {len(sources):,} lines of {source}")
    warn_of_strangers(translator, source, sources)
    found = translator.translate(sources, beam=beam, length_penalty=length_penalty)
    outputs = [translation.text for translation in found]
    results = scores(outputs, references)
    buckets = by_length(sources, outputs, references) if lengths or figure else []
    if figure is not None:
        _draw(buckets, run, figure)
    width = beam or translator.settings.search.beam
    if all(score.name != "TER" for score in results):
        say(f"TER is left out: a line has more than {LONGEST_FOR_TER} words, and it would take very long")
    if format == "json":
        values = {score.name: {"score": score.value, "signature": score.signature} for score in results}
        told = {"model": str(run), "source": source, "beam": width, "engine": translator.engine.describe(), **values}
        if lengths:
            told["by_length"] = [asdict(bucket) for bucket in buckets]
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    for score in results:
        typer.echo(f"{score.name:5} {score.value:6.2f}   {score.signature}|beam:{width}")
    for bucket in buckets if lengths else ():
        words = f"{bucket.first}–{bucket.last} words"
        typer.echo(
            f"  {words:14} chrF {bucket.chrf:6.2f}   {bucket.low:6.2f} to {bucket.high:6.2f}   "
            f"{bucket.sentences:,} sentences"
        )


def _draw(buckets: list[Bucket], run: Path, figure: Path) -> None:
    """chrF against the length of the source, with its intervals."""
    from regard.visualisation import Chart, Trace, save

    points = tuple(((bucket.first + bucket.last) / 2, bucket.chrf) for bucket in buckets)
    band = tuple((bucket.low, bucket.high) for bucket in buckets)
    save(Chart("chrF by source length", "source words", (("chrF", (Trace(run.name, points, band),)),)), figure)
    say(f"wrote {figure}")
