"""regard translate: raw lines in, translated lines out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.app import app, prepare, say
from regard.cli.options import Debug, Device, Engine, Precision, Quiet, Seed, Threads, device_named
from regard.cli.progress import LineTeller
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.files import Alone, Part, Stream, Work, Workers
    from regard.pipeline import Translator

__all__ = ["translate"]


@app.command()
def translate(
    run: Annotated[Path, typer.Argument(help="A model or run folder.")],
    file: Annotated[str, typer.Argument(help="Lines to translate; - is standard input.")] = "-",
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept side by side; 1 is greedy search.")] = None,
    nbest: Annotated[int, typer.Option(min=1, help="Hypotheses given for each line.")] = 1,
    length_penalty: Annotated[float | None, typer.Option(min=0, help="α of the length penalty.")] = None,
    format: Annotated[Literal["text", "jsonl"], typer.Option(help="Plain lines, or one JSON object a line.")] = "text",
    alignments: Annotated[bool, typer.Option("--alignments", help="Add word links as source-target.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write here instead of standard output.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an --output that was stopped.")] = False,
    chunk: Annotated[int, typer.Option(min=1, help="Lines translated, and put on the disk, together.")] = 2000,
    workers: Annotated[int, typer.Option(min=1, max=1024, help="Processes that share the work.")] = 1,
    engine: Engine = "auto",
    precision: Precision = "float32",
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Translate a file or standard input, line by line.

    As text: one line a line; with --nbest the line number, score and text, tab-separated; with --alignments the links
    in a further column. Empty lines stay empty. Files may be of any length: few lines are in memory at a time.
    """
    prepare(threads, quiet, debug, seed)
    from regard.files import Form, Lines, Work, chunks, remaining
    from regard.pipeline import load

    lines, device = Lines(file), device_named(device)
    if workers > 1 and device != "cpu":
        raise UsageError(f"--workers {workers}: only the processor can be shared; give --device cpu, or one worker")
    total = lines.checked()
    asked = {"beam": beam, "nbest": nbest, "length_penalty": length_penalty, "alignments": alignments}
    work = Work(lines.name, Form(format == "jsonl", nbest), asked)
    how = {**asked, "format": format, "chunk": chunk, "engine": engine, "precision": precision, "device": device}
    with (
        _sink(run, output, resume, how) as sink,
        _crew(work, partial(load, run, device, engine, precision), 1 if lines.typed else workers, threads) as crew,
        LineTeller(total, sink.mark.lines, hidden=output is None and sys.stdout.isatty()) as teller,
    ):
        todo = remaining(chunks(lines, 1 if lines.typed else chunk), sink.mark, lines.name)
        for each, done in crew.results(todo):
            teller.notes(done.notes)
            sink.add(done.text, sink.mark.after(each.end, each.digest, done.known, done.strange))
            teller(each.end)
        if sink.mark.strange and not sink.mark.known:
            sink.discard()
            raise DataError(
                f"{lines.name}: no line is in a script that {run} has seen in training, so no translation can be "
                "right; check that this is the model for these lines"
            )
        sink.finish()


def _crew(work: Work, make: Callable[[], Translator], workers: int, threads: int | None) -> Alone | Workers:
    """Who translates: this process, or several."""
    import torch

    from regard.files import Alone, Workers

    if workers == 1:
        return Alone(work, make)
    each = threads or max(1, torch.get_num_threads() // workers)
    torch.set_num_threads(1)  # until the processes are there: see Workers
    return Workers(work, make, workers, each)


@contextmanager
def _sink(run: Path, output: Path | None, resume: bool, how: dict[str, Any]) -> Iterator[Stream | Part]:
    """Where results go; a file appears whole when all is done, and its part stays when something stopped the work."""
    from regard.checkpoint import fingerprints
    from regard.files import Part, Stream

    # What is no ordinary file, such as /dev/null, cannot be replaced: it is written to.
    ordinary = output is not None and (output.is_file() or not output.exists())
    if resume and not ordinary:
        raise UsageError("--resume: only what goes into a file can be gone on with; give --output as before")
    if output is None:
        yield Stream(sys.stdout)
        return
    if not ordinary:
        with _opened(output) as sink:
            yield sink
        return
    options = {f"--{name.replace('_', '-')}": value for name, value in how.items()}
    with Part(output, {"option": options, "file": fingerprints(run)}).open(resume) as part:
        if resume:
            done = part.mark.lines
            say(f"going on after line {done:,}" if done else "there is nothing to go on with: beginning at line 1")
        try:
            yield part
        except BaseException:
            if part.kept:
                say(f"{part.path} holds lines 1 to {part.kept:,}; the same command with --resume goes on after them")
            raise


@contextmanager
def _opened(output: Path) -> Iterator[Stream]:
    from regard.files import Stream

    try:
        file = output.open("w", encoding="utf-8", newline="\n")
    except OSError as problem:
        raise UsageError(
            f"--output {output}: cannot be written ({problem.strerror}); choose a file in a folder of yours"
        ) from None
    with file:
        yield Stream(file)
