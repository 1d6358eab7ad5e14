"""Suspect pairs for other programs: JSON lines, SARIF 2.1.0, and annotations of GitHub."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from regard import __version__
from regard.data.checking.check import CheckReport
from regard.data.checking.suspects import KINDS, Suspect

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
Reports = Mapping[str, CheckReport]
"""Reports on pairs by the names of their files."""


def _text(reports: Reports) -> Iterator[str]:
    for file, report in reports.items():
        first, *others = report.lines()
        yield f"{file}: {first}" if len(reports) > 1 else first
        yield from others


def _json(reports: Reports) -> Iterator[str]:
    for file, report in reports.items():
        for shift in report.shifts:
            yield json.dumps({"file": file, "kind": "shifted", **asdict(shift)})
        for suspect in report.suspects:
            values = {"file": file, **asdict(suspect), "action": suspect.action}
            yield json.dumps(values, ensure_ascii=False)


def _suspects(reports: Reports) -> Iterator[tuple[str, Suspect]]:
    for file, report in reports.items():
        for suspect in report.suspects:
            yield file, suspect


def _sarif(reports: Reports) -> Iterator[str]:
    kinds = dict.fromkeys(suspect.kind for _, suspect in _suspects(reports))
    driver = {
        "name": "regard check",
        "version": __version__,
        "rules": [
            {"id": kind, "shortDescription": {"text": KINDS[kind][1]}} for kind in kinds
        ],
    }
    results = [_sarif_result(file, suspect) for file, suspect in _suspects(reports)]
    run = {"tool": {"driver": driver}, "results": results}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    yield json.dumps(log, ensure_ascii=False, indent=2)


def _sarif_result(file: str, suspect: Suspect) -> dict[str, Any]:
    location = {
        "artifactLocation": {"uri": file},
        "region": {"startLine": suspect.line},
    }
    return {
        "ruleId": suspect.kind,
        "level": "warning",
        "message": {"text": _message(suspect)},
        "locations": [{"physicalLocation": location}],
    }


def _github(reports: Reports) -> Iterator[str]:
    for file, suspect in _suspects(reports):
        name = _escaped(file).replace(":", "%3A").replace(",", "%2C")
        message = _escaped(_message(suspect))
        yield f"::warning file={name},line={suspect.line},title={suspect.kind}::{message}"


def _message(suspect: Suspect) -> str:
    reason = suspect.detail or KINDS[suspect.kind][1]
    return f"{reason}: {suspect.source} ↔ {suspect.target}"


def _escaped(text: str) -> str:
    """Escape a text for a command in the log of an action."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


FORMATS: dict[str, Callable[[Reports], Iterator[str]]] = {
    "text": _text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
}
"""Formats of reports, by name; each yields lines."""
