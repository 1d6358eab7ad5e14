"""Progress of long commands, with speed and remaining time.

It is a live line on a terminal, and plain lines otherwise.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, suppress
from typing import Any

from regard.cli.app import is_quiet, say, warn
from regard.common.counting import counted, format_duration

EVERY = 30.0
"""Seconds between two plain lines about the translation of a file."""
_LINES = {
    "message": "{text}",
    "budget": "{budget} were {updates}: train.toml has this number now, and repeats the run by it",
    "resume": "resuming from update {update}",
    "damaged": "{problem}: resuming from the previous checkpoint",
    "restored": "{problem}",
    "halved": "out of memory at update {update}: each batch is split into {parts} parts from now "
    "on",
    "stopping": "stopping after this update or validation; a second signal stops at once",
    "end": "training ended after {updates} and {duration}: {reason}",
}
"""Messages for the events of training other than progress and validation."""


class _LiveLine:
    """A line of a terminal that is overwritten again and again."""

    def __init__(self, hidden: bool = False) -> None:
        self._is_live = sys.stderr.isatty() and not is_quiet() and not hidden

    def _show(self, line: str) -> bool:
        """Replace the live line; return whether there is a terminal for it."""
        if self._is_live:
            with suppress(OSError):  # a closed stderr must not stop the work
                sys.stderr.write(f"\r\x1b[K{line}")
                sys.stderr.flush()
        return self._is_live

    def _clear(self) -> None:
        """Remove the live line, so that a plain one can be printed."""
        self._show("")


class TrainReporter(_LiveLine, AbstractContextManager["TrainReporter"]):
    """Prints the events of a training run.

    A terminal shows "train" and "progress" events in a live line. Elsewhere all "train" events are
    printed, but only one "progress" event, as an early sign of life.
    """

    _has_shown = False
    _loss = ""  # losses of the last "train" event

    def __exit__(self, *_: object) -> None:
        self._clear()

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        formatters = {
            "train": self._train,
            "progress": self._progress,
            "valid": self._valid,
        }
        if event in formatters:
            line = formatters[event](values)
        else:
            duration = format_duration(values.get("seconds", 0.0))
            updates = counted(values.get("update", 0), "update")
            budget = format_duration(60 * values.get("minutes", 0.0))
            values = values | {
                "duration": duration,
                "updates": updates,
                "budget": budget,
            }
            line = _LINES[event].format(**values)
        if not line:
            return

        is_progress = event in ("train", "progress")
        if is_progress and self._show(line):
            return
        if event == "progress" and self._has_shown:
            return
        self._has_shown = self._has_shown or is_progress
        self._clear()
        say(line)

    def _train(self, values: dict[str, Any]) -> str:
        self._loss = f" · loss {values['cross_entropy']:.3f}"
        if "guided" in values:
            self._loss += f" · guided {values['guided']:.3f}"
        return self._progress(values)

    def _progress(self, values: dict[str, Any]) -> str:
        update = f"update {values['update']}"
        if values["updates"]:
            update += f"/{values['updates']}"
        epoch = values["epoch"] + 1
        speed = f"{values['tokens_per_second']:,.0f} tokens/s"
        line = f"{update} · epoch {epoch}{self._loss} · {speed}"
        if values["seconds_left"] is not None:
            line += f" · {format_duration(values['seconds_left'])} left"
        return line

    def _valid(self, values: dict[str, Any]) -> str:
        scores = [
            f"loss {values['loss']:.3f}",
            f"chrF {values['chrf']:.1f}",
            f"BLEU {values['bleu']:.1f}",
        ]
        if "cider" in values:
            scores.append(f"CIDEr-D {values['cider']:.1f}")
        duration = format_duration(values["seconds"])
        mark = "  ← best so far" if values["best"] else ""
        return (
            f"validation at update {values['update']} after {duration}: "
            f"{' · '.join(scores)}{mark}"
        )


class LineReporter(_LiveLine, AbstractContextManager["LineReporter"]):
    """Prints the number of translated lines of a file.

    `total`: number of all lines, if known; `before`: lines that an earlier run has translated;
    `hidden`: print only warnings, because the results go to the same terminal.
    """

    def __init__(self, total: int | None, before: int, hidden: bool) -> None:
        super().__init__(hidden)
        self._total = total
        self._before = before
        self._hidden = hidden
        self._begin = time.monotonic()
        self._last = self._begin  # time of the last plain line
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
        now = time.monotonic()
        self._lines = lines
        if self._hidden or self._show(self._line()):
            return
        if now - self._last >= EVERY:
            say(self._line())
            self._last = now
            self._printed = True

    def warn(self, *messages: str) -> None:
        """Print warnings above the live line."""
        if messages:
            self._clear()
            warn(*messages)

    def _line(self) -> str:
        speed = self._speed()
        total = f"/{self._total:,}" if self._total else ""
        line = f"line {self._lines:,}{total} · {speed:,.0f} sentences/s"
        if self._total and speed:
            seconds_left = (self._total - self._lines) / speed
            line += f" · {format_duration(seconds_left)} left"
        return line

    def _speed(self) -> float:
        seconds = max(1e-9, time.monotonic() - self._begin)
        return (self._lines - self._before) / seconds
