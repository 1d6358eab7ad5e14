"""Verdicts: what dots decide, in which words, and what follows from the sweep that they come
from.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest
from helpers.text_table import rows

import regard.learn.lab
from regard.common.bilingual import Text
from regard.learn.lab import EXPERIMENTS
from regard.learn.lab.bench import Bench, Plan
from regard.learn.lab.experiment_runs import with_sweep
from regard.learn.lab.experiments import failures
from regard.learn.lab.findings import Findings, Graph, Part, Verdict
from regard.learn.lab.sweep import Dots, Run, Sweep, best_rate
from regard.learn.lab.verdicts import above, beyond

CLAIM = Text("A is better.", "A가 낫다.")
RESULTS = Path(regard.learn.lab.__file__).parent / "results"


def judged(
    high: tuple[float, ...], low: tuple[float, ...], gain: float | None = None
) -> Part:
    return above(Dots("A", high), Dots("B", low, 8e-3, gain), CLAIM)


HIGH = (80.0, 82.0, 84.0)
LOW = (60.0, 61.0, 62.0)


@pytest.mark.parametrize(
    ("part", "outcome"),
    [
        (judged(HIGH, (70.0, 75.0, 79.0)), "holds"),
        (judged(LOW, HIGH), "contradicted"),
        (judged(LOW, LOW), "undecided"),
        # small differences are none
        (judged((80.3, 80.4, 80.5), (80.0, 80.1, 80.2)), "contradicted"),
        (judged((80.9, 81.0, 81.2), (80.0, 80.1, 80.2)), "undecided"),
        # an open sweep decides only if the gap is wide, or if the better one is open
        (judged(HIGH, LOW, gain=1.0), "holds"),
        (judged(HIGH, LOW, gain=6.0), "undecided"),
        (above(Dots("A", HIGH, 1.0, 50.0), Dots("B", LOW), CLAIM), "holds"),
        # a bound is met by all, none or some
        (beyond(Dots("m", (0.6, 0.7)), 0.5, CLAIM), "holds"),
        (beyond(Dots("m", (0.4, 0.6)), 0.5, CLAIM), "undecided"),
        (beyond(Dots("m", (0.1, 0.2)), 0.5, CLAIM), "contradicted"),
        (beyond(Dots("m", (0.1, 0.45)), 0.5, CLAIM, is_above=False), "holds"),
    ],
)
def test_dots_decide(part: Part, outcome: str) -> None:
    assert part.outcome == outcome
    assert part.reason.ko
    assert part.change.ko


def test_a_verdict_says_why_and_what_would_change_it() -> None:
    parts = [
        judged(HIGH, (70.0, 75.0, 79.0)),
        # 15.7 · 3.125 / 1.5² seeds
        judged(HIGH, (79.0, 80.5, 82.0)),
        judged(LOW, LOW),
        judged((90.0,), (10.0,)),
        judged(HIGH, LOW, gain=6.0),
        beyond(Dots("m", (0.1, 0.45)), 0.5, CLAIM, is_above=False),
        # a single measure is not called a seed
        beyond(Dots("time", (6.1,)), 1, CLAIM, digits=1, change="timed"),
        beyond(Dots("share", (0.1,)), 0.7, CLAIM, is_above=False, change="computed"),
    ]
    said = rows("""
        A: 82.0 (80.0 … 84.0); B: 74.7 (70.0 … 79.0). Each seed of “A” is above each of “B”. \
            | a seed or a learning rate that lifts “B” by more than 1.0
        The seeds of the two overlap.               | would take 22 of each
        | would take more than a hundred of each
        one seed                                    |
        | a learning rate beyond 0.008
        m: 0.28 (0.10 … 0.45). Below 0.5 in 2 of 2. | another bound: the nearest seed is at 0.45
        time: 6.1; it holds above 1.                | another machine
        share: 0.10; it holds below 0.7.            | no seed or learning rate
    """)
    for part, (reason, change) in zip(parts, said, strict=True):
        assert reason in part.reason.en
        assert change in part.change.en


def test_a_verdict_is_that_of_its_weakest_part() -> None:
    text = Text("a", "가")
    parts = {
        name: Part(name, text, text, text)
        for name in ("holds", "undecided", "contradicted")
    }
    weakest_first = ["contradicted", "undecided", "holds"]
    for names in itertools.product(parts, repeat=3):
        verdict = Verdict(tuple(parts[name] for name in names))
        assert verdict.outcome == min(names, key=weakest_first.index)


def sweep_of(valid: dict[float, float]) -> Sweep:
    runs = []
    for rate, value in valid.items():
        runs.append(Run("a", rate, 1, value, 1.0, {"chrF": value}))

    return Sweep({"a": "A"}, {"a": best_rate(runs)}, tuple(runs), {"a": "digest"})


def test_a_sweep_is_open_if_its_best_rate_is_the_last() -> None:
    closed = sweep_of({1e-3: 10.0, 2e-3: 30.0, 4e-3: 20.0})
    rising = sweep_of({1e-3: 10.0, 2e-3: 30.0, 4e-3: 40.0})
    falling = sweep_of({1e-3: 40.0, 2e-3: 30.0, 4e-3: 20.0})

    assert closed.best == {"a": 2e-3}
    assert closed.dots("a").gain is None
    assert rising.dots("a").gain == pytest.approx(10.0)
    assert falling.dots("a").gain == pytest.approx(10.0)
    assert falling.dots("a", is_quality=False).gain is None
    assert closed.board().rows == (("A", "10.0", "30.0*", "20.0"),)
    assert closed.board().shades == ((3, 9, 6),)


def test_sweeps_survive_json() -> None:
    sweep = sweep_of({1e-3: 10.0, 2e-3: 30.0})
    again = Sweep.of_shipped(json.loads(json.dumps(sweep.to_json())))

    assert (again.best, again.recipes) == (sweep.best, sweep.recipes)

    for run, shipped in zip(sweep.runs, again.runs, strict=True):
        assert shipped.is_shipped
        assert (shipped.rate, shipped.valid) == (run.rate, run.valid)
        assert shipped.scores == run.scores


class _Recipes(Exception):
    """Raised with the digests of an experiment's arms instead of training them."""


def test_a_plan_may_score_by_the_loss(tmp_path: Path) -> None:
    journal = [{"event": "train", "update": 1, "time": 10.0, "loss": 1.0}]
    for update, loss, chrf in (
        (2, math.log(4), 12.0),
        (3, None, 80.0),
        (4, math.log(2), 8.0),
    ):
        valid = {"event": "valid", "update": update, "time": 10.0 * update}
        journal.append({**valid, "loss": loss, "chrf": chrf})

    lines = "".join(json.dumps(event) + "\n" for event in journal)
    (tmp_path / "journal.jsonl").write_text(lines, encoding="utf-8")
    bench = Bench(tmp_path, True, 1, 1, print)

    assert bench._outcome(tmp_path) == (12.0, 30.0)

    bench._plan = Plan(4, (1e-3,), by_loss=True)
    assert bench._outcome(tmp_path) == pytest.approx((50.0, 30.0))


def test_what_comes_out_otherwise_with_other_rates_is_undecided(tmp_path: Path) -> None:
    parts = (judged(HIGH, LOW), judged(HIGH, LOW), judged((80.0,), (70.0,)))
    shipped = Sweep.of_shipped(
        {
            "best": {"a": 4e-3},
            "runs": [],
            "recipes": {"a": "12"},
            "shifted": [["holds", "holds", "holds"], ["holds", "undecided", "holds"]],
        }
    )
    run = Run("a", 4e-3, 1, 80.0, 1.0)
    bench = Bench(tmp_path, True, 1, 1, print, shipped)
    bench.swept = Sweep({"a": "A"}, {"a": 4e-3}, (run,), {"a": "12"})
    findings = Findings(Verdict(parts), (), Graph((), CLAIM))

    bench.digests = {"a": "12"}
    changed = with_sweep(findings, bench, EXPERIMENTS["norm"]).verdict.parts
    assert [part.outcome for part in changed] == ["holds", "undecided", "undecided"]

    reason = changed[1].reason.en
    assert "with all learning rates halved this came out as “holds”" in reason
    assert "with all doubled as “undecided”" in reason
    assert changed[2] == parts[2], "undecided remains so for its own reason"

    bench.digests = {"a": "34"}
    changed = with_sweep(findings, bench, EXPERIMENTS["norm"]).verdict.parts
    assert changed == parts, "of other models nothing is known"


@pytest.mark.system
def test_shipped_results_are_of_the_models_that_experiments_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that was changed since has to be trained again: `benchmarks/lab_rates.py`,
    `docs/make_experiments.py`.
    """

    def stop(self: Bench, *_: object) -> object:
        raise _Recipes(self.digests)

    monkeypatch.setattr(Bench, "_search", stop)
    monkeypatch.setattr(Bench, "data", lambda *_: tmp_path)
    (tmp_path / "images").mkdir()
    for name in ("train.ko", "test.ko", "test.en"):
        (tmp_path / name).write_text("one line\n")
    shipped = [path.stem for path in RESULTS.glob("*.json")]

    assert shipped

    for name in shipped:
        values = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
        with pytest.raises(_Recipes) as raised:
            EXPERIMENTS[name].run(Bench(tmp_path, True, 1, 1, lambda _: None))
        assert raised.value.args[0] == values["recipes"], name

        arms = {run["arm"] for run in values["runs"]}
        assert arms == set(values["recipes"]) == set(values["best"])


@pytest.mark.parametrize(
    ("a", "b", "outcome", "count"),
    [(4, 5, "undecided", 1), (4, 0, "holds", 3), (2, 4, "contradicted", 1)],
)
def test_failures_say_how_many_trainings_decide(
    a: int, b: int, outcome: str, count: int
) -> None:
    claim = failures.TEXTS["parts.place"]

    def part_of(first: int) -> Part:
        counts = {"pre-warm": first, "post-warm": b}
        return failures._part(claim, counts, "pre-warm", "post-warm")

    part = part_of(a)
    assert part.outcome == outcome
    assert part.change.en.startswith(f"{count} of these trainings")

    moved = {part_of(a - count).outcome, part_of(a + count).outcome}
    assert moved - {outcome}, "so many are enough"
