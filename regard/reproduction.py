"""Train a run again, from its recipe and the data with the recorded hashes, and compare the two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.common.checksums import tensor_digest
from regard.common.errors import DataError, UsageError
from regard.common.notebook import html_table
from regard.common.processes import torch_threads
from regard.common.requests import takes
from regard.data.corpus_settings import CorpusSettings
from regard.data.provenance import DATA_FILE, Fingerprints, fingerprint_files
from regard.evaluation.training_report import without_advice
from regard.model_folder import WEIGHTS, load_tensors
from regard.models import select_device
from regard.requests.reproduce_request import ReproduceRequest
from regard.run import machine, train
from regard.training.callbacks import Extensions, listed
from regard.training.journal import of_kind, scores_of
from regard.training.recipe import Recipe
from regard.training.run_record import RunRecord

CONDITIONS = (
    "regard",
    "torch",
    "sentencepiece",
    "python",
    "device",
    "threads",
    "processes",
    "processor",
    "instructions",
)
"""Values of the event "machine" on which the bits of a run depend."""


@dataclass(frozen=True)
class Row:
    """A value of the run, and of the run that was trained again."""

    name: str
    before: str
    now: str

    @property
    def is_equal(self) -> bool:
        return self.before == self.now


@dataclass(frozen=True)
class Reproduction:
    """A run that was trained again into `folder`: under which conditions, and with which results.

    The first of the results is the SHA-256 of the weights.
    """

    folder: Path
    conditions: tuple[Row, ...]
    results: tuple[Row, ...]

    @property
    def is_identical(self) -> bool:
        """True if the weights have the same bytes."""
        return self.results[0].is_equal

    @property
    def has_same_conditions(self) -> bool:
        """True if versions, machine, threads and data are the same, and so the bytes have to be."""
        return all(row.is_equal for row in self.conditions)

    @property
    def verdict(self) -> str:
        """The result in words."""
        if self.is_identical:
            return "reproduced: the weights have the same bytes"
        if self.has_same_conditions:
            return "not reproduced: other weights under the same conditions"
        names = [row.name for row in self.conditions if not row.is_equal]
        return f"other weights, under other conditions ({', '.join(names)})"

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        rows = [
            {
                "": row.name,
                "run": row.before,
                "again": row.now,
                " ": "" if row.is_equal else "differs",
            }
            for row in (*self.conditions, *self.results)
        ]
        return html_table(f"Reproduction in {self.folder}: {self.verdict}", rows)

    def lines(self) -> Iterator[str]:
        """Yield the lines of a table of all values, which marks those that differ, and the
        verdict.
        """
        rows = [Row("", "run", "again"), *self.conditions, *self.results]
        widths = [
            max(len(getattr(row, name)) for row in rows) for name in ("name", "before")
        ]
        for row in rows:
            mark = "" if row.is_equal or row is rows[0] else "  differs"
            cells = f"{row.name:{widths[0]}}  {row.before:{widths[1]}}  {row.now}{mark}"
            yield cells.rstrip()
        yield self.verdict


@takes(ReproduceRequest)
def reproduce(request: ReproduceRequest) -> Reproduction:
    """Train a run again, and compare the weights and the scores of both.

    - `run`: the folder of a run that has ended, with its data where they were.
    - `out`: the run folder to write; the name of the run with "-reproduced" if left out.
    - `device`, `threads`: those of the run if left out.
    - `objective`, `callbacks`: those of the run, as in `regard.train`.
    - `report`: called with the name and the values of each event of the training.

    On the same machine, with the same versions and threads, the weights have the same bytes. Raises
    UsageError for a folder without a finished run, and DataError for data that are not there or
    have changed.
    """
    run = Path(request.run)
    record = RunRecord.read(run)
    if record.recipe is None:
        raise UsageError(
            f"{run}: has no train.toml, so it was not trained here; give the folder of a run"
        )
    _check_ended(run, record)
    _check_data(run, record.recipe.data, record.files)
    before: Mapping[str, Any] = record.last("machine")
    threads = request.threads or before.get("threads")
    device = request.device or before.get("device", "auto")
    extensions = Extensions(request.objective, tuple(request.callbacks))
    extensions.check(record.recipe.training, False, "regard.reproduce")
    out = Path(request.out or f"{run}-reproduced")
    with torch_threads(threads):
        now = {**machine(select_device(device)), "processes": 1}
        again = train(
            record.recipe,
            out=out,
            device=device,
            threads=threads,
            report=without_advice(request.report),
            objective=extensions.objective,
            callbacks=extensions.callbacks,
        )
    conditions = [
        Row(name, str(before.get(name, "unknown")), str(now[name]))
        for name in CONDITIONS
    ]
    resumed = len(of_kind(record.events, "resume"))
    conditions.append(Row("times resumed", str(resumed), "0"))
    for name, value in extensions.names.items():
        recorded = getattr(record.recipe.training, name)
        if value:
            conditions.append(Row(name, listed(recorded), listed(value)))
    plugins = [_plugins(recipe) for recipe in (record.recipe, again.recipe)]
    if any(plugins):
        conditions.append(Row("plug-ins", *map(listed, plugins)))
    count = f"{len(record.files)} with the recorded SHA-256"
    conditions.append(Row("data files", count, count))
    results = _results(run, out, record, RunRecord.read(out, again.recipe))
    return Reproduction(out, tuple(conditions), tuple(results))


def _check_ended(run: Path, record: RunRecord) -> None:
    """Raise UsageError if the training has not come to its end."""
    names = ("resume", "train", "end")
    states = [event for event in record.events if event["event"] in names]
    last = states[-1] if states else {"event": "nothing"}
    reason = str(last.get("reason", "killed"))
    if last["event"] != "end" or re.match("stopped by (Ctrl|SIG)", reason):
        raise UsageError(
            f"{run}: the run has not ended, so there is nothing to compare with; continue it: "
            f"`regard train --out {run} --resume`"
        )


def _check_data(run: Path, data: CorpusSettings, recorded: Fingerprints) -> None:
    """Raise DataError, with all causes, unless all files have the recorded hashes."""
    if not recorded:
        raise DataError(
            f"{run / DATA_FILE}: missing or damaged, so it is not known with which data the run "
            "was trained; put a copy back"
        )
    present = fingerprint_files(data)
    causes = []
    for role, entry in recorded.items():
        file = present.get(role)
        if file is None:
            causes.append(
                f"{role}: {entry['path']} is not there; put the file with the SHA-256 "
                f"{entry['sha256'][:12]}… in its place, or change to the folder where training "
                "began"
            )
        elif file["sha256"] != entry["sha256"]:
            causes.append(
                f"{role}: {file['path']} has changed: its SHA-256 was {entry['sha256'][:12]}… and "
                f"is {file['sha256'][:12]}…; put back what it was"
            )
    DataError.raise_all(causes)


def _plugins(recipe: Recipe) -> tuple[str, ...]:
    """Return the plug-ins of the model and of the tokenizer."""
    return tuple(dict.fromkeys([*recipe.model.plugins, *recipe.tokenizer.plugins]))


def _results(run: Path, out: Path, before: RunRecord, now: RunRecord) -> Iterator[Row]:
    """Yield the digests of both weights, and all scores of both runs."""
    digests = (tensor_digest(load_tensors(path / WEIGHTS), {}) for path in (run, out))
    yield Row("weights (SHA-256)", *digests)
    scores = [_scores(record) for record in (before, now)]
    for name in {**scores[0], **scores[1]}:
        values = (score.get(name, "none") for score in scores)
        yield Row(name, *map(str, values))


def _scores(record: RunRecord) -> dict[str, float]:
    """Return the scores of the best validation and of the test, by name."""
    scores = {
        f"validation {name}": value for name, value in scores_of(record.best).items()
    }
    for score in record.test.get("scores", []):
        scores[f"test {score['name']}"] = score["value"]
    return {name: round(value, 4) for name, value in scores.items()}
