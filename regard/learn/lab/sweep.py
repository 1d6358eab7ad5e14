"""Sweep: each arm of an experiment at several learning rates, and at its best rate with several
seeds.

The best rate is chosen by the validation score of the first seed. The arms are compared on test
data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.common.bilingual import Words
from regard.learn.lab.findings import LABELS, Curve, Outcome, Plot, Table

Columns = Mapping[Words, str | Mapping[str, str]]
"""Columns of a table of arms: each heading with the name of a score, or with the cells by arm."""


@dataclass(frozen=True)
class Run:
    """A training run: its arm, learning rate and seed, and its scores.

    If `is_shipped`, its numbers are part of the results that Regard ships; otherwise it was trained
    here.
    """

    arm: str
    rate: float
    seed: int
    valid: float  # best validation score; 0 if the run diverged
    seconds: float  # of training
    scores: Mapping[str, float] = field(default_factory=dict)
    is_shipped: bool = False


@dataclass(frozen=True)
class Dots:
    """A score of an arm at its best rate, with a value for each seed.

    If no rate beyond the best one was tried, `gain` estimates how much the last step to this rate
    raised the score, in proportion to the validation score.
    """

    name: Words
    values: tuple[float, ...]
    rate: float = 0.0
    gain: float | None = None

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return sum(self.values) / len(self.values)

    def __format__(self, digits: str) -> str:
        """Format the mean with the lowest and highest value, such as "41.2 (40.8 … 41.9)".

        `digits` is the number of digits after the decimal point.
        """
        low, mean, high = (
            f"{value:,.{digits or 1}f}"
            for value in (min(self.values), self.mean, max(self.values))
        )
        text = mean if low == high else f"{mean} ({low} … {high})"
        return text.replace("-", "−")


@dataclass(frozen=True)
class Sweep:
    """All runs of an experiment, and the best rate of each arm.

    Shipped results also have `shifted`: the outcomes of the parts of the claim with all learning
    rates halved, and with all doubled.
    """

    names: Mapping[str, Words]
    best: Mapping[str, float]
    runs: tuple[Run, ...]
    recipes: Mapping[str, str]  # digest of each arm's settings
    shifted: Sequence[Sequence[Outcome]] = ()

    def chosen(self, arm: str) -> list[Run]:
        """Return the runs of an arm at its best rate, in the order of their seeds."""
        best = self.best[arm]
        runs = [run for run in self.runs if run.arm == arm and run.rate == best]
        return sorted(runs, key=lambda run: run.seed)

    def rates(self, arm: str) -> dict[float, float]:
        """Return the validation score of an arm's first seed at each learning rate, in order."""
        # Of equal rates the last entry counts, which is that of the lowest seed.
        runs = sorted(
            (run for run in self.runs if run.arm == arm),
            key=lambda run: (run.rate, -run.seed),
        )
        return {run.rate: run.valid for run in runs}

    def dots(
        self, arm: str, score: str = "chrF", name: Words = "", is_quality: bool = True
    ) -> Dots:
        """Return a score of an arm at its best rate; a run that diverged counts as 0.

        `is_quality` says that the score rises with the validation score, so that a gain can be
        estimated.
        """
        values = tuple(run.scores.get(score, 0.0) for run in self.chosen(arm))
        rates = list(self.rates(arm).items())
        best = self.best[arm]
        gain = None
        if is_quality and len(rates) > 1 and best in (rates[0][0], rates[-1][0]):
            is_lowest = best == rates[0][0]
            _, best_valid = rates[0] if is_lowest else rates[-1]
            _, neighbour_valid = rates[1] if is_lowest else rates[-2]
            relative_gain = max(0.0, best_valid - neighbour_valid) / max(
                best_valid, 1e-9
            )
            gain = relative_gain * max(values)
        return Dots(name or self.names[arm], values, best, gain)

    def board(self) -> Table:
        """Return a table of validation scores by arm and rate; * marks the chosen rates."""
        rates = sorted({run.rate for run in self.runs})
        by_arm = {arm: self.rates(arm) for arm in self.names}
        all_scores = [score for scores in by_arm.values() for score in scores.values()]
        highest = max(all_scores, default=0.0) or 1.0

        rows = list[tuple[Words, ...]]()
        shades = list[tuple[int, ...]]()
        for arm, scores in by_arm.items():
            cells = list[str]()
            for rate in rates:
                mark = "*" if rate == self.best[arm] else ""
                cells.append(f"{scores[rate]:.1f}{mark}" if rate in scores else "")
            rows.append((self.names[arm], *cells))
            shares = [max(0.0, scores.get(rate, 0.0)) / highest for rate in rates]
            shades.append(tuple(round(9 * share) for share in shares))

        columns: tuple[Words, ...] = (
            LABELS["model"],
            *(f"{rate:g}" for rate in rates),
        )
        return Table(LABELS["board"], columns, tuple(rows), tuple(shades))

    def table(self, title: Words, columns: Columns, digits: str = "1") -> Table:
        """Return a table with a row for each arm: scores over its seeds, or given cells."""
        rows = list[tuple[Words, ...]]()
        for arm, words in self.names.items():
            cells = list[str]()
            for column in columns.values():
                if isinstance(column, str):
                    cells.append(f"{self.dots(arm, column):{digits}}")
                else:
                    cells.append(column[arm])
            rows.append((words, *cells))
        return Table(title, (LABELS["model"], *columns), tuple(rows))

    def plot(
        self,
        title: Words,
        score: str = "chrF",
        arms: Iterable[str] = (),
        x_label: Words = "",
    ) -> Plot:
        """Return a plot of a score with a category for each arm and a dot for each seed.

        Shipped runs and runs that were trained here have different colours.
        """
        shown = list(arms or self.names)
        is_mixed = any(run.is_shipped for run in self.runs)
        curves = [
            Curve(
                LABELS["shipped" if run.is_shipped else "own"] if is_mixed else title,
                ((float(place), run.scores.get(score, 0.0)),),
                paint=int(run.is_shipped),
            )
            for place, arm in enumerate(shown)
            for run in self.chosen(arm)
        ]
        return Plot(
            title, x_label, tuple(curves), tuple(self.names[arm] for arm in shown)
        )

    def lines(self, places: Mapping[str, float]) -> tuple[Curve, ...]:
        """Return a line for each arm and seed through several scores, such as those by length.

        `places` maps the name of each score to its x coordinate.
        """
        return tuple(
            Curve(
                words,
                tuple((x, run.scores.get(key, 0.0)) for key, x in places.items()),
                number,
            )
            for number, (arm, words) in enumerate(self.names.items())
            for run in self.chosen(arm)
        )

    def to_json(self) -> dict[str, object]:
        """Return the sweep as JSON values, which `of_shipped` reads."""
        runs = []
        for run in self.runs:
            values = dict(vars(run))
            del values["is_shipped"]
            runs.append(values)
        return {"best": dict(self.best), "recipes": dict(self.recipes), "runs": runs}

    @classmethod
    def of_shipped(cls, values: Mapping[str, Any]) -> Sweep:
        """Make a sweep, without names of arms, from shipped results."""
        runs = tuple(Run(**run, is_shipped=True) for run in values["runs"])
        return cls(
            {}, values["best"], runs, values["recipes"], values.get("shifted", ())
        )


def best_rate(runs: Sequence[Run]) -> float:
    """Return the rate with the highest validation score; the lowest rate if several are equal."""
    return max(sorted(runs, key=lambda run: run.rate), key=lambda run: run.valid).rate
