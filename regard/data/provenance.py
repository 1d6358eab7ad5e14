"""What the data of a run were when it began: the hashes of its files, and the settings that decide what is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.atomic import file_sha256, write_bytes
from regard.data.corpus import CorpusSettings

__all__ = ["DATA_FILE", "Fingerprints", "describe_changes", "differences", "fingerprint_files", "write_fingerprints"]

DATA_FILE = "data.json"  # in a run folder

_NAMES = ("folder", "captions", "valid_folder", "valid_captions")

Fingerprints = dict[str, dict[str, Any]]


def fingerprint_files(data: CorpusSettings) -> Fingerprints:
    """The size and the SHA-256 of each file, by corpus and role; one that cannot be read has none."""
    files = data.paths | {f"{name}.alignments": Path(path) for name, path in data.alignment_files.items()}
    stamps: Fingerprints = {}
    for role, path in files.items():
        with suppress(OSError):
            stamps[role] = {"path": str(path), "bytes": path.stat().st_size, "sha256": file_sha256(path)}
    return stamps


def write_fingerprints(data: CorpusSettings, stamps: Fingerprints, run: Path) -> None:
    """Put down in the run folder what the run begins with."""
    run.mkdir(parents=True, exist_ok=True)
    values = {"version": 1, "settings": _choices(data), "files": stamps}
    write_bytes(run / DATA_FILE, json.dumps(values, indent=1).encode())


def describe_changes(data: CorpusSettings, run: Path, stamps: Fingerprints | None = None) -> tuple[str, ...]:
    """Sentences: in what the data are not those that the run in this folder began with; none where nobody knows."""
    if not (run / DATA_FILE).exists():
        return ()
    now = fingerprint_files(data) if stamps is None else stamps
    try:
        before = json.loads((run / DATA_FILE).read_bytes())
        old, settings = before["files"], _flat(before["settings"])
        found = [_file_changed(key, old.get(key), now.get(key)) for key in {**old, **now}]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        return (f"{run / DATA_FILE}: damaged ({problem}); whether the data are those the run began with is not known",)
    choices = _choices(data)
    found += [
        f"data.{key} is {choices.get(key)!r} and was {settings.get(key)!r} when the run began"
        for key in differences(settings, choices)
    ]
    return tuple(sentence for sentence in found if sentence)


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The dotted names of what is not the same in two tables of plain values."""
    found: list[str] = []
    for key in {**before, **now}:
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append(prefix + key)
    return found


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their dotted names; the weights of corpora were once a table of their own."""
    weights = settings.get("weights") or {}
    rest = {key: value for key, value in settings.items() if key != "weights"}
    return {**rest, **{f"weights.{name}": weight for name, weight in weights.items()}}


def _file_changed(role: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> str | None:
    """A sentence where a file is not what it was; the test files change nothing."""
    if role.startswith("test.") or (old and new and old["sha256"] == new["sha256"]):
        return None
    if old is None or new is None:
        there = old or new or {}
        return f"{role}: {there['path']} was {'not there' if old is None else 'there'} when the run began"
    if old["path"] == new["path"]:
        return (
            f"{role}: {new['path']} has changed since the run began ({old['bytes']:,} bytes then, {new['bytes']:,} now)"
        )
    return f"{role}: {new['path']} is not what {old['path']} was when the run began"


def _choices(data: CorpusSettings) -> dict[str, Any]:
    """The settings that decide, beside the files, what is trained on."""
    if data.images is not None:
        chosen = data.images.model_dump(exclude=set(_NAMES))
        return {"max_length": data.max_length, **{f"images.{key}": value for key, value in chosen.items()}}
    weights = {f"weights.{name}": weight for name, weight in data.weights.items()}
    return {**asdict(data.filters), **(weights if len(weights) > 1 else {})}
