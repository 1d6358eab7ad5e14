"""regard align: which words correspond in sentence pairs that are given, and which read shows it best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.app import app, say, setup_process
from regard.cli.options import Debug, Device, Quiet, Seed, Threads, device_named
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.attention.alignment import Link, Readings, Symmetry
    from regard.evaluation.aer import Gold
    from regard.pipeline import AlignmentChoice, Translator

    _Part = tuple[list[Readings], list[Readings] | None]  # of some pairs; of the other direction

__all__ = ["align"]

TOGETHER = 1000
"""Pairs whose readings are in memory at a time."""


@app.command()
def align(
    run: Annotated[Path, typer.Argument(help="A model or run folder.")],
    source: Annotated[str, typer.Option(help="Sentences, one a line.")],
    target: Annotated[str, typer.Option(help="Their translations, line by line.")],
    gold: Annotated[
        str | None, typer.Option(help="Right links, line by line: 0-0, or 0p0 where merely possible.")
    ] = None,
    reverse: Annotated[
        Path | None, typer.Option(help="A model of the other direction: links are put together from both.")
    ] = None,
    symmetry: Annotated[
        Literal["intersection", "grow-diag", "grow-diag-final", "union"] | None,
        typer.Option(help="How the links of both directions are put together; what was chosen if not given."),
    ] = None,
    choose: Annotated[
        bool,
        typer.Option(
            "--choose",
            help="Pick the layer, head and row that align these pairs best, by --gold or else by the agreement of both "
            "directions, and store the choice in the model folder.",
        ),
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Write the links here instead of standard output.")] = None,
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Link the words of sentence pairs by attention, as source-target pairs counted from 0.

    With --gold, the alignment error rate is printed instead, of the choice and of the last layer's mean. With --choose,
    pairs should be validation data: figures are for others.
    """
    setup_process(threads, quiet, debug, seed)
    from regard.evaluation.aer import links_of
    from regard.pipeline import last_layer, load_translator

    sources, targets, links = _read(source, target, gold)
    place = device_named(device)
    translator, other = load_translator(run, place), None if reverse is None else load_translator(reverse, place)
    say(f"reading {len(sources):,} pairs")
    if choose:
        readings = _readings(translator, sources, targets)
        backwards = None if other is None else _readings(other, targets, sources)
        _choose(run, reverse, translator, other, readings, backwards, links)
        parts: Iterable[_Part] = [(readings, backwards)]
    else:
        parts = _in_parts(translator, other, sources, targets)
    found, fixed, name = list[list["Link"]](), list[list["Link"]](), ""
    for readings, backwards in parts:
        choice, last = _chosen(translator, readings), last_layer(readings[0])
        how = symmetry or choice.symmetry
        if other is None or backwards is None:
            found += links_of(readings, replace(choice, symmetry=how))
        else:
            how = symmetry or choice.with_reverse
            found += _joined(readings, choice, backwards, _chosen(other, backwards), how)
        name = f"{_named(choice, readings)}{f', {how}' if how else ''}"
        fixed += links_of(readings, last) if links is not None else []
    if links is not None:
        _score(run, {name: found, "last layer, mean of heads": fixed}, links)
    if output is not None or (links is None and not choose):
        _write(found, output)


def _read(source: str, target: str, gold: str | None) -> tuple[list[str], list[str], list[Gold] | None]:
    """The files, checked against each other."""
    from regard.data.text import clean, read_files

    names = [source, target, *([gold] if gold else [])]
    files = [file.lines for file in read_files(names)]
    uneven = [
        f"{name} has {len(lines)} lines and {source} has {len(files[0])}; give files whose lines belong together"
        for name, lines in zip(names, files, strict=True)
        if len(lines) != len(files[0])
    ]
    if uneven:
        raise DataError(*uneven)
    sources, targets = ([clean(line) for line in lines] for lines in files[:2])
    empty = [str(n) for n, pair in enumerate(zip(sources, targets, strict=True), 1) if not all(pair)]
    if empty:
        raise DataError(f"{source}, {target}: line {empty[0]} is empty on a side; leave such pairs out")
    return sources, targets, None if gold is None else _gold(gold, files[2], sources, targets)


def _gold(path: str, lines: list[str], sources: list[str], targets: list[str]) -> list[Gold]:
    from regard.data.word_alignments import check_links, read_gold
    from regard.evaluation.aer import Gold

    found, problems = [], []
    for number, (line, *pair) in enumerate(zip(lines, sources, targets, strict=True), 1):
        try:
            found.append(Gold(*read_gold(line)))
            check_links(sorted(found[-1].sure | found[-1].possible), *pair)
        except ValueError as problem:
            problems.append(f"{path}, line {number}: {problem}")
    if problems:
        raise DataError(*problems[:5])
    return found


def _readings(translator: Translator, sources: list[str], targets: list[str]) -> list[Readings]:
    from regard.evaluation.aer import read_all
    from regard.pipeline import last_layer

    readings = read_all(translator, sources, targets)
    last_layer(readings[0])  # or an error, where there is none
    return readings


def _in_parts(
    translator: Translator, other: Translator | None, sources: list[str], targets: list[str]
) -> Iterator[_Part]:
    """What is looked at in some pairs after the other: that of all of a corpus may not fit in memory."""
    for first in range(0, len(sources), TOGETHER):
        some = sources[first : first + TOGETHER], targets[first : first + TOGETHER]
        yield _readings(translator, *some), None if other is None else _readings(other, *some[::-1])


def _chosen(translator: Translator, readings: list[Readings]) -> AlignmentChoice:
    from regard.pipeline import last_layer

    return translator.choice or last_layer(readings[0])


def _choose(
    run: Path,
    reverse: Path | None,
    translator: Translator,
    other: Translator | None,
    readings: list[Readings],
    backwards: list[Readings] | None,
    gold: list[Gold] | None,
) -> None:
    """Pick and store."""
    from regard.evaluation.aer import agreeing_choices, best_choice, best_pair
    from regard.model_folder import save_alignment

    if gold is not None and other is not None and backwards is not None:
        translator.choice, other.choice, scores = best_pair(readings, backwards, gold)
        together = translator.choice.with_reverse
        say(f"chosen by gold links, AER {scores.aer:.1%} here: {_named(translator.choice, readings)}, {together}")
    elif gold is not None:
        translator.choice, scores = best_choice(readings, gold)
        how = f", {translator.choice.symmetry}" if translator.choice.symmetry else ""
        say(f"chosen by gold links, AER {scores.aer:.1%} here: {_named(translator.choice, readings)}{how}")
    else:
        translator.choice, chosen, agreement = agreeing_choices(readings, backwards)
        side = "both directions" if backwards else "the read from its two sides"
        say(f"chosen by agreement of {side}, {agreement:.1%} of links: {_named(translator.choice, readings)}")
        if other is not None:
            other.choice = chosen
    save_alignment(run, asdict(translator.choice))
    if reverse is not None and other is not None and other.choice is not None and backwards is not None:
        say(f"and of {reverse}: {_named(other.choice, backwards)}")
        save_alignment(reverse, asdict(other.choice))


def _named(choice: AlignmentChoice, readings: list[Readings]) -> str:
    layers = readings[0].layers("cross")
    head = "mean of heads" if choice.head is None else f"head {choice.head + 1}"
    row = "the read after the word" if choice.shifted else "the read that predicted the word"
    return f"layer {layers.index(choice.layer) + 1}, {head}, {row}"


def _joined(
    readings: list[Readings],
    choice: AlignmentChoice,
    backwards: list[Readings],
    other: AlignmentChoice,
    symmetry: Symmetry,
) -> list[list[Link]]:
    """The links of two models, put together."""
    from regard.attention.alignment import symmetrise
    from regard.evaluation.aer import links_of

    one = links_of(readings, replace(choice, symmetry=None))
    turned = links_of(backwards, replace(other, symmetry=None))
    return [
        symmetrise(forward, [(t, s) for s, t in backward], symmetry)
        for forward, backward in zip(one, turned, strict=True)
    ]


def _score(run: Path, found: Mapping[str, list[list[Link]]], gold: list[Gold]) -> None:
    """Print how far the links of a choice are from gold, and how far those of a fixed one are, to compare."""
    from regard.evaluation.aer import alignment_scores

    for name, links in found.items():
        s = alignment_scores(links, gold)
        typer.echo(f"AER {s.aer:6.1%}   precision {s.precision:6.1%}   recall {s.recall:6.1%}   {name}")
    say(f"{len(gold):,} pairs, {run}")


def _write(found: list[list[Link]], output: Path | None) -> None:
    from regard.data.text import write_lines
    from regard.data.word_alignments import format_pharaoh

    lines = [format_pharaoh(links) for links in found]
    if output is not None:
        write_lines(output, lines)
    else:
        typer.echo("\n".join(lines))
