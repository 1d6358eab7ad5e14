"""Data provenance: the hashes of a run's data files and the settings that select from them, which
are compared when the run is resumed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.common.atomic import file_sha256, write_text
from regard.common.errors import DataError
from regard.common.reading import file_bytes, parse_json
from regard.data.corpus_facts import CorpusFacts
from regard.data.corpus_settings import CorpusSettings

DATA_FILE = "data.json"  # in a run folder
VERSION = 3  # of that file, and of how pairs and images are read and held out
PAIRS_VERSION = 2
"""Version since which pairs are held out in the same way."""

REMEDY = (
    "put back what it was to go on, or train anew in another `out=`, "
    "if you like with the weights of this run (`parent=`)"
)
_PATHS = ("folder", "captions", "valid_folder", "valid_captions")
"""Image settings that are paths; the files are compared by their content."""

Fingerprints = dict[str, dict[str, Any]]


def fingerprint_files(data: CorpusSettings) -> Fingerprints:
    """Return the size and the SHA-256 of each file by corpus and role; files that cannot be read
    are left out.
    """
    fingerprints: Fingerprints = {}
    for role, path in data.paths.items():
        with suppress(OSError):
            fingerprints[role] = {
                "path": str(path),
                "bytes": path.stat().st_size,
                "sha256": file_sha256(path),
            }
    return fingerprints


def write_fingerprints(
    data: CorpusSettings, fingerprints: Fingerprints, run: Path
) -> None:
    """Record in the run folder with which data the run starts."""
    run.mkdir(parents=True, exist_ok=True)
    values = {"version": VERSION, "settings": _selection(data), "files": fingerprints}
    write_text(run / DATA_FILE, json.dumps(values, indent=1))


def write_corpora(
    run: Path, corpora: Mapping[str, CorpusFacts], report: Sequence[str]
) -> None:
    """Record the corpora of a run, by name, and the lines on how they were read, beside its files.

    Does nothing if the record is missing or damaged.
    """
    with suppress(OSError, ValueError, TypeError):
        values = dict(parse_json(file_bytes(run / DATA_FILE)))
        facts = {name: asdict(corpus) for name, corpus in corpora.items()}
        values |= {"corpora": facts, "report": [*report]}
        write_text(run / DATA_FILE, json.dumps(values, indent=1))


def describe_changes(
    data: CorpusSettings, run: Path, fingerprints: Fingerprints | None = None
) -> tuple[str, ...]:
    """Describe how the data differ from those that the run started with; empty if unknown."""
    if not (run / DATA_FILE).exists():
        return ()
    new = fingerprint_files(data) if fingerprints is None else fingerprints
    try:
        before = parse_json(file_bytes(run / DATA_FILE))
        old = before["files"]
        old_settings = before["settings"]
        if data.images is None:
            is_valid = before["version"] >= PAIRS_VERSION
            holds_out = "valid" in data.holds_out
        else:
            is_valid = before["version"] == VERSION
            holds_out = data.images.valid_captions is None
        if holds_out and not is_valid:
            raise DataError(
                f"{run}: was begun by a version of Regard that held out other data for "
                "validation, which would now be trained on; train anew, in another `out=`"
            )
        sentences = [
            _describe_file(role, old.get(role), new.get(role))
            for role in {**old, **new}
        ]
        settings = _selection(data)
        for key in differences(old_settings, settings):
            sentences.append(
                f"data.{key} is {settings.get(key)!r} and was {old_settings.get(key)!r} when the "
                "run began"
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        return (
            f"{run / DATA_FILE}: damaged ({problem}); whether the data are those the run began "
            "with is not known",
        )
    return tuple(sentence for sentence in sentences if sentence)


def refuse_changed_files(
    run: Path, fingerprints: Fingerprints, remedy: str = REMEDY
) -> None:
    """Raise DataError, with all causes, if files have another content than when the run began.

    Files that were only moved are accepted; test files and new corpora are not compared.
    """
    try:
        old = parse_json(file_bytes(run / DATA_FILE))["files"]
        sentences = [
            _describe_file(role, old[role], new)
            for role, new in fingerprints.items()
            if role in old
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return  # `describe_changes` reports a damaged record
    DataError.raise_all(f"{sentence}; {remedy}" for sentence in sentences if sentence)


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = ""
) -> list[str]:
    """Return the dotted names of the values that differ between two nested tables."""
    names: list[str] = []
    for key in {**before, **after}:
        old = before.get(key)
        new = after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            names += differences(old, new, f"{prefix}{key}.")
        elif old != new:
            names.append(prefix + key)
    return names


def _describe_file(
    role: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> str | None:
    """Return a sentence if a file has changed; None if not, and for test files, which do not affect
    a run.
    """
    if role.startswith("test.") or (old and new and old["sha256"] == new["sha256"]):
        return None
    if old is None or new is None:
        entry = old or new or {}
        presence = "not there" if old is None else "there"
        return f"{role}: {entry['path']} was {presence} when the run began"
    if old["path"] == new["path"]:
        return (
            f"{role}: {new['path']} has changed since the run began ({old['bytes']:,} bytes then, "
            f"{new['bytes']:,} now)"
        )
    return f"{role}: {new['path']} is not what {old['path']} was when the run began"


def _selection(data: CorpusSettings) -> dict[str, Any]:
    """Return the settings that, together with the files, determine the training data."""
    selection: dict[str, Any]
    if data.images is not None:
        selection = {"max_length": data.max_length}
        for key, value in data.images.model_dump(exclude=set(_PATHS)).items():
            selection[f"images.{key}"] = value
        return selection
    selection = asdict(data.filters)
    if len(data.weights) > 1:
        for name, weight in data.weights.items():
            selection[f"weights.{name}"] = weight
    return selection


def trained_on(run: Path, names: Iterable[str]) -> list[str]:
    """Return the files among these that a run was trained on, by their contents."""
    if not (run / DATA_FILE).exists():
        return []
    files = parse_json(file_bytes(run / DATA_FILE))["files"]
    hashes = {
        entry["sha256"] for role, entry in files.items() if role.startswith("train.")
    }
    return [
        name
        for name in names
        if Path(name).is_file() and file_sha256(Path(name)) in hashes
    ]
