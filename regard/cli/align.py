"""regard align: align the words of sentence pairs by attention, score alignments, and choose the
best head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.app import app, say, warn
from regard.cli.options import check_output, select_device
from regard.common.counting import counted
from regard.common.errors import DataError, LineError, UsageError
from regard.requests.align_request import AlignCommand

if TYPE_CHECKING:
    from regard.attention.alignment import Link, Readings, Symmetry
    from regard.evaluation.aer import Gold
    from regard.pipeline import AlignmentChoice, FolderTranslator

    # Forward readings of several pairs, and backward readings if there is a reverse model.
    _Readings = tuple[list[Readings], list[Readings] | None]

PAIRS_AT_ONCE = 1000
"""Sentence pairs whose attention weights are in memory at a time."""


@app.command(request=AlignCommand, sets=("threads", "seed"))
def align(command: AlignCommand) -> None:
    """Link the words of sentence pairs by attention, as source-target pairs counted from 0.

    With --gold, print instead the alignment error rates of the chosen head and of the last layer's
    mean. With --choose, the pairs should be validation data: report figures on others.
    """
    gold = command.gold
    name = command.pairs or command.source or ""
    check_output(command.output, name, command.target, gold)
    from regard.pipeline import load_translator

    sources, targets, gold_links = _read(command)
    device = select_device(command.device)
    translator = load_translator(command.run, device)
    forward = _Direction(command.run, translator, sources, targets, name)
    backward = None
    if command.reverse is not None:
        translator = load_translator(command.reverse, device)
        backward = _Direction(command.reverse, translator, targets, sources, name)

    say(f"reading {len(sources):,} pair{'s' if len(sources) != 1 else ''}")
    parts: Iterable[_Readings] = _read_in_parts(forward, backward)
    if command.choose:
        all_readings = (
            forward.readings(),
            None if backward is None else backward.readings(),
        )
        _choose(forward, backward, all_readings, gold_links)
        parts = [all_readings]

    links, baseline, choice = _link(
        forward, backward, parts, command.symmetry, gold is not None
    )
    if gold_links is not None:
        links_by_name = {choice: links, "last layer, mean of heads": baseline}
        _print_scores(command.run, links_by_name, gold_links)
    if command.output is not None or (gold_links is None and not command.choose):
        _write(links, command.output)


@dataclass(frozen=True)
class _Direction:
    """A model, with the sentence pairs in its translation direction."""

    run: Path
    translator: FolderTranslator
    sources: list[str]
    targets: list[str]
    name: str  # name of the source file, for error messages

    def readings(self, first: int = 0, count: int | None = None) -> list[Readings]:
        """Force-decode the targets, and return the attention weights.

        `first` and `count` select a range of the pairs. Raises UsageError if the model has no
        attention.
        """
        from regard.evaluation.aer import read_all
        from regard.pipeline import last_layer

        rows = slice(first, None if count is None else first + count)
        try:
            readings = read_all(self.translator, self.sources[rows], self.targets[rows])
        except LineError as problem:
            raise problem.in_file(self.name, first + 1) from None
        last_layer(readings[0])
        return readings

    def choice(self, readings: list[Readings]) -> AlignmentChoice:
        """Return the head that was chosen for alignments, or the default choice."""
        from regard.pipeline import default_choice

        return self.translator.choice or default_choice(readings[0])


def _read(
    command: AlignCommand,
) -> tuple[list[str], list[str], list[Gold] | None]:
    """Read sources, targets and gold links.

    Raises UsageError unless pairs, or sources and targets, are given, and DataError, with all
    causes, if their lines do not correspond.
    """
    from regard.data.given_words import given_words
    from regard.data.pairs import format_lines
    from regard.data.text import read_lines, read_parallel
    from regard.data.word_alignments import UNEVEN
    from regard.evaluation.aer import parse_gold

    source, target, gold = command.source, command.target, command.gold
    if command.pairs is not None and source is target is None:
        sources, targets = _read_pairs(command, command.pairs)
        gold_lines = [read_lines(gold)] if gold is not None else []
        source = target = command.pairs
    elif not (command.pairs or command.columns or source is None or target is None):
        paths = [source, target] if gold is None else [source, target, gold]
        sources, targets, *gold_lines = read_parallel(paths)
    else:
        raise UsageError("give --source and --target, or --pairs")
    for path, lines in ((source, sources), (target, targets)):
        uneven = [
            number
            for number, line in enumerate(lines, 1)
            if given_words(line).is_uneven
        ]
        if uneven:
            warn(
                f"{path}: {len(uneven):,} line{'s have' if len(uneven) > 1 else ' has'} "
                f"{UNEVEN}{format_lines(uneven)}"
            )
    if gold is None:
        return sources, targets, None
    if len(gold_lines[0]) != len(sources):
        counts = (
            f"{counted(len(gold_lines[0]), 'line')} for {counted(len(sources), 'pair')}"
        )
        raise DataError(f"{gold}: has {counts}; give a line for each pair")
    return sources, targets, parse_gold(gold, gold_lines[0], sources, targets)


def _read_pairs(command: AlignCommand, path: str) -> tuple[list[str], list[str]]:
    """Read the pairs of a file as they stand, with the columns of the model's languages."""
    from regard.data.file_formats import SKIPPED, PairFiles, PairReader
    from regard.model_folder import folder_languages

    languages = folder_languages(command.run)
    reader = PairReader(
        PairFiles(pairs=path, columns=command.columns, languages=languages)
    )
    rows = [row for row in reader if row[1] != SKIPPED[1]]
    say(*reader.notes)
    return [source for source, _ in rows], [target for _, target in rows]


def _read_in_parts(
    forward: _Direction, backward: _Direction | None
) -> Iterator[_Readings]:
    """Yield the readings of `PAIRS_AT_ONCE` pairs at a time, because those of a corpus may not fit
    into memory.
    """
    for first in range(0, len(forward.sources), PAIRS_AT_ONCE):
        forward_readings = forward.readings(first, PAIRS_AT_ONCE)
        backward_readings = None
        if backward is not None:
            backward_readings = backward.readings(first, PAIRS_AT_ONCE)
        yield forward_readings, backward_readings


def _choose(
    forward: _Direction,
    backward: _Direction | None,
    readings: _Readings,
    gold: list[Gold] | None,
) -> None:
    """Choose the layer, head and shift that align best, and store the choice."""
    from regard.evaluation.aer import (
        best_choice,
        best_pair,
        most_agreeing_pair,
        most_consistent_choice,
    )
    from regard.model_folder import save_alignment

    translator = forward.translator
    reverse = None if backward is None else backward.translator
    forwards, backwards = readings
    if gold is not None and reverse is not None and backwards is not None:
        choice, reverse.choice, scores = best_pair(forwards, backwards, gold)
        symmetry = f", {choice.with_reverse}"
        basis = f"gold links, AER {scores.aer:.1%} here"
    elif gold is not None:
        choice, scores = best_choice(forwards, gold)
        symmetry = f", {choice.symmetry}" if choice.symmetry else ""
        basis = f"gold links, AER {scores.aer:.1%} here"
    elif reverse is not None and backwards is not None:
        choice, reverse.choice, agreement = most_agreeing_pair(forwards, backwards)
        symmetry = ""
        basis = f"agreement of both directions, {agreement:.1%} of links"
    else:
        choice, agreement = most_consistent_choice(forwards)
        symmetry = ""
        compared = "its links from source to target and from target to source"
        basis = f"agreement of {compared}, {agreement:.1%} of links"

    translator.choice = choice
    say(f"chosen by {basis}: {_describe(choice, forwards)}{symmetry}")
    save_alignment(forward.run, asdict(choice))
    if backward is not None and backwards is not None:
        backward_choice = backward.translator.choice
        if backward_choice is not None:
            say(f"and of {backward.run}: {_describe(backward_choice, backwards)}")
            save_alignment(backward.run, asdict(backward_choice))


def _describe(choice: AlignmentChoice, readings: list[Readings]) -> str:
    layers = readings[0].layers("cross")
    head = "mean of heads" if choice.head is None else f"head {choice.head + 1}"
    row = "at the step that predicts the word"
    if choice.shifted:
        row = "at the step after the word"
    return f"layer {layers.index(choice.layer) + 1}, {head}, {row}"


def _link(
    forward: _Direction,
    backward: _Direction | None,
    parts: Iterable[_Readings],
    symmetry: Symmetry | None,
    compare: bool,
) -> tuple[list[list[Link]], list[list[Link]], str]:
    """Return the links of all pairs by the chosen head, those of the last layer, and a description
    of the choice.

    The links of the last layer are empty unless `compare`.
    """
    from regard.attention.alignment import symmetrise
    from regard.evaluation.aer import extract_choice_links
    from regard.pipeline import last_layer

    links = list[list["Link"]]()
    baseline = list[list["Link"]]()
    name = ""
    for readings, backwards in parts:
        choice = forward.choice(readings)
        if backward is None or backwards is None:
            combined = symmetry or choice.symmetry
            links += extract_choice_links(readings, replace(choice, symmetry=combined))
        else:
            combined = symmetry or choice.with_reverse
            forward_links = extract_choice_links(
                readings, replace(choice, symmetry=None)
            )
            backward_choice = replace(backward.choice(backwards), symmetry=None)
            backward_links = extract_choice_links(backwards, backward_choice)
            for pair_links, reverse_links in zip(
                forward_links, backward_links, strict=True
            ):
                swapped = [(t, s) for s, t in reverse_links]
                links.append(symmetrise(pair_links, swapped, combined))

        name = _describe(choice, readings)
        if combined:
            name += f", {combined}"
        if compare:
            baseline += extract_choice_links(readings, last_layer(readings[0]))
    return links, baseline, name


def _print_scores(
    run: Path, links_by_name: Mapping[str, list[list[Link]]], gold: list[Gold]
) -> None:
    """Print alignment error rate, precision and recall of each set of links."""
    from regard.evaluation.aer import alignment_scores

    for name, links in links_by_name.items():
        scores = alignment_scores(links, gold)
        typer.echo(
            f"AER {scores.aer:6.1%}   precision {scores.precision:6.1%}   "
            f"recall {scores.recall:6.1%}   {name}"
        )
    say(f"{len(gold):,} pair{'s' if len(gold) != 1 else ''}, {run}")


def _write(links: list[list[Link]], output: Path | None) -> None:
    from regard.data.text import write_lines
    from regard.data.word_alignments import format_pharaoh

    lines = [format_pharaoh(pair_links) for pair_links in links]
    if output is not None:
        write_lines(output, lines)
    else:
        typer.echo("\n".join(lines))
