"""TensorBoard, for those who like to watch curves there: the journal's numbers, as they are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.errors import MissingExtra

__all__ = ["TensorBoardLog", "listeners"]

Listener = Callable[[str, dict[str, Any]], None]


class TensorBoardLog:
    """Told each event of a run; writes its numbers under `RUN/board`, where `tensorboard --logdir RUN` finds them."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("tensorboard", "board", "training.tensorboard") from None
        self._writer: Any = SummaryWriter(str(folder))

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        if event not in ("train", "valid"):
            return
        for name, value in values.items():
            if isinstance(value, dict):  # the entropy of each layer's attention
                for part, number in value.items():
                    self._writer.add_scalar(f"{name}/{part}", number, values["update"])
            elif isinstance(value, (int, float)) and name != "update":
                self._writer.add_scalar(f"{event}/{name}", value, values["update"])
        self._writer.flush()


def listeners(first: Listener, run: Path, board: bool) -> Listener:
    """`first`, and a board beside it where that is wanted. Raises MissingExtra."""
    if not board:
        return first
    second = TensorBoardLog(run / "board")

    def both(event: str, values: dict[str, Any]) -> None:
        first(event, values)
        second(event, values)

    return both
