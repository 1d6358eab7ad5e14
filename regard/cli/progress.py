"""How training tells its progress: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import Any

from regard.cli.app import quiet, say

__all__ = ["Teller", "duration"]


class Teller:
    """Told each event of a run; says what a person wants to know of it."""

    def __enter__(self) -> Teller:
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
        return f"update {v['update']}{of} · epoch {v['epoch'] + 1} · loss {v['entropy']:.3f} · {speed}{left}"

    def _valid(self, v: dict[str, Any]) -> str:
        star = "  ← best so far" if v["best"] else ""
        scores = f"loss {v['loss']:.3f} · chrF {v['chrf']:.1f} · BLEU {v['bleu']:.1f}"
        return f"validation at update {v['update']} after {duration(v['seconds'])}: {scores}{star}"

    def _budget(self, v: dict[str, Any]) -> str:
        return f"{v['minutes']:g} minutes at {v['each']:.2f} s an update: {v['updates']} updates"

    def _resume(self, v: dict[str, Any]) -> str:
        return f"going on from update {v['update']}"

    def _damaged(self, v: dict[str, Any]) -> str:
        return f"{v['problem']}: going on from the one before it"

    def _halved(self, v: dict[str, Any]) -> str:
        return f"out of memory at update {v['update']}: each batch is computed in {v['cut']} parts from now on"

    def _end(self, v: dict[str, Any]) -> str:
        return f"training ended after {v['update']} updates and {duration(v['seconds'])}: {v['reason']}"


def _live() -> bool:
    return sys.stderr.isatty() and not quiet()


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
