"""How long work tells its progress: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

from regard.cli.app import quiet, say

__all__ = ["LineReporter", "TrainReporter", "duration"]

EVERY = 30.0
"""Seconds between two plain lines about a file that is being translated."""


class TrainReporter:
    """Told each event of a run; says what a person wants to know of it."""

    def __enter__(self) -> TrainReporter:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        line = getattr(self, f"_{event}")(values)
        if not line:
            return
        self._clear()
        if event == "train" and _live():
            sys.stderr.write(line)
            sys.stderr.flush()
        else:
            say(line)

    def _clear(self) -> None:
        """Take the live line away."""
        if _live():
            sys.stderr.write("\r\x1b[K")

    def _train(self, v: dict[str, Any]) -> str:
        each = v["seconds"] / v["update"]
        left = f" · {duration(each * (v['updates'] - v['update']))} left" if v["updates"] else ""
        of = f"/{v['updates']}" if v["updates"] else ""
        speed = f"{v['tokens_per_second']:,.0f} tokens/s"
        guided = f" · guided {v['guided']:.3f}" if "guided" in v else ""
        return f"update {v['update']}{of} · epoch {v['epoch'] + 1} · loss {v['entropy']:.3f}{guided} · {speed}{left}"

    def _valid(self, v: dict[str, Any]) -> str:
        star = "  ← best so far" if v["best"] else ""
        scores = f"loss {v['loss']:.3f} · chrF {v['chrf']:.1f} · BLEU {v['bleu']:.1f}"
        scores += f" · CIDEr-D {v['cider']:.1f}" if "cider" in v else ""
        return f"validation at update {v['update']} after {duration(v['seconds'])}: {scores}{star}"

    def _budget(self, v: dict[str, Any]) -> str:
        return f"{v['minutes']:g} minutes at {v['each']:.2f} s an update: {v['updates']} updates"

    def _resume(self, v: dict[str, Any]) -> str:
        return f"going on from update {v['update']}"

    def _damaged(self, v: dict[str, Any]) -> str:
        return f"{v['problem']}: going on from the one before it"

    def _halved(self, v: dict[str, Any]) -> str:
        return f"out of memory at update {v['update']}: each batch is computed in {v['cut']} parts from now on"

    def _stopping(self, _: dict[str, Any]) -> str:
        return "stopping after this update, or this look at the validation data; the same again stops at once"

    def _end(self, v: dict[str, Any]) -> str:
        return f"training ended after {v['update']} updates and {duration(v['seconds'])}: {v['reason']}"


class LineReporter:
    """Told which line a translation has come to; says how quick it is and when it will end."""

    def __init__(self, total: int | None, before: int, hidden: bool) -> None:
        self._total, self._before, self._hidden = total, before, hidden
        self._begin = self._last = time.monotonic()
        self._lines, self._told = before, False

    def __enter__(self) -> LineReporter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._clear()
        if self._told and kind is None:
            spent = time.monotonic() - self._begin
            say(f"{self._lines:,} lines in {duration(spent)} · {self._speed():,.0f} sentences/s")

    def __call__(self, lines: int) -> None:
        now, self._lines = time.monotonic(), lines
        if self._hidden:
            return
        if _live():
            self._clear()
            sys.stderr.write(self._line())
            sys.stderr.flush()
        elif now - self._last >= EVERY:
            say(self._line())
            self._last, self._told = now, True

    def notes(self, notes: Iterable[str]) -> None:
        """Warn of something, above the live line."""
        for note in notes:
            self._clear()
            say(f"warning: {note}")

    def _line(self) -> str:
        speed = self._speed()
        of = f"/{self._total:,}" if self._total else ""
        left = f" · {duration((self._total - self._lines) / speed)} left" if self._total and speed else ""
        return f"line {self._lines:,}{of} · {speed:,.0f} sentences/s{left}"

    def _speed(self) -> float:
        return (self._lines - self._before) / max(1e-9, time.monotonic() - self._begin)

    def _clear(self) -> None:
        """Take the live line away."""
        if _live() and not self._hidden:
            sys.stderr.write("\r\x1b[K")


def _live() -> bool:
    return sys.stderr.isatty() and not quiet()


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
