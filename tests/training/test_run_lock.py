"""The lock of a run folder: one process at a time, and no error where folders cannot be locked."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from helpers.system_marks import posix

from regard.common.errors import UsageError
from regard.training.run_lock import lock_run


@posix
def test_a_second_lock_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    run = tmp_path / "a" / "run"
    with lock_run(run):
        (run / "file").touch()
        with (
            pytest.raises(UsageError, match="run: another process is training in it"),
            lock_run(run),
        ):
            pass

        assert (run / "file").exists()

    with lock_run(run):
        pass

    assert run.is_dir(), "only a folder that stays empty is removed"


def test_an_empty_folder_is_removed(tmp_path: Path) -> None:
    with pytest.raises(KeyError), lock_run(tmp_path / "run"):
        raise KeyError
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["fcntl", "fcntl.flock"])
def test_where_folders_cannot_be_locked_nothing_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "fcntl":
        monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    else:
        pytest.importorskip("fcntl", reason="Windows has none")
        unsupported = OSError(95, "not supported")
        monkeypatch.setattr(name, Mock(side_effect=unsupported))
    with lock_run(tmp_path / "run"), lock_run(tmp_path / "run"):
        pass
