"""Sweeps: each arm of an experiment at several learning rates, and at its best one with several
seeds.

The best rate is chosen by a validation score, of the first seed alone; what is compared is measured
on other data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.common.bilingual import Words
from regard.learn.lab.findings import LABELS, Curve, Outcome, Plot, Table

Columns = Mapping[Words, str | Mapping[str, str]]
"""Columns of a table of arms, by heading: the name of a score, or the cells by arm."""


@dataclass(frozen=True)
class Run:
    """One training: its arm, learning rate and seed, its best validation score (0 if it failed),
    and what was measured.

    `is_shipped`: its numbers come from the results that Regard ships; else it was trained here, in
    `seconds`.
    """

    arm: str
    rate: float
    seed: int
    valid: float
    seconds: float
    scores: Mapping[str, float] = field(default_factory=dict)
    is_shipped: bool = False


@dataclass(frozen=True)
class Dots:
    """A score of an arm at its best rate, one number for each seed.

    `gain`: how much of it the last step to this rate brought, by the validation score, if no rate
    beyond was tried.
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
        """Write the mean, with the lowest and the highest value behind it; `digits`: those behind
        the point.
        """
        low, mean, high = (
            f"{x:,.{digits or 1}f}"
            for x in (min(self.values), self.mean, max(self.values))
        )
        return (mean if low == high else f"{mean} ({low} … {high})").replace("-", "−")


@dataclass(frozen=True)
class Sweep:
    """All runs of an experiment, and the best rate of each arm. `recipes`: a digest of each arm's
    settings.

    `shifted`: outcomes of the parts of the claim when all learning rates were halved, and doubled;
    of shipped results.
    """

    names: Mapping[str, Words]
    best: Mapping[str, float]
    runs: tuple[Run, ...]
    recipes: Mapping[str, str]
    shifted: Sequence[Sequence[Outcome]] = ()

    def chosen(self, arm: str) -> list[Run]:
        """Return the runs of an arm at its best rate, by seed."""
        return sorted(
            (r for r in self.runs if (r.arm, r.rate) == (arm, self.best[arm])),
            key=lambda run: run.seed,
        )

    def rates(self, arm: str) -> dict[float, float]:
        """Return the validation score of an arm's first seed at each of its rates, in order."""
        runs = sorted(
            (run for run in self.runs if run.arm == arm),
            key=lambda run: (run.rate, -run.seed),
        )
        return {run.rate: run.valid for run in runs}

    def dots(
        self, arm: str, score: str = "chrF", name: Words = "", is_quality: bool = True
    ) -> Dots:
        """Return a score of an arm at its best rate; a run that diverged counts as 0.

        `is_quality`: a better rate raises it, as it raises the validation score.
        """
        values = tuple(run.scores.get(score, 0.0) for run in self.chosen(arm))
        rates = list(self.rates(arm).items())
        best = self.best[arm]
        gain = None
        if is_quality and len(rates) > 1 and best in (rates[0][0], rates[-1][0]):
            (_, at), (_, beside) = rates[:2] if best == rates[0][0] else rates[:-3:-1]
            gain = max(0.0, at - beside) / max(at, 1e-9) * max(values)
        return Dots(name or self.names[arm], values, best, gain)

    def board(self) -> Table:
        """Return a table of validation scores, arm by learning rate; * marks the rate that was
        chosen.
        """
        rates = sorted({run.rate for run in self.runs})
        rows = list[tuple[Words, ...]]()
        shades = list[tuple[int, ...]]()
        by_arm = {arm: self.rates(arm) for arm in self.names}
        highest = (
            max(
                (value for values in by_arm.values() for value in values.values()),
                default=0.0,
            )
            or 1.0
        )
        for arm, values in by_arm.items():
            marks = {rate: "*" if rate == self.best[arm] else "" for rate in rates}
            rows.append(
                (
                    self.names[arm],
                    *(
                        f"{values[r]:.1f}{marks[r]}" if r in values else ""
                        for r in rates
                    ),
                )
            )
            shades.append(
                tuple(
                    round(9 * max(0.0, values.get(rate, 0.0)) / highest)
                    for rate in rates
                )
            )
        return Table(
            LABELS["board"],
            (LABELS["model"], *(f"{rate:g}" for rate in rates)),
            tuple(rows),
            tuple(shades),
        )

    def table(self, title: Words, columns: Columns, digits: str = "1") -> Table:
        """Return a table with a row for each arm: scores over its seeds, or cells by arm."""
        rows = (
            (
                words,
                *(
                    f"{self.dots(a, c):{digits}}" if isinstance(c, str) else c[a]
                    for c in columns.values()
                ),
            )
            for a, words in self.names.items()
        )
        return Table(title, (LABELS["model"], *columns), tuple(rows))

    def plot(
        self,
        title: Words,
        score: str = "chrF",
        arms: Iterable[str] = (),
        x_label: Words = "",
    ) -> Plot:
        """Return a plot of a score with a place for each arm and a dot for each seed, of two kinds:
        own and shipped.
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
        """Return scores in a row, such as those of sentences of each length, at these places: a
        line for each seed.
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

    def to_json(self) -> dict[str, Any]:
        """Return what later runs can read again."""
        runs = [
            {k: v for k, v in vars(run).items() if k != "is_shipped"}
            for run in self.runs
        ]
        return {"best": dict(self.best), "recipes": dict(self.recipes), "runs": runs}

    @classmethod
    def of_shipped(cls, values: Mapping[str, Any]) -> Sweep:
        """Make a sweep of shipped results again, without names."""
        runs = tuple(Run(**run, is_shipped=True) for run in values["runs"])
        return cls(
            {}, values["best"], runs, values["recipes"], values.get("shifted", ())
        )


def best_rate(runs: Sequence[Run]) -> float:
    """Return the rate with the highest validation score; of equal ones the lowest."""
    return max(sorted(runs, key=lambda run: run.rate), key=lambda run: run.valid).rate
