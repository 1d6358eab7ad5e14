"""Figures that need no trained model: positional encoding and learning-rate schedules of given
sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from regard.common.errors import UsageError

if TYPE_CHECKING:
    from regard.training.schedule import ScheduleSettings
    from regard.visualisation import Chart, Figure
    from regard.visualisation.charts import Series

MAX_POSITIONS = 100  # that are drawn
SIZE = 512
UPDATES = 20_000
PUBLISHED = ((512, 4000), (512, 8000), (256, 4000))
"""Sizes and warm-ups that are drawn if none are given: those of the well-known figure."""
Kind = Literal["noam", "inverse_square_root", "constant"]


@dataclass(frozen=True)
class Sizes:
    """Sizes that figures are drawn for; empty or None: the published ones."""

    size: Sequence[int] = ()
    warmup: Sequence[int] = ()
    schedule: Kind | None = None
    peak: float | None = None
    updates: int | None = None
    position: int | None = None


USED = {
    "positions": {"--size", "--position"},
    "schedule": {"--size", "--warmup", "--schedule", "--peak", "--updates"},
}
"""Options that a view without a run takes."""


def sinusoid_rows(size: int, count: int) -> Any:
    """Return the encoding of the first positions (count, size), columns in the paper's order."""
    import torch

    from regard.layers.positional_encoding import interleaved, sinusoids

    return sinusoids(torch.arange(count)[None], size)[0][:, interleaved(size)].numpy()


def draw_sinusoids(size: int) -> Figure:
    """Draw the sinusoidal encoding of a size, columns in the paper's order."""
    from regard.visualisation.language import words
    from regard.visualisation.position_figures import layout_sinusoids

    title = words("Sinusoidal positional encoding, {size} dimensions", size=size)
    return layout_sinusoids(sinusoid_rows(size, MAX_POSITIONS), title)


def draw_positions(sizes: Sizes) -> tuple[Figure, list[str]]:
    """Return the figure of one size, and the lines that print the vector of a position, if one was
    asked for.
    """
    if len(sizes.size) > 1:
        raise UsageError(
            f"--size: the figure of positions is of one size, got {len(sizes.size)}"
        )
    size = sizes.size[0] if sizes.size else SIZE
    lines = []
    if sizes.position is not None:
        vector = sinusoid_rows(size, sizes.position + 1)[-1]
        lines = [f"position {sizes.position}, {size} dimensions"]
        for d, value in enumerate(vector):
            function = "sin" if d % 2 == 0 else "cos"
            wave = f"{function}({sizes.position} / 10000^({d - d % 2}/{size}))"
            lines.append(f"{d:>4}  {wave:<28} {f'{value:+.4f}'.replace('-', '−')}")
    return draw_sinusoids(size), lines


def draw_schedules(sizes: Sizes) -> Chart:
    """Return the learning rates of given schedules in one figure; without any, the three that are
    well known.

    `size` and `warmup` are paired; one value stands for all. Raises UsageError if their numbers
    differ.
    """
    from regard.training.schedule import NOAM_WARMUP, ScheduleSettings
    from regard.visualisation import Chart, Panel
    from regard.visualisation.language import words

    kind = sizes.schedule or "noam"
    pairs = (
        _pairs(sizes, NOAM_WARMUP)
        if sizes.size or sizes.warmup or sizes.schedule
        else list(PUBLISHED)
    )
    peak = {} if sizes.peak is None else {"peak": sizes.peak}
    last = sizes.updates or max(UPDATES, *(2 * warmup for _, warmup in pairs))
    lines = []
    for size, warmup in pairs:
        schedule = ScheduleSettings.parse(
            {"kind": kind, "warmup": warmup, **peak}, "the options"
        )
        name = words("size {size}, ", size=size) if kind == "noam" else ""
        name += words("warm-up {updates}", updates=f"{schedule.warmup:,}")
        lines.append(schedule_line(name, schedule, size, last))
    caption = (
        words("noam: size^−0.5 · min(update^−0.5, update · warm-up^−1.5)")
        if kind == "noam"
        else ""
    )
    panel = Panel(words("learning rate"), words("updates"), tuple(lines))
    return Chart(
        words("Learning rate, {kind}", kind=kind.replace("_", " ")), (panel,), caption
    )


def _pairs(sizes: Sizes, warmup: int) -> list[tuple[int, int]]:
    """Pair sizes and warm-ups; one value stands for all."""
    given = list(sizes.size) or [SIZE]
    warmups = list(sizes.warmup) or [warmup]
    count = max(len(given), len(warmups))
    if not {len(given), len(warmups)} <= {1, count}:
        raise UsageError(
            f"--size and --warmup: got {len(given)} and {len(warmups)}; give as many of both, or "
            "one of either"
        )
    return list(
        zip(
            given * (count // len(given)),
            warmups * (count // len(warmups)),
            strict=True,
        )
    )


def schedule_line(
    name: str, schedule: ScheduleSettings, size: int, last: int
) -> Series:
    """Return the learning rate against updates, its peak among them."""
    from regard.training.schedule import learning_rate
    from regard.visualisation import Series

    updates = sorted(
        {max(1, round(last * n / 400)) for n in range(401)}
        | {max(1, min(last, schedule.warmup))}
    )
    return Series(
        name,
        tuple(
            (float(update), learning_rate(schedule, update, size)) for update in updates
        ),
    )
