"""regard translate: raw lines in, translated lines out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from regard.cli.app import app, prepare
from regard.cli.options import Debug, Device, Engine, Precision, Quiet, Seed, Threads, device_named
from regard.cli.strangers import warn_of_strangers
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.pipeline import Translation

__all__ = ["read_chunks", "translate"]

CHUNK = 512  # lines translated together


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
    in a further column. Empty lines stay empty.
    """
    prepare(threads, quiet, debug, seed)
    from regard.pipeline import load

    translator = load(run, device_named(device), engine, precision)
    known = strange = 0
    with _sink(output) as sink:
        for start, lines in read_chunks(file):
            found = translator.translate(lines, beam, nbest, length_penalty, alignments)
            strangers = warn_of_strangers(translator, _named(file), lines, start)
            known, strange = known + sum(map(bool, map(str.strip, lines))) - strangers, strange + strangers
            for number, translation in enumerate(found, start):
                sink.write(_jsonl(number, translation) if format == "jsonl" else _text(number, translation, nbest))
            sink.flush()
        if strange and not known:
            raise DataError(
                f"{_named(file)}: no line is in a script that {run} has seen in training, so no translation can be "
                "right; check that this is the model for these lines"
            )


def read_chunks(file: str) -> Iterator[tuple[int, list[str]]]:
    """Lines in chunks, each with the number of its first line (from 1). Raises DataError for what is not text."""
    from regard.data.text import read_lines

    lines: Iterable[str] = _stdin() if file == "-" else read_lines(file)
    size, number, stream = (1 if file == "-" and sys.stdin.isatty() else CHUNK), 1, iter(lines)
    while chunk := list(islice(stream, size)):
        yield number, chunk
        number += len(chunk)


def _named(file: str) -> str:
    return "standard input" if file == "-" else file


def _stdin() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as problem:
            raise DataError(
                f"standard input: line {number} is not UTF-8 (byte 0x{line[problem.start]:02X}, the line's byte number "
                f"{problem.start + 1}); convert it to UTF-8"
            ) from None
        if "\0" in text:
            raise DataError(f"standard input: line {number} holds a NUL character; remove it")
        yield text.removesuffix("\n").removesuffix("\r")


@contextmanager
def _sink(output: Path | None) -> Iterator[TextIO]:
    """Where results go; a file appears whole when all is done, and not at all when something failed."""
    if output is None:
        yield sys.stdout
        return
    # What is no ordinary file, such as /dev/null, cannot be replaced: it is written to.
    ordinary = output.is_file() or not output.exists()
    beside = output.with_name(output.name + ".part") if ordinary else output
    try:
        file = beside.open("w", encoding="utf-8", newline="\n")
    except OSError as problem:
        raise UsageError(
            f"--output {output}: cannot be written ({problem.strerror}); choose a file in a folder of yours"
        ) from None
    try:
        with file:
            yield file
        if ordinary:
            beside.replace(output)
    finally:
        if ordinary:
            beside.unlink(missing_ok=True)


def _text(number: int, translation: Translation, nbest: int) -> str:
    from regard.attention.alignment import pharaoh

    lines = []
    for each in (translation.nbest or (translation,)) if nbest > 1 else (translation,):
        place = f"{number}\t{each.score:.4f}\t" if nbest > 1 else ""
        links = f"\t{pharaoh(each.alignments)}" if each.alignments is not None else ""
        lines.append(f"{place}{each.text}{links}\n")
    return "".join(lines)


def _jsonl(number: int, translation: Translation) -> str:
    values = {"line": number, **_values(translation), "nbest": [_values(each) for each in translation.nbest]}
    return json.dumps(values, ensure_ascii=False) + "\n"


def _values(translation: Translation) -> dict[str, Any]:
    return {
        "text": translation.text,
        "score": round(translation.score, 6),
        "tokens": translation.tokens,
        "alignments": translation.alignments,
    }
