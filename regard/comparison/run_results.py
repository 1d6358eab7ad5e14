"""Put measurements and scores together: results of runs, of systems, and the notes on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from regard.comparison.budget import Plan
from regard.comparison.entries import Entry, status_of
from regard.comparison.measuring import Measured, cost_of, learning_curve
from regard.comparison.result import RunResult, RunScore, System
from regard.comparison.scoring import over_seeds
from regard.comparison.test_data import TrainingWords
from regard.evaluation.speed import Timing
from regard.evaluation.text_metrics import MAX_TER_WORDS
from regard.model_folder import WEIGHTS
from regard.training.best_weights import update_of


def make_run_result(
    entry: Entry,
    outputs: Sequence[str],
    scores: tuple[RunScore, ...],
    singles: tuple[float, ...],
    measured: Measured | None,
    timing: Timing | None,
) -> RunResult:
    """Collect the results of a run, or of a file of outputs, which has no measurements."""
    result = RunResult(
        entry.name,
        entry.system,
        entry.seed,
        str(entry.path),
        "",
        scores,
        tuple(outputs),
        singles,
    )
    if measured is None:
        return result
    return replace(
        result,
        status=status_of(entry.path),
        curve=learning_curve(entry.path),
        cost=cost_of(measured, entry.path, timing),
        calibration=measured.calibration,
        alignment=measured.alignment,
        tested_update=update_of(entry.path / WEIGHTS),
        warned=measured.warned,
    )


def test_groups(
    entries: Sequence[Entry], systems: Mapping[str, Sequence[Entry]], baseline: str
) -> list[list[str]]:
    """Group the names of runs with the same seed, which are tested together, the run of the
    baseline first.

    A run whose seed no run of the baseline has is tested against the first run of the baseline.
    """
    baseline_runs = systems[baseline]
    by_seed = {entry.seed: entry.name for entry in reversed(baseline_runs)}
    first = baseline_runs[0].name
    groups = {entry.name: [entry.name] for entry in baseline_runs}
    for entry in entries:
        if entry.system != baseline:
            groups[by_seed.get(entry.seed, first)].append(entry.name)
    return list(groups.values())


def make_system(
    name: str, runs: Sequence[RunResult], baseline: Sequence[RunResult]
) -> System:
    """Return a system with the means of the scores that all of its runs have, compared with the
    runs of the baseline.
    """
    means = []
    for first in runs[0].scores:
        scores = [score for run in runs if (score := run.score(first.name))]
        others = [score.value for run in baseline if (score := run.score(first.name))]
        if len(scores) == len(runs):
            means.append(over_seeds(scores, others))
    return System(name, tuple(run.name for run in runs), tuple(means))


def make_notes(
    entries: Sequence[Entry],
    plan: Plan | None,
    training: TrainingWords,
    results: Mapping[str, RunResult],
    ter: bool,
) -> tuple[str, ...]:
    """Return the notes of the report, which readers need in order to judge its numbers."""
    notes = [
        f"{name}: {result.status}." for name, result in results.items() if result.status
    ]
    if plan is not None:
        for name, model in plan.models.items():
            notes.append(f"{name}: {model.updates or 0:,} updates for each seed.")
        notes.append(
            "Warm-up and validations are fitted to the budget, and no run was stopped early."
        )
    names = {score.name for result in results.values() for score in result.scores}
    if ter and "BLEU" in names and "TER" not in names:
        notes.append(
            f"TER is left out: a line has more than {MAX_TER_WORDS} words, for which it takes very "
            "long."
        )
    if training.target is None:
        notes.append(
            "Training data were not given, so words are not broken down by their frequency there."
        )
    times = any(
        result.cost is not None and result.cost.latency is not None
        for result in results.values()
    )
    if times and len(entries) > len({entry.system for entry in entries}):
        notes.append("Speed and memory are those of the first run of each system.")
    return tuple(notes)
