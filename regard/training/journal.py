"""The journal of a run, `journal.jsonl`: one JSON line for each event.

It is continued if the run is stopped and resumed.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypedDict

from regard.common.atomic import write_bytes
from regard.common.counting import counted
from regard.common.reading import parse_json

ValidationScore = Literal["loss", "chrf", "bleu", "cider"]
VALIDATED: tuple[ValidationScore, ...] = ("loss", "chrf", "bleu", "cider")
"""Names of the loss and the scores of a validation."""
SCORES = ("cross_entropy", "loss", "guided", "chrf", "bleu", "cider")
"""Values that are drawn as curves, so they have to be numbers."""


class ValidationScores(TypedDict, total=False):
    """The loss in nats per token, the scores, and the entropy of each attention layer in nats."""

    loss: float
    chrf: float
    bleu: float
    cider: float
    attention: dict[str, float]
    short_lines: float  # share of references that are too short for BLEU


FEW_LINES = 10
"""Lines below which an interval of confidence means nothing."""


class JournalEvent(TypedDict, total=False):
    """An event of a run: its name, the time in seconds since 1970, and the values of its kind.

    A float that was infinite or NaN is None.
    """

    event: str
    time: float
    update: int
    # "train" and "valid"; loss and cross-entropy are in nats per token
    loss: float | None
    cross_entropy: float | None
    guided: float | None
    gradient_norm: float | None
    learning_rate: float
    epoch: int
    updates: int | None  # the last update, if known
    seconds_left: float | None
    tokens_per_second: float
    tokens: int
    seconds: float  # of training, without validation
    chrf: float
    bleu: float
    cider: float
    attention: dict[str, float]  # entropy of each layer
    short_lines: float  # share of references that are too short for BLEU
    best: bool
    validation_seconds: float
    # "end", "budget", "halved", "damaged" and "restored"
    reason: str
    minutes: float
    parts: int
    problem: str
    # "test"
    pairs: int
    unit: str  # what these are, if not pairs
    beam: int
    scores: list[TestScore]
    # "machine"
    regard: str
    torch: str
    python: str
    device: str
    threads: int
    processor: str
    instructions: str  # the level of PyTorch's kernels, such as AVX512
    sentencepiece: str
    processes: int
    command: str  # the command line; empty if called from Python


class TestScore(TypedDict):
    """A metric on the test pairs with its 95 % interval, the part of `TestedScore` that is read."""

    name: str
    value: float
    low: float
    high: float
    signature: str


class Journal:
    """Appends events to `journal.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, **values: object) -> None:
        """Append an event, with the time of day in seconds since 1970."""
        record = {"event": event, **values, "time": round(time.time(), 1)}
        line = json.dumps(_rounded(record), ensure_ascii=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def truncate(self, update: int) -> None:
        """Remove the events after `update`, which a resumed run writes again."""
        events = [
            event
            for event in read(self.path, warn=True)
            if event.get("update", 0) <= update
        ]
        text = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
        # Strings in JSON may contain half a surrogate pair, which UTF-8 cannot encode.
        write_bytes(self.path, text.encode("utf-8", "replace"))


def _rounded(value: object) -> object:
    """Round floats to six decimals, also in nested tables.

    Infinities and NaN, which JSON lacks, become None.
    """
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value


def read(path: Path, warn: bool = False) -> list[JournalEvent]:
    """Return the events of a journal, without damaged lines; training does not depend on them.

    With `warn` a warning names the damaged lines, except the last line, which any crash can cut
    off. A journal that is missing or cannot be read has no events.
    """
    if not path.is_file():
        return []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as problem:
        warnings.warn(
            f"{path}: cannot be read ({problem.strerror}); a new journal is begun",
            stacklevel=3,
        )
        return []
    events = [_parse(line) for line in lines]
    damaged = [number for number, event in enumerate(events[:-1], 1) if event is None]
    if warn and damaged:
        more = f" and {len(damaged) - 1:,} more" if len(damaged) > 1 else ""
        warnings.warn(
            f"{path}: line {damaged[0]:,}{more} damaged and left out; it is only a record",
            stacklevel=3,
        )
    return [event for event in events if event is not None]


def of_kind(events: Iterable[JournalEvent], kind: str) -> list[JournalEvent]:
    """Return the events with a name, such as "train" or "valid"."""
    return [event for event in events if event["event"] == kind]


def last_update(events: Iterable[JournalEvent]) -> int:
    """Return the highest update of the events; 0 if there are none."""
    return max((event.get("update", 0) for event in events), default=0)


def scores_of(event: JournalEvent) -> dict[str, float]:
    """Return the loss and the scores of a validation."""
    return {name: value for name in VALIDATED if (value := event.get(name)) is not None}


def describe_test(event: JournalEvent) -> str:
    """Describe a test by its pairs, search and scores, with intervals from ten pairs on."""
    has_intervals = event["pairs"] >= FEW_LINES
    scores = (
        f"{score['name']} {score['value']:.1f}"
        + (f" ({score['low']:.1f} to {score['high']:.1f})" if has_intervals else "")
        for score in event["scores"]
    )
    note = "with 95 % intervals" if has_intervals else "too few for intervals"
    pairs = counted(event["pairs"], event.get("unit", "pair"))
    return f"{pairs}, beam {event['beam']}, {note}: {', '.join(scores)}"


def cross_attention_entropy(event: JournalEvent) -> float | None:
    """Return the entropy of cross-attention at a validation, averaged over its layers, or None."""
    layers = event.get("attention")
    if not isinstance(layers, dict):
        return None
    entropies = [
        value
        for name, value in layers.items()
        if "cross_attention" in name and isinstance(value, (int, float))
    ]
    return sum(entropies) / len(entropies) if entropies else None


def _parse(line: str) -> JournalEvent | None:
    """Parse a line; None if it is no event with an update and scores that are numbers."""
    try:
        event: JournalEvent = parse_json(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return None
    update = event.get("update", -1 if event["event"] in ("train", "valid") else 0)
    if type(update) is not int or not 0 <= update < 2**63:
        return None
    for key in SCORES:
        if not isinstance(event.get(key), (int, float, type(None))):
            return None
    return event
