"""TensorBoard log: it holds the journal's numbers, and is written only if enabled."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from regard.common.errors import MissingExtra
from regard.training.tensorboard_log import with_tensorboard


def test_the_log_holds_the_numbers_of_the_journal(tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="no tensorboard",
    )
    journal = Mock()
    report = with_tensorboard(journal, tmp_path, enabled=True)
    report("machine", {"threads": 2})
    report("train", {"update": 50, "loss": 3.5, "learning_rate": 0.1})
    report("valid", {"update": 50, "chrf": 40.0, "attention": {"decoder": 1.25}})
    events = [call.args[0] for call in journal.call_args_list]

    assert events == ["machine", "train", "valid"]

    log = accumulator.EventAccumulator(str(tmp_path / "board"))
    log.Reload()
    names = {"train/loss", "train/learning_rate", "valid/chrf", "attention/decoder"}

    assert {*log.Tags()["scalars"]} == names

    (event,) = log.Scalars("valid/chrf")

    assert (event.step, event.value) == (50, 40.0)


def test_a_disabled_log_writes_nothing(tmp_path: Path) -> None:
    assert with_tensorboard(print, tmp_path, enabled=False) is print
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
