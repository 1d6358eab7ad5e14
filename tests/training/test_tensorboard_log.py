"""TensorBoard log: it holds the journal's numbers, and is written only if enabled."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from regard.common.errors import MissingExtra
from regard.training.tensorboard_log import with_tensorboard


def test_the_log_holds_the_numbers_of_the_journal(tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="no tensorboard",
    )
    events: list[tuple[str, dict[str, Any]]] = []
    report = with_tensorboard(
        lambda event, values: events.append((event, values)), tmp_path, enabled=True
    )
    report("machine", {"threads": 2})
    report("train", {"update": 50, "loss": 3.5, "learning_rate": 0.1})
    report(
        "valid",
        {
            "update": 50,
            "chrf": 40.0,
            "attention": {"decoder.layers.0.cross_attention": 1.25},
        },
    )
    assert [event for event, _ in events] == ["machine", "train", "valid"]
    log = accumulator.EventAccumulator(str(tmp_path / "board"))
    log.Reload()
    assert set(log.Tags()["scalars"]) == {
        "train/loss",
        "train/learning_rate",
        "valid/chrf",
        "attention/decoder.layers.0.cross_attention",
    }
    (event,) = log.Scalars("valid/chrf")
    assert (event.step, event.value) == (50, 40.0)


def test_a_disabled_log_writes_nothing(tmp_path: Path) -> None:
    def report(event: str, values: dict[str, Any]) -> None: ...

    assert with_tensorboard(report, tmp_path, enabled=False) is report
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(
        MissingExtra,
        match=r"training.tensorboard needs the package tensorboard: pip install 'regard\[board\]'",
    ):
        with_tensorboard(print, tmp_path, enabled=True)
