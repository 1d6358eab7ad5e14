"""Entries of a comparison: run folders, and files with the outputs of other systems."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.common.atomic import file_sha256
from regard.common.checksums import json_digest
from regard.common.counting import counted
from regard.common.errors import DataError, RegardError, UsageError
from regard.data.text import nfc, read_lines
from regard.model_folder import FolderSettings, load_settings
from regard.run import WRITTEN
from regard.training.journal import JournalEvent, last_update, read
from regard.training.recipe import read_run_recipe
from regard.training.run_lock import is_locked


@dataclass(frozen=True)
class Entry:
    """A run, or a file of outputs, whose lines are `outputs`.

    `recipe` is a digest that is the same for all runs of a system; empty if unknown.
    """

    name: str
    system: str
    seed: int | None
    path: Path
    outputs: tuple[str, ...] | None = None
    recipe: str = ""
    languages: tuple[str, str] | None = None
    settings: FolderSettings | None = None

    @property
    def is_run(self) -> bool:
        """True for a run folder, false for a file of outputs."""
        return self.outputs is None


def open_runs(runs: Sequence[tuple[str, Path]]) -> list[Entry]:
    """Open run folders, each with its name or an empty one. Raises RegardError with all causes.

    Runs whose recipes differ in the seed alone are one system, and so are runs with the same given
    name.
    """
    causes = list[str]()
    entries = list[Entry]()
    counts = Counter(Path(os.path.realpath(path)) for _, path in runs)
    repeated = sorted(path for path, count in counts.items() if count > 1)
    causes += [
        f"{path}: is given more than once; leave the others out" for path in repeated
    ]
    for name, path in runs:
        try:
            entries.append(_open_run(name, path))
        except RegardError as problem:
            causes += problem.causes
    UsageError.raise_all(causes)
    return _named(entries)


def _open_run(name: str, path: Path) -> Entry:
    settings = load_settings(path)
    recipe_file = path / "train.toml"
    seed = None
    recipe = ""
    languages = settings.languages.pair if all(settings.languages.pair) else None
    if recipe_file.is_file():
        values = read_run_recipe(recipe_file)
        seed = values.get("training", {}).get("seed")
        recipe = _digest_without_seed(values, path)
    return Entry(
        name, name, seed, path, recipe=recipe, languages=languages, settings=settings
    )


def _digest_without_seed(values: Mapping[str, Any], folder: Path) -> str:
    """Return a digest of a recipe that depends neither on the seed nor on the settings that end
    training.

    Pairs of an iterable, which every run has in a file of its own, are the same if their bytes are.
    """
    files = {name: folder / file for name, file in WRITTEN.items()}
    written = {
        name: file_sha256(file) for name, file in files.items() if file.is_file()
    }
    data = {**values.get("data", {}), **written}
    ends = {"seed", "updates", "minutes", "patience"}
    training = {
        name: value
        for name, value in values.get("training", {}).items()
        if name not in ends
    }
    return json_digest({**values, "data": data, "training": training})


def _named(entries: list[Entry]) -> list[Entry]:
    """Group runs into systems and name both: as given, or else after their folders.

    Several runs of a system are told apart by their seeds, or by numbers if seeds are unknown or
    repeated.
    """
    systems: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.name:
            key = f"name {entry.name}"
        elif entry.recipe:
            key = f"recipe {entry.recipe}"
        else:
            key = f"path {entry.path}"
        systems.setdefault(key, []).append(entry)

    titles = _titles(list(systems.values()))
    result = []
    for title, runs in zip(titles, systems.values(), strict=True):
        seeds = [run.seed for run in runs]
        by_seed = len(set(seeds)) == len(seeds) and None not in seeds
        for number, run in enumerate(runs, 1):
            name = title
            if len(runs) > 1:
                name += f" seed {run.seed}" if by_seed else f" run {number}"
            result.append(replace(run, name=name, system=title))
    return result


def _titles(systems: Sequence[Sequence[Entry]]) -> list[str]:
    """Return a name for each system: the given name, or the part that the names of its folders
    share.

    Systems with the same name get that of the parent folder too, and else a number.
    """
    titles = []
    for runs in systems:
        names = [run.path.resolve().name for run in runs]
        stem = _shared_prefix(names)
        if len(runs) > 1:
            stem = re.sub(r"[-_. ]*(seed|run)?[-_. ]*\d*$", "", stem)
        titles.append(runs[0].name or stem or names[0])

    title_counts = Counter(titles)
    for number, runs in enumerate(systems):
        if title_counts[titles[number]] > 1 and not runs[0].name:
            titles[number] = "/".join(runs[0].path.resolve().parts[-2:])
    counts: Counter[str] = Counter()
    unique = []
    for title in titles:
        counts[title] += 1
        unique.append(title if counts[title] == 1 else f"{title} ({counts[title]})")
    return unique


def _shared_prefix(names: Sequence[str]) -> str:
    """Return the longest prefix that all names have."""
    shortest = min(names, key=len)
    for length, letter in enumerate(shortest):
        if any(name[length] != letter for name in names):
            return shortest[:length]
    return shortest


def open_hypotheses(
    files: Iterable[tuple[str, Path]], lines: int, test_name: str
) -> list[Entry]:
    """Read files of outputs, one line for each of `lines` sentences. Raises DataError with all
    causes.
    """
    causes = list[str]()
    entries = list[Entry]()
    for name, path in files:
        try:
            outputs = tuple(nfc(line) for line in read_lines(path))
        except DataError as problem:
            causes += problem.causes
            continue
        if len(outputs) != lines:
            causes.append(
                f"{path}: has {counted(len(outputs), 'line')}, and {test_name} has {lines:,}; "
                f"give an output for each, an empty line "
                "if there is none"
            )
        entries.append(Entry(name or path.name, name or path.name, None, path, outputs))
    DataError.raise_all(causes)
    return entries


def conflicts(entries: Sequence[Entry], captions: bool) -> list[str]:
    """Return a sentence for each entry that does not fit the test set or the other entries."""
    causes = []
    for entry in entries:
        reads = "" if entry.settings is None else entry.settings.model.encoder.reads
        if reads == "images" and not captions:
            causes.append(
                f"{entry.path}: captions images, and the test set has sentences; leave it out"
            )
        elif reads == "text" and captions:
            causes.append(
                f"{entry.path}: translates sentences, and the test set has images; leave it out"
            )
    translators = [entry for entry in entries if entry.languages is not None]
    for entry in translators[1:]:
        first = translators[0]
        if entry.languages != first.languages:
            causes.append(
                f"{entry.path}: translates {_direction(entry)}, and {first.path} "
                f"{_direction(first)} (by the names of their training files); compare runs of the "
                "same languages"
            )
    names = Counter(entry.name for entry in entries)
    causes += [
        f"{name}: two of them have this name; give others, as NAME=PATH"
        for name, count in names.items()
        if count > 1
    ]
    return causes


def _direction(entry: Entry) -> str:
    return " → ".join(entry.languages or ())


def status_of(folder: Path) -> str:
    """Describe a run that has not ended; empty if it has ended, or if it has no journal."""
    events = read(folder / "journal.jsonl")
    last = last_update(events)
    if is_locked(folder):
        return f"still training, at update {last:,}: compared as it is now"
    starts = [
        number
        for number, event in enumerate(events)
        if event["event"] in ("machine", "resume")
    ]
    ends = [number for number, event in enumerate(events) if event["event"] == "end"]
    if not events:
        return ""
    has_end = bool(ends) and ends[-1] > max(starts, default=-1)
    if has_end and not _was_stopped(events[ends[-1]]):
        return ""
    return f"stopped at update {last:,}, before its end: compared as it is"


def has_ended(folder: Path) -> bool:
    """Return whether the run in this folder was trained to its end."""
    return (
        (folder / "journal.jsonl").is_file()
        and bool(read(folder / "journal.jsonl"))
        and not status_of(folder)
    )


def _was_stopped(event: JournalEvent) -> bool:
    return str(event.get("reason", "")).startswith("stopped by")
