"""Result of a comparison as data, which `regard.compare` returns, the JSON file holds and the
report draws.

A *run* is one trained model, or one file with the outputs of another system. A *system* is one side
of the comparison: one recipe, with runs that differ only in the seed. Intervals are at 95 %.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from regard.common.atomic import write_text
from regard.common.bilingual import Text
from regard.common.counting import counted
from regard.common.errors import DataError, UsageError
from regard.common.notebook import data_frame, html_table
from regard.common.reading import file_bytes, parse_json
from regard.comparison.report_numbers import (
    between,
    interval,
    number,
    probability,
    signed,
)
from regard.evaluation.calibration import Calibration

FORMAT = 3
"""The version of the JSON file."""
JSON = "comparison.json"
LEVEL = 0.05
"""A difference with a smaller p-value, whose interval excludes 0, is called significant."""
MIN_ITEMS = 30
"""Number of sentences, or of words, below which a range is marked and never named first."""
SMALL = "*"
"""Mark of such a range."""
TESTS = {
    "Welch": Text("Welch's p", "Welch p"),
    "paired bootstrap": Text("paired bootstrap p", "짝지은 부트스트랩 p"),
}
"""Names of the tests of a difference, with "p"."""
Rows = Literal["run", "system", "score", "range"]
"""Contents of a row of a table: a run, a system, a score of a run, or a system in a range."""
BEYOND = "†"
"""Mark of a range of lengths beyond the longest source in training, which is extrapolation."""


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
class Lead:
    """Score of a system minus that of the baseline, with its 95 % interval, which is not cut, and
    the p-value: two-sided of Welch's test; of the paired bootstrap sacreBLEU's, which is about half
    a two-sided one.

    `test`: Welch's t test of the means of several runs each, which speaks of methods; or the paired
    bootstrap test of one run each, which speaks of these two models.
    """

    value: float
    low: float
    high: float
    p: float
    test: Literal["Welch", "paired bootstrap"]

    @property
    def is_significant(self) -> bool:
        """True if p < 0.05 and the interval excludes 0."""
        return self.p < LEVEL and not self.low <= 0 <= self.high

    def evidence(self) -> Text:
        """Return interval and p-value."""
        return Text("{ends}, {name} {p}", "{ends}, {name} {p}").fill(
            ends=interval(self.low, self.high),
            name=TESTS[self.test],
            p=probability(self.p),
        )


@dataclass(frozen=True)
class RunScore:
    """A corpus score of one run, with the interval of bootstrap resampling, cut at the ends of the
    scale.

    `mean` and `ci` are the mean over the resamples and half the width of the interval, as sacreBLEU
    prints them. `lead` is the difference from `against`, the run of the baseline with the same
    seed, by the paired bootstrap test; None for the baseline.
    """

    name: str
    value: float
    low: float
    high: float
    signature: str
    mean: float | None = None
    ci: float | None = None
    lead: Lead | None = None
    against: str = ""

    @property
    def p(self) -> float | None:
        """The p-value of the paired bootstrap test."""
        return None if self.lead is None else self.lead.p

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
    - `speeds`, `latencies`: those of each round, of which `tokens_per_second` and `latency` are the
      medians.
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
    speeds: tuple[float, ...] = ()
    latencies: tuple[float, ...] = ()


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
    `tested_update`: the update whose weights were tested. `warned`: the number of outputs with a
    warning by its kind, such as "repetition". Both are None if unknown.
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
    tested_update: int | None = None
    warned: Mapping[str, int] | None = None

    @property
    def mean_length(self) -> float:
        """Mean number of words of an output."""
        words = sum(len(output.split()) for output in self.outputs)
        return words / max(1, len(self.outputs))

    def score(self, name: str) -> RunScore | None:
        """The score of this name, if the run has it."""
        return next((score for score in self.scores if score.name == name), None)


@dataclass(frozen=True)
class SeedScore:
    """Mean of a score over the seeds of a system, with Student's interval, cut at the ends of the
    scale, or with the bootstrap interval if there is only one seed.

    `lead` compares it with the baseline: by Welch's test if both have several seeds, by the paired
    bootstrap test if both have one; None for the baseline, and otherwise.
    """

    name: str
    mean: float
    low: float
    high: float
    seeds: int
    lead: Lead | None = None


@dataclass(frozen=True)
class Bucket:
    """A part of the test set, and the mean score of the runs of a system on it.

    - `first`, `last`: range of the bucket in source words, or in occurrences of a word in the
      training data; `last` is None if the range has no end.
    - `items`: number of sentences, or of words of the references.
    - `low`, `high`: interval for other sentences, and for other runs if there are several.
    - `lead`: score minus that of the baseline, with the interval of the difference; None for the
      baseline, and if one of the two has one run and the other several.
    - `is_beyond`: true for sources that are longer than any in training.
    """

    label: str
    first: int
    last: int | None
    items: int
    value: float
    low: float
    high: float
    lead: tuple[float, float, float] | None = None
    is_beyond: bool = False

    @property
    def is_small(self) -> bool:
        """True if it has so few items that nothing is concluded from it."""
        return self.items < MIN_ITEMS

    @property
    def marks(self) -> str:
        """The marks of a range that is small, or longer than any source in training."""
        return f"{SMALL if self.is_small else ''}{BEYOND if self.is_beyond else ''}"


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
    """All results of a comparison. `baseline` is the system against which the others are tested;
    `summary` says in sentences what follows.
    """

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
    summary: tuple[Text, ...] = ()

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Read the comparison that `regard.compare` wrote into a folder.

        Raises DataError if its comparison.json is missing or damaged.
        """
        path = Path(folder) / JSON
        remedy = "compare again with this folder as `out=`"
        try:
            values = parse_json(file_bytes(path))
            version = values.pop("format")
            if version != FORMAT:
                raise DataError(
                    f"{path}: has format {version}, and this version of Regard reads {FORMAT}; "
                    f"{remedy}"
                )
            return TypeAdapter(cls).validate_python(values)
        except FileNotFoundError:
            problem = "there is no comparison"
        except ValidationError as error:
            first = error.errors()[0]
            location = ".".join(map(str, first["loc"]))
            problem = f"damaged ({location}: {first['msg']})"
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problem = f"damaged ({error})"
        raise DataError(f"{path}: {problem}; {remedy}")

    def run(self, name: str) -> RunResult:
        """Return the run of this name. Raises KeyError if there is none."""
        return {run.name: run for run in self.runs}[name]

    def to_frame(self, by: Rows = "run") -> Any:
        """Return `rows` as a data frame of pandas. Raises UsageError without pandas."""
        return data_frame(self.rows(by))

    def rows(self, by: Rows = "run") -> list[dict[str, object]]:
        """Return the rows of a table; the names of intervals say of which kind.

        - "run": each run, with its scores, its difference from the run `against`, and its costs.
        - "system": each system, with the mean of each score over the seeds, an interval, the
          difference from the baseline with its interval and p-value, and the number of runs that
          differ in this direction from the baseline's of the same seed with p < 0.05.
        - "score": each score of each run.
        - "range": each system in each range of the breakdowns.
        """
        if by not in get_args(Rows):
            raise UsageError(
                f"`by={by}`: wanted {', '.join(get_args(Rows))}; give one of them"
            )
        rows: list[dict[str, object]] = getattr(self, f"_{by}_rows")()
        return rows

    def __repr__(self) -> str:
        return (
            f"Comparison({counted(len(self.systems), 'system')} with "
            f"{counted(len(self.runs), 'run')} on {self.test.name}, baseline {self.baseline})"
        )

    def _repr_html_(self) -> str:
        tables = {repr(self): [self._system_cells(system) for system in self.systems]}
        if len(self.runs) > len(self.systems):
            tables["Runs"] = [_run_cells(run) for run in self.runs]
        for part in self.breakdowns:
            if part.key == "length":
                title = f"{part.score} by {part.unit} ({SMALL}: fewer than {MIN_ITEMS}"
                title += f"; {BEYOND}: longer than any in training)"
                tables[title] = _range_cells(part)
        html = [html_table(title, rows) for title, rows in tables.items()]
        summary = [sentence.en for sentence in self.summary]
        for title, sentences in (("Summary", summary), ("Notes", self.notes)):
            if sentences:
                html.append(f"<h4>{title}</h4>")
            html += [f"<p>{escape(sentence)}</p>" for sentence in sentences]
        return f"<div>{''.join(html)}</div>"

    def difference(self, system: System, score: str) -> float | None:
        """Return the mean of a system minus that of the baseline; None for the baseline itself, and
        if either of them lacks the score.
        """
        baselines = (one for one in self.systems if one.name == self.baseline)
        baseline = next((one.score(score) for one in baselines), None)
        mean = system.score(score)
        if system.name == self.baseline or mean is None or baseline is None:
            return None
        return mean.mean - baseline.mean

    def significant_runs(self, system: System, score: str) -> int | None:
        """Count the runs of a system that differ significantly from the baseline's of the same
        seed in the direction of the means; None if there is no difference.
        """
        difference = self.difference(system, score)
        if difference is None:
            return None
        scores = [self.run(name).score(score) for name in system.runs]
        leads = [one.lead for one in scores if one is not None and one.lead is not None]
        same_way = (lead for lead in leads if lead.value * difference > 0)
        return sum(lead.is_significant for lead in same_way)

    def _system_rows(self) -> list[dict[str, object]]:
        """Return name, number of seeds and scores of each system."""
        rows = []
        for system in self.systems:
            row: dict[str, object] = {
                "system": system.name,
                "seeds": len(system.runs),
            }
            for score in system.scores:
                kind = "Student" if score.seeds > 1 else "bootstrap"
                row[f"{score.name} mean"] = score.mean
                row |= _ends(f"{score.name} {kind}", score)
                if score.lead is not None:
                    test = f"{score.name} {score.lead.test}"
                    row[f"{score.name} minus baseline"] = score.lead.value
                    row |= _ends(test, score.lead)
                    row[f"{test} p"] = score.lead.p
                count = self.significant_runs(system, score.name)
                row[f"{score.name} runs significant this way"] = count
            rows.append(row)
        return rows

    def _run_rows(self) -> list[dict[str, object]]:
        """Return system, name, seed, scores and costs of each run."""
        rows = []
        for run in self.runs:
            row = _facts(run)
            row |= {f"warning: {kind}": n for kind, n in (run.warned or {}).items()}
            for score in run.scores:
                row[score.name] = score.value
                row |= {
                    f"{score.name} {key}": one for key, one in _values(score).items()
                }
            rows.append(row | ({} if run.cost is None else asdict(run.cost)))
        return rows

    def _score_rows(self) -> list[dict[str, object]]:
        """Return each score of each run, with its difference from the run of the baseline."""
        return [
            {
                "run": run.name,
                "system": run.system,
                "seed": run.seed,
                "score": score.name,
                "value": score.value,
                **_values(score),
                "signature": score.signature,
            }
            for run in self.runs
            for score in run.scores
        ]

    def _range_rows(self) -> list[dict[str, object]]:
        """Return each system in each range of the breakdowns."""
        rows = []
        for part in self.breakdowns:
            for system, buckets in part.systems.items():
                for bucket in buckets:
                    values = asdict(bucket)
                    lead = values.pop("lead") or (None, None, None)
                    names = ("minus baseline", "its low", "its high")
                    row = {"breakdown": part.key, "score": part.score, "system": system}
                    rows.append(
                        {**row, **values, **dict(zip(names, lead, strict=True))}
                    )
        return rows

    def _system_cells(self, system: System) -> dict[str, object]:
        """Return the cells of a system in a notebook, with each difference beside its score."""
        cells: dict[str, object] = {"system": system.name, "runs": len(system.runs)}
        for score in system.scores:
            cells[score.name] = _cell(
                number(score.mean), between(score.low, score.high)
            )
            difference = self.difference(system, score.name)
            evidence = Text("", "") if score.lead is None else score.lead.evidence()
            cells[f"{score.name} − baseline"] = (
                None if difference is None else _cell(signed(difference), evidence)
            )
        return cells

    def as_json(self) -> dict[str, object]:
        """Return the comparison as JSON values."""
        return {"format": FORMAT, **asdict(self)}

    def save(self, path: str | Path) -> None:
        """Write the comparison as a JSON file."""
        write_text(
            path, json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n"
        )


def _ends(name: str, interval: RunScore | SeedScore | Lead) -> dict[str, object]:
    return {f"{name} low": interval.low, f"{name} high": interval.high}


def _values(score: RunScore) -> dict[str, object]:
    """Return the interval of a score, and its difference from the run of the baseline."""
    values = _ends("bootstrap", score)
    if score.lead is not None:
        values |= {"against": score.against, "difference": score.lead.value}
        values |= {**_ends("difference", score.lead), "p": score.p}
    return values


def _cell(value: str, evidence: Text) -> str:
    """Return a value with its interval, or the interval and p-value of a difference."""
    return f"{value} ({evidence.en})" if evidence.en else value


def _facts(run: RunResult) -> dict[str, object]:
    """Return all of a run but its scores and costs."""
    return {
        "system": run.system,
        "run": run.name,
        "seed": run.seed,
        "weights of update": run.tested_update,
        "words of an output": run.mean_length,
    }


def _run_cells(run: RunResult) -> dict[str, object]:
    """Return the cells of a run in a notebook."""
    cells = _facts(run)
    for score in run.scores:
        cells[score.name] = _cell(number(score.value), between(score.low, score.high))
        if score.p is not None:
            cells[f"{score.name} p"] = probability(score.p)
    return cells


def _range_cells(breakdown: Breakdown) -> list[dict[str, object]]:
    """Return the cells of each range and system in a notebook."""
    return [
        {
            breakdown.unit: bucket.label,
            "number": f"{bucket.items}{bucket.marks}",
            "system": system,
            breakdown.score: _cell(
                number(bucket.value), between(bucket.low, bucket.high)
            ),
            "− baseline": bucket.lead
            and _cell(signed(bucket.lead[0]), between(*bucket.lead[1:])),
        }
        for system, buckets in breakdown.systems.items()
        for bucket in buckets
    ]
