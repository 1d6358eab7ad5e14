"""regard translate: raw lines in, translated lines out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import typer

from regard.cli.app import app, prepare, say
from regard.cli.options import Debug, Device, Quiet, Seed, Threads, device_named
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.pipeline import Translation, Translator

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

    translator = load(run, device_named(device))
    known = total = 0
    with _sink(output) as sink:
        for start, lines in read_chunks(file):
            found = translator.translate(lines, beam, nbest, length_penalty, alignments)
            strange = _strange(translator, lines, start)
            known, total = known + len(lines) - len(strange), total + len(lines)
            if strange:
                say(_warning(file, strange, len(lines)))
            for number, translation in enumerate(found, start):
                sink.write(_jsonl(number, translation) if format == "jsonl" else _text(number, translation, nbest))
            sink.flush()
    if total and not known:
        raise DataError(
            f"{file}: no line is in a script that {run} has seen in training, so nothing above can be right; "
            "check that this is the model for these lines"
        )


def read_chunks(file: str) -> Iterator[tuple[int, list[str]]]:
    """Lines in chunks, each with the number of its first line (from 1). Raises DataError for what is not text."""
    from regard.data.text import read_lines

    lines: Iterable[str] = _stdin() if file == "-" else read_lines(file)
    size, number, stream = (1 if file == "-" and sys.stdin.isatty() else CHUNK), 1, iter(lines)
    while chunk := list(islice(stream, size)):
        yield number, chunk
        number += len(chunk)


def _stdin() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as problem:
            raise DataError(
                f"standard input, line {number}: not UTF-8 at byte {problem.start}; convert it to UTF-8"
            ) from None
        yield text.removesuffix("\n").removesuffix("\r")


@contextmanager
def _sink(output: Path | None) -> Iterator[TextIO]:
    """Where results go; a file appears whole when all is done, and not at all when something failed."""
    if output is None:
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield sys.stdout
        return
    beside = output.with_name(output.name + ".part")
    try:
        file = beside.open("w", encoding="utf-8", newline="\n")
    except OSError as problem:
        raise UsageError(f"--output {output}: cannot be written ({problem.strerror})") from None
    try:
        with file:
            yield file
        beside.replace(output)
    finally:
        beside.unlink(missing_ok=True)


def _strange(translator: Translator, lines: list[str], start: int) -> list[int]:
    """The numbers of lines of which most characters were never seen in training."""
    unknown = translator.tokenizer.source.unknown
    return [number for number, line in enumerate(lines, start) if line.strip() and unknown(line) > 0.5]


def _warning(file: str, strange: list[int], lines: int) -> str:
    named = ", ".join(map(str, strange[:5])) + (f" and {len(strange) - 5} more" if len(strange) > 5 else "")
    return (
        f"warning: {file}, line {named}: most characters were never seen in training, so the translation means "
        f"nothing; check that these {len(strange)} of {lines} lines are in the language of the model"
    )


def _text(number: int, translation: Translation, nbest: int) -> str:
    from regard.attention.alignment import pharaoh

    if nbest > 1:
        some = translation.nbest or (translation,)
        return "".join(f"{number}\t{each.score:.4f}\t{each.text}\n" for each in some)
    links = f"\t{pharaoh(translation.alignments)}" if translation.alignments is not None else ""
    return f"{translation.text}{links}\n"


def _jsonl(number: int, translation: Translation) -> str:
    values = {
        "line": number,
        "text": translation.text,
        "score": round(translation.score, 6),
        "tokens": translation.tokens,
        "alignments": translation.alignments,
        "nbest": [
            {"text": each.text, "score": round(each.score, 6), "tokens": each.tokens} for each in translation.nbest
        ],
    }
    return json.dumps(values, ensure_ascii=False) + "\n"
