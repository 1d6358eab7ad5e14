"""Figures that need no trained model: positional encodings and learning-rate schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.errors import UsageError

if TYPE_CHECKING:
    from regard.common.shapes import Array
    from regard.requests.show_request import ShowCommand
    from regard.training.schedule import ScheduleSettings
    from regard.visualisation import Chart, Figure
    from regard.visualisation.charts import Series

MAX_POSITIONS = 100  # rows of a figure
SIZE = 512
UPDATES = 20_000
PUBLISHED = ((512, 4000), (512, 8000), (256, 4000))
"""Default sizes and warm-ups: those of the well-known figure of the Noam schedule."""
USED = {
    "positions": {"--size", "--position"},
    "schedule": {"--size", "--warmup", "--schedule", "--peak", "--updates"},
}
"""Options of the views that are drawn without a run."""


def sinusoid_rows(size: int, count: int, between: int = 1) -> Array:
    """Return the encodings (count, size) of the first positions, columns in the paper's order; if
    `between` is not 1, of so many steps from each position to the next.
    """
    import torch

    from regard.layers.positional_encoding import interleaved, sinusoids

    positions = torch.arange(count)[None] / between
    rows: Array = sinusoids(positions, size)[0][:, interleaved(size)].numpy()
    return rows


def draw_sinusoids(size: int, marked: int | None = None, width: float = 0.0) -> Figure:
    """Draw the sinusoidal encoding with `size` dimensions, with columns in the paper's order."""
    from regard.visualisation.language import words
    from regard.visualisation.position_figures import layout_sinusoids

    title = words("Sinusoidal positional encoding, {size} dimensions", size=size)
    # The only waves of two dimensions are short: three are drawn, and smoothly.
    last, between = (20, 10) if size == 2 else (MAX_POSITIONS - 1, 1)
    if marked is not None and marked > last:
        marked = None  # it is not drawn
    rows = sinusoid_rows(size, last * between + 1, between)
    return layout_sinusoids(rows, title, marked, width, between)


def draw_positions(command: ShowCommand) -> tuple[Figure, list[str]]:
    """Return the figure of positional encodings, and lines with the vector of one position, if it
    is requested.
    """
    if len(command.size) > 1:
        raise UsageError(
            f"--size: the figure of positions is of one size, got {len(command.size)}"
        )
    size = command.size[0] if command.size else SIZE
    lines = []
    if command.position is not None:
        vector = sinusoid_rows(size, command.position + 1)[-1]
        lines = [f"position {command.position}, {size} dimensions"]
        for d, value in enumerate(vector):
            function = "sin" if d % 2 == 0 else "cos"
            formula = f"{function}({command.position} / 10000^({d - d % 2}/{size}))"
            number = f"{value:+.4f}".replace("-", "−")
            lines.append(f"{d:>4}  {formula:<28} {number}")
    return draw_sinusoids(size, command.position), lines


def draw_schedules(command: ShowCommand) -> Chart:
    """Draw the learning rates of several schedules in one figure, by default those of `PUBLISHED`.

    `size` and `warmup` are paired; a single value is used for all pairs. Raises UsageError if their
    numbers differ.
    """
    from regard.training.schedule import NOAM_WARMUP, ScheduleSettings
    from regard.visualisation import Chart, Panel
    from regard.visualisation.language import words

    kind = command.schedule or "noam"
    pairs = list(PUBLISHED)
    if command.size or command.warmup or command.schedule:
        pairs = _pairs(command, NOAM_WARMUP)
    peak = {} if command.peak is None else {"peak": command.peak}
    last = command.updates or max(UPDATES, *(2 * warmup for _, warmup in pairs))

    lines = []
    for size, warmup in pairs:
        values = {"kind": kind, "warmup": warmup, **peak}
        schedule = ScheduleSettings.parse(values, "the options")
        name = words("size {size}, ", size=size) if kind == "noam" else ""
        name += words("warm-up {updates}", updates=f"{schedule.warmup:,}")
        lines.append(schedule_line(name, schedule, size, last))

    caption = ""
    if kind == "noam":
        caption = words("noam: size^−0.5 · min(update^−0.5, update · warm-up^−1.5)")
    panel = Panel(words("learning rate"), words("updates"), tuple(lines))
    title = words("Learning rate, {kind}", kind=kind.replace("_", " "))
    return Chart(title, (panel,), caption)


def _pairs(command: ShowCommand, default_warmup: int) -> list[tuple[int, int]]:
    """Pair sizes and warm-ups; a single value is used for all pairs."""
    vector_sizes = list(command.size) or [SIZE]
    warmups = list(command.warmup) or [default_warmup]
    count = max(len(vector_sizes), len(warmups))
    if not {len(vector_sizes), len(warmups)} <= {1, count}:
        raise UsageError(
            f"--size and --warmup: got {len(vector_sizes)} and {len(warmups)}; give as many of "
            "both, or one of either"
        )
    if len(vector_sizes) == 1:
        vector_sizes *= count
    if len(warmups) == 1:
        warmups *= count
    return list(zip(vector_sizes, warmups, strict=True))


def schedule_line(
    name: str, schedule: ScheduleSettings, size: int, last: int
) -> Series:
    """Return the learning rate against updates, at regular intervals and at its peak.

    `size`: size of the decoder's vectors; `last`: the last update to draw.
    """
    from regard.training.schedule import learning_rate
    from regard.visualisation import Series

    updates = {max(1, round(last * n / 400)) for n in range(401)}
    updates.add(max(1, min(last, schedule.warmup)))
    points = tuple(
        (float(update), learning_rate(schedule, update, size))
        for update in sorted(updates)
    )
    return Series(name, points)
