"""Suspect pairs for other programs: JSON lines, SARIF 2.1.0, and annotations of GitHub."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from regard import __version__
from regard.data.checking.check import CheckReport
from regard.data.checking.suspects import KINDS, Suspect

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
Lines = Callable[[CheckReport, str], Iterator[str]]
"""Yields the lines of a report on the pairs of a file."""


def _text(report: CheckReport, _: str) -> Iterator[str]:
    yield from report.lines()


def _json(report: CheckReport, _: str) -> Iterator[str]:
    for shift in report.shifts:
        yield json.dumps({"kind": "shifted", **asdict(shift)})
    for suspect in report.suspects:
        values = {**asdict(suspect), "action": suspect.action}
        yield json.dumps(values, ensure_ascii=False)


def _sarif(report: CheckReport, file: str) -> Iterator[str]:
    kinds = dict.fromkeys(suspect.kind for suspect in report.suspects)
    driver = {
        "name": "regard check",
        "version": __version__,
        "rules": [
            {"id": kind, "shortDescription": {"text": KINDS[kind][1]}} for kind in kinds
        ],
    }
    results = [_sarif_result(suspect, file) for suspect in report.suspects]
    run = {"tool": {"driver": driver}, "results": results}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    yield json.dumps(log, ensure_ascii=False, indent=2)


def _sarif_result(suspect: Suspect, file: str) -> dict[str, Any]:
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


def _github(report: CheckReport, file: str) -> Iterator[str]:
    for suspect in report.suspects:
        name = _escaped(file).replace(":", "%3A").replace(",", "%2C")
        message = _escaped(_message(suspect))
        yield f"::warning file={name},line={suspect.line},title={suspect.kind}::{message}"


def _message(suspect: Suspect) -> str:
    reason = suspect.detail or KINDS[suspect.kind][1]
    return f"{reason}: {suspect.source} ↔ {suspect.target}"


def _escaped(text: str) -> str:
    """Escape a text for a command in the log of an action."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


FORMATS: dict[str, Lines] = {
    "text": _text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
}
"""Formats of a report, by name."""
