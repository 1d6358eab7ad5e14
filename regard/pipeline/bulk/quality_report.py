"""Share of the lines of a file that can be used as they are, and those to look at first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

from regard.common.counting import counted
from regard.pipeline.bulk.chunk_translator import LineQuality

FIRST = 36
"""Maximum number of lines that are named."""
UNSURE = 0.5
"""Quality below which a line is named."""


class QualityReport:
    """Sum of the qualities of lines, and the worst of them, in constant memory."""

    def __init__(self) -> None:
        self._count = 0
        self._total = 0.0
        self._worst = list[LineQuality]()

    @property
    def is_known(self) -> bool:
        """True if the quality of a line is known."""
        return self._count > 0

    def add(self, qualities: Iterable[LineQuality]) -> None:
        """Add lines."""
        lines = list(qualities)
        self._count += len(lines)
        self._total += sum(line.quality for line in lines)
        unsure = (line for line in lines if line.quality < UNSURE)
        self._worst = heapq.nsmallest(FIRST, [*self._worst, *unsure])

    def lines(self, label: Callable[[int], str] = str) -> Iterator[str]:
        """Yield the sentences of the report; `label` names a line."""
        if not self.is_known:
            yield (
                "no quality is known: the model is not calibrated for this search; run regard "
                "calibrate"
            )
            return
        share = self._total / self._count
        yield (
            f"of {counted(self._count, 'line')} about {share:.0%} can be used as they are (chrF of "
            "50 or more)"
        )
        if self._worst:
            worst = ", ".join(
                f"{label(line.number)} ({line.quality:.2f})" for line in self._worst
            )
            yield f"look at these first, the least sure ahead: {worst}"
