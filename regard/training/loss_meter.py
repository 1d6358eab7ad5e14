"""Mean losses and speed of the updates since the last journal line."""

from __future__ import annotations

from collections.abc import Sequence

from regard.training.loss import Loss


class Meter:
    """Sums of losses, tokens and seconds since the last reading."""

    def __init__(self) -> None:
        self._norm = 0.0
        self._reset()

    def _reset(self) -> None:
        self._smoothed = 0.0
        self._cross_entropy = 0.0
        self._guided = 0.0
        self._linked = 0.0
        self._seconds = 0.0
        self._tokens = 0

    def add(self, losses: list[Loss], norm: float, tokens: int, seconds: float) -> None:
        """Add an update: the losses of this process, and values of the whole update."""
        self._smoothed += sum(float(loss.smoothed) for loss in losses)
        self._cross_entropy += sum(float(loss.cross_entropy) for loss in losses)
        self._guided += sum(
            float(loss.guided) for loss in losses if loss.guided is not None
        )
        self._linked += sum(
            float(loss.linked) for loss in losses if loss.linked is not None
        )
        self._tokens += tokens
        self._seconds += seconds
        self._norm = norm

    @property
    def sums(self) -> tuple[float, ...]:
        """The summed losses of this process, to be added up over all processes."""
        return self._smoothed, self._cross_entropy, self._guided, self._linked

    def read(self, sums: Sequence[float]) -> dict[str, float]:
        """Return the means since the last reading, given the `sums` over all processes.

        Losses are in nats per token.
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
        self._reset()
        return values
