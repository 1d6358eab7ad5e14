"""Mean losses and speed of the updates since the last journal line."""

from __future__ import annotations

from collections.abc import Sequence

from regard.training.loss import Loss


class Meter:
    """Sums since the last reading."""

    def __init__(self) -> None:
        self._smoothed = self._cross_entropy = self._guided = self._linked = (
            self._seconds
        ) = self._norm = 0.0
        self._tokens = 0

    def add(self, losses: list[Loss], norm: float, tokens: int, seconds: float) -> None:
        """Add an update: the losses of this process, and the gradient norm, tokens and seconds of
        the whole update.
        """
        self._smoothed += sum(float(loss.smoothed) for loss in losses)
        self._cross_entropy += sum(float(loss.cross_entropy) for loss in losses)
        self._guided += sum(
            float(loss.guided) for loss in losses if loss.guided is not None
        )
        self._linked += sum(
            float(loss.linked) for loss in losses if loss.linked is not None
        )
        self._tokens = self._tokens + tokens
        self._seconds = self._seconds + seconds
        self._norm = norm

    @property
    def sums(self) -> tuple[float, ...]:
        """The summed losses of this process, to be added up over all processes."""
        return self._smoothed, self._cross_entropy, self._guided, self._linked

    def read(self, sums: Sequence[float]) -> dict[str, float]:
        """The means since the last reading, from the sums over all processes; losses in nats per
        token.
        """
        smoothed, cross_entropy, guided, linked = sums
        values = {
            "loss": smoothed / self._tokens,
            "cross_entropy": cross_entropy / self._tokens,
            "gradient_norm": self._norm,
            "tokens_per_second": self._tokens / self._seconds,
        }
        if linked:
            values["guided"] = guided / linked  # per linked token
        self._smoothed = self._cross_entropy = self._guided = self._linked = (
            self._seconds
        ) = 0.0
        self._tokens = 0
        return values
