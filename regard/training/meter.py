"""What the journal says of the updates since its last line."""

from __future__ import annotations

from collections.abc import Sequence

from regard.training.loss import Loss

__all__ = ["Meter"]


class Meter:
    """Sums since the last line, and the seconds of the first `known` updates."""

    def __init__(self, known: int) -> None:
        self._known = known
        self._first: list[float] = []
        self._smoothed = self._entropy = self._guided = self._linked = self._seconds = self._norm = 0.0
        self._tokens = 0

    def add(self, losses: list[Loss], norm: float, tokens: int, seconds: float) -> None:
        """One update: this process's losses, and the pieces of all."""
        self._smoothed += sum(float(loss.smoothed) for loss in losses)
        self._entropy += sum(float(loss.entropy) for loss in losses)
        self._guided += sum(float(loss.guided) for loss in losses if loss.guided is not None)
        self._linked += sum(float(loss.linked) for loss in losses if loss.linked is not None)
        self._tokens, self._seconds, self._norm = self._tokens + tokens, self._seconds + seconds, norm
        if len(self._first) < self._known:
            self._first.append(seconds)

    @property
    def sums(self) -> tuple[float, ...]:
        """The losses of this process, which are to be added up over all."""
        return self._smoothed, self._entropy, self._guided, self._linked

    def read(self, sums: Sequence[float]) -> dict[str, float]:
        """The means since the last reading, from the sums over all processes."""
        smoothed, entropy, guided, linked = sums
        values = {
            "loss": smoothed / self._tokens,
            "entropy": entropy / self._tokens,
            "gradient": self._norm,
            "tokens_per_second": self._tokens / self._seconds,
        }
        if linked:
            values["guided"] = guided / linked  # of a linked piece, in nats
        self._smoothed = self._entropy = self._guided = self._linked = self._seconds = 0.0
        self._tokens = 0
        return values

    def seconds_each(self) -> float:
        """The mean seconds of an update; the first few warm caches up and do not count."""
        later = self._first[5:] or self._first
        return sum(later) / len(later)
