"""Atomic writes: a file or folder is replaced completely or not at all, and nothing temporary is
left.
"""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.system_marks import linux, posix

from regard.common import atomic
from regard.common.atomic import (
    atomic_file,
    atomic_folder,
    file_sha256,
    replaceable,
    write_bytes,
    write_text,
)
from regard.common.errors import DataError
from regard.data.text import write_lines


def _write_and_fail(path: Path) -> None:
    path.write_text("half")
    raise FileExistsError


@pytest.mark.parametrize(
    "options",
    [{}, {"durable": True}, {"unnamed": True}, {"unnamed": True, "durable": True}],
)
def test_a_file_is_replaced_completely_or_not_at_all(
    tmp_path: Path, options: dict[str, bool]
) -> None:
    path = tmp_path / "file"
    write_text(path, "before")

    with pytest.raises(FileExistsError), atomic_file(path, **options) as temporary:
        _write_and_fail(temporary)
    assert (path.read_text(), os.listdir(tmp_path)) == ("before", ["file"])

    with atomic_file(path, **options) as temporary:
        temporary.write_text("after")
        assert path.read_text() == "before"
    assert (path.read_text(), os.listdir(tmp_path)) == ("after", ["file"])


def test_a_folder_is_replaced_completely_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with atomic_folder(folder) as temporary:
        (temporary / "old").touch()

    with pytest.raises(FileExistsError), atomic_folder(folder) as temporary:
        _write_and_fail(temporary / "half")
    assert (os.listdir(folder), os.listdir(tmp_path)) == (["old"], ["folder"])

    with atomic_folder(folder) as temporary:
        (temporary / "new").touch()
    assert (os.listdir(folder), os.listdir(tmp_path)) == (["new"], ["folder"])


def _contents(folder: Path) -> list[str] | None:
    if not folder.is_dir():
        return None
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _replace(folder: Path, name: str) -> None:
    with atomic_folder(folder) as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / name).touch()


STEPS = (
    "open",
    "os.rename",
    "os.rmdir",
    "os.remove",
    "os.mkdir",
    "os.scandir",
    "os.listdir",
)


def _killed_at(step: int, folder: Path) -> bool:
    """Replace a folder in a forked process that dies at a step; return whether it did. Every file
    operation is one.
    """
    child = os.fork()
    if child == 0:
        steps = list[str]()

        def die(event: str, _: object) -> None:
            if event in STEPS:
                steps.append(event)
                if len(steps) == step:
                    os._exit(9)

        sys.addaudithook(die)
        _replace(folder, "new")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@posix
@pytest.mark.system
def test_a_kill_at_any_step_loses_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    states = {("inner", "inner/old"): "old", ("inner", "inner/new"): "new", (): "aside"}
    seen = set[str]()
    step = 1

    while True:
        _replace(folder, "old")
        if not _killed_at(step, folder):
            break
        state = states[tuple(_contents(folder) or ())]
        seen.add(state)
        if state == "aside":
            (aside,) = tmp_path.glob(".folder.regard-*.partial/folder.replaced")
            assert _contents(aside) == ["inner", "inner/old"], step
        with pytest.raises(FileExistsError), atomic_folder(folder) as temporary:
            # The old folder has its name back before that.
            _write_and_fail(temporary / "half")
        assert states[tuple(_contents(folder) or ())] != "aside", step
        assert os.listdir(tmp_path) == ["folder"]
        step += 1

    assert seen == {"old", "aside", "new"}
    assert step > 10
    assert _contents(folder) == ["inner", "inner/new"]
    assert os.listdir(tmp_path) == ["folder"]


@posix
def test_a_folder_that_cannot_get_its_name_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    rename = Path.rename
    _replace(folder, "old")

    def fail(path: Path, target: Path) -> Path:
        if path.parent.suffix == ".partial" and path.suffix != ".replaced":
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)

    with pytest.raises(PermissionError):
        _replace(folder, "new")
    assert (_contents(folder), os.listdir(tmp_path)) == (
        ["inner", "inner/old"],
        ["folder"],
    )


@posix
def test_a_link_to_a_folder_stays_and_a_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    for name in ("old", "new"):
        _replace(tmp_path / "link", name)

    assert (tmp_path / "link").is_symlink()
    assert _contents(tmp_path / "real") == ["inner", "inner/new"]

    (tmp_path / "file").write_text("before")
    with pytest.raises(OSError, match="file"):
        _replace(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "before"

    (tmp_path / "victim" / "none.replaced").mkdir(parents=True)
    (tmp_path / ".none.regard-0.partial").symlink_to("victim")
    _replace(tmp_path / "none", "new")

    assert sorted(os.listdir(tmp_path)) == [
        ".none.regard-0.partial",
        "file",
        "link",
        "none",
        "real",
        "victim",
    ]
    assert os.listdir(tmp_path / "victim") == ["none.replaced"]


KILLED = """
import os, signal, sys
from regard.common.atomic import atomic_file
with atomic_file(sys.argv[1], durable=True, unnamed=True) as temporary:
    temporary.write_bytes(bytes(10**6))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def _has_unnamed_files(folder: Path) -> bool:
    with atomic._unnamed_file(folder) as path:
        return path is not None


@linux
@pytest.mark.parametrize("before", [None, "before"])
def test_a_kill_leaves_nothing_of_an_unnamed_file(
    tmp_path: Path, before: str | None
) -> None:
    assert _has_unnamed_files(tmp_path), (
        "the file system of temporary files has them on Linux"
    )

    path = tmp_path / "file"
    if before is not None:
        path.write_text(before)

    assert (
        subprocess.run(
            [sys.executable, "-c", KILLED, str(path)], check=False
        ).returncode
        == -signal.SIGKILL
    )
    assert {name: (tmp_path / name).read_text() for name in os.listdir(tmp_path)} == (
        {"file": before} if before else {}
    )


@linux
def test_an_unnamed_file_has_the_rights_and_the_link_of_a_named_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "plain").write_text("")
    (tmp_path / "link").symlink_to("real")
    with atomic_file(tmp_path / "link", unnamed=True) as temporary:
        temporary.write_text("after")
        assert sorted(os.listdir(tmp_path)) == ["link", "plain"]

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"
    assert (tmp_path / "real").stat().st_mode == (tmp_path / "plain").stat().st_mode


@posix
def test_the_next_write_removes_what_killed_ones_have_left_and_nothing_of_living_ones(
    tmp_path: Path,
) -> None:
    """As on file systems without unnamed files; whatever the target of either is called."""
    script = KILLED.replace(", unnamed=True", "")
    (tmp_path / ".mine.partial").mkdir()
    for name in ("file", "other"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / name)], check=False
        )
        assert done.returncode == -signal.SIGKILL

    assert len(list(tmp_path.glob(".*.regard-*.partial"))) == 1, (
        "the second write has removed that of the first"
    )

    with atomic_file(tmp_path / "living") as living:
        living.write_text("living")
        write_text(tmp_path / "file", "after")
        assert [path.name for path in tmp_path.glob(".*.partial/*")] == ["living"]

    assert sorted(os.listdir(tmp_path)) == [".mine.partial", "file", "living"]


def test_a_file_is_named_at_once_where_there_are_no_unnamed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    with atomic_file(tmp_path / "file", unnamed=True) as temporary:
        temporary.write_text("after")
        assert temporary.parent.parent == tmp_path
    assert (tmp_path / "file").read_text() == "after"


def test_a_path_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        write_bytes(tmp_path / "missing" / "file", b"x")


@pytest.mark.parametrize(
    "write",
    [lambda path: write_text(path, "after"), lambda path: write_lines(path, ["after"])],
)
def test_files_are_synced_before_they_get_their_name(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []
    replace = os.replace

    def record(old: str, new: str) -> None:
        calls.append(("replace", Path(new).name))
        replace(old, new)

    monkeypatch.setattr(
        atomic, "sync", lambda path: calls.append(("sync", Path(path).name))
    )
    monkeypatch.setattr(os, "replace", record)
    write(tmp_path / "file")

    assert calls == [("sync", "file"), ("replace", "file"), ("sync", tmp_path.name)]


def test_folders_are_synced_before_they_get_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(atomic, "sync", synced.append)
    with atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "file").touch()
        assert synced == []

    assert synced == [
        temporary / "inner/file",
        temporary,
        temporary / "inner",
        tmp_path,
    ]
    assert os.listdir(tmp_path) == ["folder"]


@posix
def test_files_are_written_in_new_folders_of_their_own(tmp_path: Path) -> None:
    """Nobody can have put a link there, and several writers of a file do not meet."""
    for name in ("file.partial", "file.part"):
        (tmp_path / name).symlink_to("victim")
    with atomic_file(tmp_path / "file") as one, atomic_file(tmp_path / "file") as other:
        assert one != other
        assert [path.parent.stat().st_mode & 0o777 for path in (one, other)] == [
            0o700,
            0o700,
        ]
        assert [path.parent.parent for path in (one, other)] == [tmp_path, tmp_path]
        one.write_text("one")
        other.write_text("other")

    with atomic_folder(tmp_path / "folder") as first:
        with atomic_folder(tmp_path / "folder") as second:
            (second / "second").touch()
        (first / "first").touch()

    assert ((tmp_path / "file").read_text(), os.listdir(tmp_path / "folder")) == (
        "one",
        ["first"],
    )
    assert sorted(os.listdir(tmp_path)) == [
        "file",
        "file.part",
        "file.partial",
        "folder",
    ]


def test_the_hash_of_files_is_that_of_their_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"two")
    assert (
        file_sha256(tmp_path / "a", tmp_path / "b")
        == hashlib.sha256(b"onetwo").hexdigest()
    )


@posix
def test_links_are_kept_and_devices_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")
    (tmp_path / "link").symlink_to("file")

    assert all(
        map(
            replaceable,
            (
                tmp_path / "file",
                tmp_path / "link",
                tmp_path / "none",
                Path("/dev/shm/none"),
            ),
        )
    )

    with (tmp_path / "file").open() as file:
        opened = (
            Path(f"/proc/self/fd/{file.fileno()}"),
            Path(f"/dev/fd/{file.fileno()}"),
        )
        assert not any(
            map(replaceable, (Path("/dev/null"), Path("/dev/stdout"), *opened))
        )
    write_lines(tmp_path / "link", ["after"])

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "after\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


@pytest.mark.parametrize("atomic", [atomic_file, atomic_folder])
def test_a_full_disk_is_named_by_the_path_that_was_to_be_written(
    tmp_path: Path, atomic: Any
) -> None:
    """Whoever writes into an open file is not told its name."""
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space") as raised, atomic(tmp_path / "out"):
        raise full
    assert raised.value.filename == str(tmp_path / "out")
    assert not list(tmp_path.iterdir())
