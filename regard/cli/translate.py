"""regard translate: raw lines in, translated lines out."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
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
from regard.cli.progress import LineReporter
from regard.errors import DataError, LineWarning, UsageError

if TYPE_CHECKING:
    from regard.bulk import ChunkTranslator, InProcess, Lines, ResumableOutput, StreamedOutput, Workers
    from regard.pipeline import Translator
    from regard.search import ConstraintEncoder, Constraints

__all__ = ["translate"]

SEARCH = (
    *("beam", "length_penalty", "coverage_penalty", "sample", "temperature", "top_k", "top_p", "seed", "groups"),
    *("diversity", "mbr", "min_length", "max_length", "no_repeat_ngram"),
)
"""The options that are settings of the search."""
NOT_STREAMED = {
    "nbest": 1,
    "alignments": False,
    "format": "text",
    "output": None,
    "workers": 1,
    "resume": False,
    "mbr": False,
    "groups": None,
    "coverage_penalty": None,
    "input": "text",
}
"""The options that --stream cannot be given with, and what they are otherwise."""


@app.command()
def translate(
    run: Annotated[Path, typer.Argument(help="A model or run folder.")],
    file: Annotated[str, typer.Argument(help="Lines to translate; - is standard input.")] = "-",
    beam: Beam = None,
    nbest: NBest = 1,
    length_penalty: LengthPenalty = None,
    format: Annotated[Literal["text", "jsonl"], typer.Option(help="Plain lines, or one JSON object a line.")] = "text",
    alignments: Annotated[bool, typer.Option("--alignments", help="Add word links as source-target.")] = False,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    groups: Groups = None,
    diversity: Diversity = None,
    min_length: MinLength = None,
    max_length: MaxLength = None,
    no_repeat_ngram: NoRepeat = None,
    coverage_penalty: Annotated[float | None, typer.Option(min=0, help="β of the coverage penalty.")] = None,
    mbr: Mbr = False,
    prefix: Prefix = "",
    term: Annotated[list[str] | None, typer.Option(help="A word that must appear; as often as there are.")] = None,
    forbid: Forbid = None,
    with_: With = None,
    input: Annotated[
        Literal["text", "jsonl"],
        typer.Option(help="Plain lines, or one JSON object a line: text, prefix, terms, forbid."),
    ] = "text",
    stream: Annotated[
        bool, typer.Option("--stream", help="Print words as they are written; greedy, or --sample.")
    ] = False,
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
    given = dict(locals())
    setup_process(threads, quiet, debug, seed)
    from regard.bulk import ChunkTranslator, LineParser, Lines, OutputFormat, chunks, remaining
    from regard.pipeline import load_translator
    from regard.search import Constraints

    lines, device, runs = Lines(file), device_named(device), [run, *(with_ or ())]
    if workers > 1 and device != "cpu":
        raise UsageError(f"--workers {workers}: only the processor can be shared; give --device cpu, or one worker")
    if engine == "auto" and (workers > 1 or not (run / "exports").is_dir()):
        engine = "native"  # several processes would each measure which is quicker, and find different things
    search = {name: None if given[name] is False else given[name] for name in SEARCH}
    wish = Constraints(prefix, tuple(term or ()), tuple(forbid or ()))
    asked = LineParser(wish, input == "jsonl", lines.name, _wording(run, wish) if input == "jsonl" else None)
    total = lines.checked(asked)
    make = partial(load_translator, runs if len(runs) > 1 else run, device, engine, precision)
    if stream:
        _refuse_to_stream(given)
        _streamed(make, lines, run, wish, search)
        return
    options = {"nbest": nbest, "alignments": alignments, **search}
    work = ChunkTranslator(lines.name, OutputFormat(format == "jsonl", nbest), options, asked)
    how = {**options, "prefix": prefix, "term": list(wish.terms), "forbid": list(wish.forbid), "input": input}
    how |= {"format": format, "chunk": chunk, "engine": engine, "precision": precision, "device": device}
    with (
        _sink(runs, output, resume, how) as sink,
        _crew(work, make, 1 if lines.typed else workers, threads) as crew,
        LineReporter(total, sink.mark.lines, hidden=output is None and sys.stdout.isatty()) as teller,
    ):
        todo = remaining(chunks(lines, 1 if lines.typed else chunk), sink.mark, lines.name)
        for each, done in crew.results(todo):
            teller.notes(done.notes)
            sink.add(done.text, sink.mark.after(each.end, each.digest, done.known, done.strange))
            teller(each.end)
        if sink.mark.strange and not sink.mark.known:
            sink.discard()
            raise _all_strange(lines, run)
        sink.finish()


def _all_strange(lines: Lines, run: Path) -> DataError:
    return DataError(
        f"{lines.name}: no line is in a script that {run} has seen in training, so no translation can be "
        "right; check that this is the model for these lines"
    )


def _wording(run: Path, wish: Constraints) -> ConstraintEncoder:
    """What the model can write, known before it is loaded; what is asked of every line is checked against it."""
    from regard.data.tokenizer import Tokenizer
    from regard.model_folder import load_settings
    from regard.search import ConstraintEncoder, check_constraints

    wording = ConstraintEncoder(Tokenizer.load(run, load_settings(run).tokenizer).target)
    check_constraints([wish], wording)
    return wording


def _refuse_to_stream(given: dict[str, Any]) -> None:
    """Raise UsageError, with all causes, for what needs the whole of a translation before anything is printed."""
    others = [name for name, default in NOT_STREAMED.items() if given[name] != default]
    others += ["beam"] if given["beam"] not in (None, 1) else []
    causes = []
    if others:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        causes.append(f"--stream and {named}: what is printed at once cannot be changed; leave one out")
    if given["engine"] == "ctranslate2":
        causes.append("--stream and --engine ctranslate2: that engine gives whole translations; leave one out")
    if causes:
        raise UsageError(*causes)


def _streamed(
    make: Callable[[], Translator], lines: Lines, run: Path, wish: Constraints, search: dict[str, Any]
) -> None:
    """Print each translation while it is being written."""
    from regard.bulk import unknown_script

    translator = make()
    told = {name: value for name, value in search.items() if value is not None}
    known = strange = 0
    for number, line in enumerate(lines, 1):
        unseen, said = unknown_script(translator, lines.name, [line], number)
        strange, known = strange + unseen, known + (bool(line.strip()) and not unseen)
        if said:
            say(f"warning: {said}")
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", LineWarning)
            for more in translator.stream(line, wish, **told):
                typer.echo(more, nl=False)
                sys.stdout.flush()
            typer.echo()
        for each in heard:
            say(f"warning: {lines.name}, line {number}: {each.message}")
    if strange and not known:
        raise _all_strange(lines, run)


def _crew(
    work: ChunkTranslator, make: Callable[[], Translator], workers: int, threads: int | None
) -> InProcess | Workers:
    """Who translates: this process, or several."""
    import torch

    from regard.bulk import InProcess, Workers

    if workers == 1:
        return InProcess(work, make)
    each = threads or max(1, torch.get_num_threads() // workers)
    torch.set_num_threads(1)  # until the processes are there: see Workers
    return Workers(work, make, workers, each)


@contextmanager
def _sink(
    runs: list[Path], output: Path | None, resume: bool, how: dict[str, Any]
) -> Iterator[StreamedOutput | ResumableOutput]:
    """Where results go; a file appears whole when all is done, and its part stays when something stopped the work."""
    from regard.atomic import replaceable
    from regard.bulk import ResumableOutput, StreamedOutput
    from regard.model_folder import fingerprints

    ordinary = output is not None and replaceable(output)
    if resume and not ordinary:
        raise UsageError("--resume: only what goes into a file can be gone on with; give --output as before")
    if output is None:
        yield StreamedOutput(sys.stdout)
        return
    if not ordinary:
        with _opened(output) as sink:
            yield sink
        return
    if output.is_symlink():  # the link stays, and leads to the result
        output = output.resolve()
    files = fingerprints(runs[0])
    for number, other in enumerate(runs[1:], 2):
        files |= {f"{name} of model {number}": digest for name, digest in fingerprints(other).items()}
    options = {f"--{name.replace('_', '-')}": value for name, value in how.items()}
    with ResumableOutput(output, {"option": options, "file": files}).open(resume) as part:
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
def _opened(output: Path) -> Iterator[StreamedOutput]:
    from regard.bulk import StreamedOutput

    try:
        file = output.open("a", encoding="utf-8", newline="\n")
    except OSError as problem:
        raise UsageError(
            f"--output {output}: cannot be written ({problem.strerror}); choose a file in a folder of yours"
        ) from None
    with file:
        yield StreamedOutput(file)
