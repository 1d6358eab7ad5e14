"""Result of a comparison as data, which `regard.compare` returns, the JSON file holds and the
report draws.

A *run* is one trained model, or one file with the outputs of another system. A *system* is one side
of the comparison: one recipe, with runs that differ only in the seed. Intervals are at 95 %.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from regard.common.atomic import write_text
from regard.common.counting import counted
from regard.common.notebook import data_frame, html_table
from regard.evaluation.calibration import Calibration

FORMAT = 1
"""The version of the JSON file."""


@dataclass(frozen=True)
class TestSet:
    """The test set that all systems decode: `sources` are sentences, or file names of images.

    `references` holds one or more references for each sentence or image. `digest` is the SHA-256 of
    sources and references.
    """

    name: str
    sources: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    digest: str
    note: str = ""  # such as that it was held out of the training data


@dataclass(frozen=True)
class RunScore:
    """A corpus score of one run, with the interval of bootstrap resampling, cut at the ends of the
    scale.

    `mean` and `ci` are the mean over the resamples and half the width of the interval, as sacreBLEU
    prints them. `p` is the p-value of the paired bootstrap test against `against`, the run of the
    baseline with the same seed; None for the baseline.
    """

    name: str
    value: float
    low: float
    high: float
    signature: str
    mean: float | None = None
    ci: float | None = None
    p: float | None = None
    against: str = ""

    @property
    def has_interval(self) -> bool:
        """False if both ends are equal, since then none was computed."""
        return self.low != self.high


@dataclass(frozen=True)
class Point:
    """A validation during training: scores by name (loss in nats per token, chrf, bleu, cider), and
    attention entropy.

    `entropy` is the entropy of cross-attention in nats, averaged over the layers of the decoder.
    """

    update: int
    tokens: int
    seconds: float
    scores: Mapping[str, float]
    entropy: float | None


@dataclass(frozen=True)
class Cost:
    """Cost of a model: counted sizes, and times measured on the machine of the comparison; None if
    unknown.

    - `operations`: multiply-adds per target token, encoder included.
    - `training_tokens`: target tokens.
    - `tokens_per_second`: target tokens if many sentences or images are decoded at once.
    - `latency`: median seconds of a single sentence or image.
    - `memory`: peak MiB of a process that loads the model and decodes.
    """

    weights: int
    operations: float
    updates: int | None = None
    training_tokens: int | None = None
    training_seconds: float | None = None
    tokens_per_second: float | None = None
    latency: float | None = None
    memory: float | None = None
    decoding: str = ""  # engine, precision, threads


@dataclass(frozen=True)
class Alignment:
    """Alignment error rate, precision and recall against gold links; `choice` describes the head
    whose attention was used.
    """

    aer: float
    precision: float
    recall: float
    choice: str


@dataclass(frozen=True)
class RunResult:
    """Result of one run or file of outputs. `status` is empty unless a run has not ended.

    `sentence_scores`: chrF (translation, 0 to 100) or CIDEr-D (captions, 0 upwards) of each output.
    """

    name: str
    system: str
    seed: int | None
    origin: str  # folder or file, as it was given
    status: str
    scores: tuple[RunScore, ...]
    outputs: tuple[str, ...]
    sentence_scores: tuple[float, ...]
    curve: tuple[Point, ...] = ()
    cost: Cost | None = None
    calibration: Calibration | None = None
    alignment: Alignment | None = None

    def score(self, name: str) -> RunScore | None:
        """The score of this name, if the run has it."""
        return next((score for score in self.scores if score.name == name), None)


@dataclass(frozen=True)
class SeedLead:
    """Mean of a score over the seeds of a system minus that of the baseline, with Welch's 95 %
    interval, which is not cut, and the two-sided p-value.
    """

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class SeedScore:
    """Mean of a score over the seeds of a system, with Student's interval, cut at the ends of the
    scale, or with the bootstrap interval if there is only one seed.

    `lead` compares it with the baseline; None for the baseline, and unless both have several seeds.
    """

    name: str
    mean: float
    low: float
    high: float
    seeds: int
    lead: SeedLead | None = None


@dataclass(frozen=True)
class Bucket:
    """A part of the test set, and the score of a system on it, all of its runs together.

    - `first`, `last`: range of the bucket in source words, or in occurrences of a word in the
      training data; `last` is None if the range has no end.
    - `items`: number of sentences, or of words of the references.
    - `low`, `high`: interval from resampling sentences, and also runs if there are several.
    - `lead`: score minus that of the baseline, with the interval of the difference on the same
      resamples; None for the baseline.
    """

    label: str
    first: int
    last: int | None
    items: int
    value: float
    low: float
    high: float
    lead: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Breakdown:
    """A score of each system by some property of sentences or words.

    `key` is "length", "frequency", "seen_sources" or "seen_words". Buckets without items are left
    out.
    """

    key: str
    score: str  # "chrF", "word F1", "word recall"
    unit: str  # "source words", "occurrences in the training data"
    systems: Mapping[str, tuple[Bucket, ...]]


@dataclass(frozen=True)
class System:
    """A system of the comparison: the names of its runs, and its mean scores over their seeds."""

    name: str
    runs: tuple[str, ...]
    scores: tuple[SeedScore, ...]

    def score(self, name: str) -> SeedScore | None:
        """The mean of the score of this name, if all runs have it."""
        return next((score for score in self.scores if score.name == name), None)


@dataclass(frozen=True)
class AttentionMap:
    """Attention of one output: weights in percent, with a row for each target word and a column for
    each source word or grid cell.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    percent: tuple[tuple[int, ...], ...]
    grid: tuple[int, int] | None = None  # rows and columns of an image's cells


@dataclass(frozen=True)
class Example:
    """A sentence or image on which the systems differ most, with the attention of those runs that
    have attention.

    `spread` is the largest minus the smallest sentence score. `image` is a data URI; empty for a
    sentence.
    """

    index: int
    spread: float
    attention: Mapping[str, AttentionMap]
    image: str = ""


@dataclass(frozen=True)
class Comparison:
    """All results of a comparison. `baseline` is the system against which the others are tested."""

    task: str  # "translation" or "captions"
    test: TestSet
    baseline: str
    systems: tuple[System, ...]
    runs: tuple[RunResult, ...]
    breakdowns: tuple[Breakdown, ...]
    examples: tuple[Example, ...]
    budget: str = ""  # such as "3 minutes of training each"
    notes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)  # versions, machine, beam

    def run(self, name: str) -> RunResult:
        """Return the run of this name. Raises KeyError if there is none."""
        return {run.name: run for run in self.runs}[name]

    def to_frame(self, by_system: bool = False) -> Any:
        """Return scores as a data frame of pandas; the names of intervals say of which kind.

        There is a row for each run, with its costs; or, `by_system`, for each system: for each
        score the mean over the seeds, an interval, the largest p-value of its runs against the
        baseline, and, with several seeds of both, the difference of the means with Welch's interval
        and p-value. Raises UsageError without pandas.
        """
        if by_system:
            return data_frame(self._system_rows())
        costs = [{} if run.cost is None else asdict(run.cost) for run in self.runs]
        return data_frame(
            {**row, **cost} for row, cost in zip(self._rows(), costs, strict=True)
        )

    def __repr__(self) -> str:
        return (
            f"Comparison({counted(len(self.systems), 'system')} with "
            f"{counted(len(self.runs), 'run')} on {self.test.name}, baseline {self.baseline})"
        )

    def _repr_html_(self) -> str:
        rows = [_with_intervals(row) for row in self._system_rows()]
        tables = [html_table(repr(self), rows)]
        if len(self.runs) > len(self.systems):
            tables.append(html_table("Runs", [*map(_with_intervals, self._rows())]))
        return f"<div>{''.join(tables)}</div>"

    def _system_rows(self) -> list[dict[str, object]]:
        """Return name, number of seeds and scores of each system."""
        rows = []
        for system in self.systems:
            runs = [self.run(name) for name in system.runs]
            row: dict[str, object] = {"system": system.name, "seeds": len(runs)}
            for score in system.scores:
                kind = "Student" if score.seeds > 1 else "bootstrap"
                row[f"{score.name} mean"] = score.mean
                row[f"{score.name} {kind} low"] = score.low
                row[f"{score.name} {kind} high"] = score.high
                own = (run.score(score.name) for run in runs)
                p = [one.p for one in own if one is not None and one.p is not None]
                row[f"{score.name} largest p"] = max(p, default=None)
                if score.lead is not None:
                    row[f"{score.name} minus baseline"] = score.lead.value
                    row[f"{score.name} Welch low"] = score.lead.low
                    row[f"{score.name} Welch high"] = score.lead.high
                    row[f"{score.name} Welch p"] = score.lead.p
            rows.append(row)
        return rows

    def _rows(self) -> list[dict[str, object]]:
        """Return system, name, seed and scores of each run."""
        rows = []
        for run in self.runs:
            row: dict[str, object] = {
                "system": run.system,
                "run": run.name,
                "seed": run.seed,
            }
            for score in run.scores:
                row[score.name] = score.value
                row[f"{score.name} bootstrap low"] = score.low
                row[f"{score.name} bootstrap high"] = score.high
                row[f"{score.name} p"] = score.p
            rows.append(row)
        return rows

    def as_json(self) -> dict[str, object]:
        """Return the comparison as JSON values."""
        return {"format": FORMAT, **asdict(self)}

    def save(self, path: str | Path) -> None:
        """Write the comparison as a JSON file."""
        write_text(
            path, json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n"
        )


def _with_intervals(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row of a table in which each interval has one cell, not two."""
    merged = dict[str, object]()
    for name, value in row.items():
        score, _, end = name.rpartition(" ")
        if end == "low":
            merged[f"{score} interval"] = f"{value:.2f} – {row[f'{score} high']:.2f}"
        elif end != "high":
            merged[name] = value
    return merged
