"""Progress of long work, with speed and time left: a live line on a terminal, plain lines
elsewhere.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, suppress
from typing import Any

from regard.cli.app import is_quiet, say, warn

EVERY = 30.0
"""Seconds between two plain lines about a file that is being translated."""
_LINES = {
    "message": "{text}",
    "budget": "{minutes:.3g} minutes were {updates:,} updates, as train.toml says now",
    "resume": "resuming from update {update}",
    "damaged": "{problem}: resuming from the previous checkpoint",
    "restored": "{problem}",
    "halved": "out of memory at update {update}: each batch is split into {parts} parts from now "
    "on",
    "stopping": "stopping after this update or validation; a second signal stops at once",
    "end": "training ended after {update} updates and {duration}: {reason}",
}
"""Lines about the events of training, beside progress and validations."""


class _LiveLine:
    """A line of a terminal that is written again and again, and removed when the `with` block
    ends.
    """

    def __init__(self, hidden: bool = False) -> None:
        self._is_live = sys.stderr.isatty() and not is_quiet() and not hidden

    def _show(self, line: str) -> bool:
        """Replace the live line; return whether there is a terminal for it."""
        if self._is_live:
            with suppress(OSError):  # as `say`
                sys.stderr.write(f"\r\x1b[K{line}")
                sys.stderr.flush()
        return self._is_live

    def _clear(self) -> None:
        """Remove the live line, so that a plain one can be printed."""
        self._show("")


class TrainReporter(_LiveLine, AbstractContextManager["TrainReporter"]):
    """Prints the events of a training run; on a terminal also its progress, elsewhere only the
    first time.

    Where training writes to a file, a line for each "train" event is enough, but the first should
    not come late.
    """

    _has_shown = False
    _loss = ""  # of the last "train" event

    def __exit__(self, *_: object) -> None:
        self._clear()

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        duration = format_duration(values.get("seconds", 0.0))
        lines = {"train": self._train, "progress": self._progress, "valid": self._valid}
        line = (
            lines[event](values)
            if event in lines
            else _LINES[event].format(duration=duration, **values)
        )
        is_progress = event in ("train", "progress")
        if (
            not line
            or (is_progress and self._show(line))
            or (event == "progress" and self._has_shown)
        ):
            return
        self._has_shown = self._has_shown or is_progress
        self._clear()
        say(line)

    def _train(self, v: dict[str, Any]) -> str:
        guided = f" · guided {v['guided']:.3f}" if "guided" in v else ""
        self._loss = f" · loss {v['cross_entropy']:.3f}{guided}"
        return self._progress(v)

    def _progress(self, v: dict[str, Any]) -> str:
        total = f"/{v['updates']}" if v["updates"] else ""
        left = (
            ""
            if v["seconds_left"] is None
            else f" · {format_duration(v['seconds_left'])} left"
        )
        speed = f"{v['tokens_per_second']:,.0f} tokens/s"
        return f"update {v['update']}{total} · epoch {v['epoch'] + 1}{self._loss} · {speed}{left}"

    def _valid(self, v: dict[str, Any]) -> str:
        star = "  ← best so far" if v["best"] else ""
        scores = f"loss {v['loss']:.3f} · chrF {v['chrf']:.1f} · BLEU {v['bleu']:.1f}"
        scores += f" · CIDEr-D {v['cider']:.1f}" if "cider" in v else ""
        return (
            f"validation at update {v['update']} after {format_duration(v['seconds'])}: "
            f"{scores}{star}"
        )


class LineReporter(_LiveLine, AbstractContextManager["LineReporter"]):
    """Prints how many lines of a file are translated, of `total` if known, `before` of them in an
    earlier run.

    `hidden`: only warnings are printed, since the results are written to the same terminal.
    """

    def __init__(self, total: int | None, before: int, hidden: bool) -> None:
        super().__init__(hidden)
        self._total = total
        self._before = before
        self._hidden = hidden
        self._begin = self._last = time.monotonic()
        self._lines = before
        self._printed = False

    def __exit__(self, kind: object, *_: object) -> None:
        self._clear()
        if self._printed and kind is None:
            seconds = time.monotonic() - self._begin
            count = f"{self._lines:,} line{'s' if self._lines != 1 else ''}"
            say(
                f"{count} in {format_duration(seconds)} · {self._speed():,.0f} sentences/s"
            )

    def __call__(self, lines: int) -> None:
        time_now = time.monotonic()
        self._lines = lines
        if (
            not self._hidden
            and not self._show(self._line())
            and time_now - self._last >= EVERY
        ):
            say(self._line())
            self._last = time_now
            self._printed = True

    def warn(self, *messages: str) -> None:
        """Print warnings above the live line."""
        if messages:
            self._clear()
            warn(*messages)

    def _line(self) -> str:
        speed = self._speed()
        total = f"/{self._total:,}" if self._total else ""
        left = (
            f" · {format_duration((self._total - self._lines) / speed)} left"
            if self._total and speed
            else ""
        )
        return f"line {self._lines:,}{total} · {speed:,.0f} sentences/s{left}"

    def _speed(self) -> float:
        return (self._lines - self._before) / max(1e-9, time.monotonic() - self._begin)


def format_duration(seconds: float) -> str:
    """Return seconds as text: `1 h 05 min`, `2 min 10 s` or `7 s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
