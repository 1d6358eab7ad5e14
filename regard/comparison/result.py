"""The result of a comparison as data: what `regard.compare` returns, the JSON holds and the report
draws.

A *run* is one trained model, or one file of outputs of any other system. A *system* is one side of
the comparison: one recipe with the runs that differ from each other in the seed alone. Intervals
hold 95 %.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from regard.common.atomic import write_text
from regard.evaluation.calibration import Calibration

FORMAT = 1
"""The version of the JSON file."""


@dataclass(frozen=True)
class TestSet:
    """The test set that all systems decode: `sources` are sentences, or file names of images.

    `references` holds the references of each sentence or image, one or more. `digest`: SHA-256 of
    all of it.
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
    prints them; `p` is the p-value of the paired bootstrap test against the run of the baseline
    with the same seed; None for the baseline.
    """

    name: str
    value: float
    low: float
    high: float
    signature: str
    mean: float | None = None
    ci: float | None = None
    p: float | None = None
    against: str = ""  # the run that `p` compares with

    @property
    def has_interval(self) -> bool:
        """False if both ends are one number, since then none was computed."""
        return self.low != self.high


@dataclass(frozen=True)
class Point:
    """A validation during training: scores by name (loss in nats per token, chrf, bleu, cider), and
    mean entropy.

    `entropy` is that of the decoder's attention to the source, in nats, averaged over its layers.
    """

    update: int
    tokens: int
    seconds: float
    scores: Mapping[str, float]
    entropy: float | None


@dataclass(frozen=True)
class Cost:
    """Cost of a model: sizes that are counted, and times that are measured on the machine that
    compared.

    `operations` are multiply-adds per target token, encoder included; training tokens are target
    tokens; `tokens_per_second` are target tokens when many are decoded at once, `latency` the
    median seconds of one sentence or image alone, `memory` the peak MiB of a process that loads the
    model and decodes. None: not known.
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
    """Alignment error rate against gold links, precision and recall, and the attention that was
    used.
    """

    aer: float
    precision: float
    recall: float
    choice: str


@dataclass(frozen=True)
class RunResult:
    """One run or file of outputs. `status` says so if a run has not ended; else it is empty.

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
class SeedScore:
    """Mean of a score over the seeds of a system, with Student's interval; with one seed, that of
    its bootstrap.
    """

    name: str
    mean: float
    low: float
    high: float
    seeds: int


@dataclass(frozen=True)
class Bucket:
    """A part of the test set, and a score on it: all runs of the system together.

    `first` and `last` are the ends of what the buckets divide: source words, or occurrences of a
    word in the training data; `last` None: no end. `items` are sentences, or words of the
    references. The interval is that of resampling sentences, and runs if there are several. `lead`:
    the score minus that of the baseline, with the interval of the differences on the same
    resamples; None of the baseline.
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
    """A system that is compared: the names of its runs, and its scores over their seeds."""

    name: str
    runs: tuple[str, ...]
    scores: tuple[SeedScore, ...]

    def score(self, name: str) -> SeedScore | None:
        """The mean of the score of this name, if all runs have it."""
        return next((score for score in self.scores if score.name == name), None)


@dataclass(frozen=True)
class AttentionMap:
    """Attention of one output: weights in percent by target word, then source word or grid cell,
    row after row.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    percent: tuple[tuple[int, ...], ...]
    grid: tuple[int, int] | None = None  # rows and columns of an image's cells


@dataclass(frozen=True)
class Example:
    """A sentence or image on which the systems differ most, with the attention of each run that has
    any.

    `spread` is the largest minus the smallest sentence score. `image`: for captioners the image as
    a data URI.
    """

    index: int
    spread: float
    attention: Mapping[str, AttentionMap]
    image: str = ""


@dataclass(frozen=True)
class Comparison:
    """All that a comparison found. `baseline` is the system that p-values compare with."""

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
        """The run of this name. Raises KeyError."""
        return {run.name: run for run in self.runs}[name]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values for JSON."""
        return {"format": FORMAT, **asdict(self)}

    def save(self, path: str | Path) -> None:
        """Write all of it as JSON."""
        write_text(
            path, json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n"
        )
