"""TensorBoard curves of a run: the numbers of its journal, as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.common.arguments import Report
from regard.common.errors import MissingExtra


class TensorBoardLog:
    """Writer of the numbers of "train" and "valid" events, for `tensorboard --logdir RUN`."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("tensorboard", "board", "training.tensorboard") from None
        self._writer: Any = SummaryWriter(str(folder))

    def __call__(self, event: str, values: Mapping[str, object]) -> None:
        if event not in ("train", "valid"):
            return
        for name, value in values.items():
            if isinstance(value, dict):  # the entropy of each layer's attention
                for part, number in value.items():
                    self._writer.add_scalar(f"{name}/{part}", number, values["update"])
            elif isinstance(value, (int, float)) and name != "update":
                self._writer.add_scalar(f"{event}/{name}", value, values["update"])
        self._writer.flush()


def with_tensorboard(report: Report | None, run: Path, enabled: bool) -> Report | None:
    """Return `report`, combined with a TensorBoard log in `run/board` if `enabled`.

    Raises MissingExtra without TensorBoard.
    """
    if not enabled:
        return report
    log = TensorBoardLog(run / "board")

    def both(event: str, values: dict[str, object]) -> None:
        if report is not None:
            report(event, values)
        log(event, values)

    return both
