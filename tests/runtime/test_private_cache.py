"""The cache of kernels and measurements: what is damaged, or another user's, is neither used nor
followed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.runtime import native, private_cache
from regard.runtime.private_cache import private_folders, read_private, write_private

pytestmark = pytest.mark.system
needs_kernels = pytest.mark.skipif(
    native.why_unavailable() is not None, reason=f"{native.why_unavailable()}"
)
needs_root = pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0,
    reason="only root gives files to another user",
)
STRANGER = 12345  # a user id


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a cache folder of this test's own."""
    monkeypatch.setenv(private_cache.FOLDER, str(tmp_path / "cache"))
    # Even if there is a ready-made library.
    monkeypatch.setenv(native.SWITCH, "compile")
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache"


def load() -> ctypes.CDLL | str:
    """Load the kernels as a new process does."""
    return native._load.__wrapped__()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Copy the library that is in use instead of compiling it; return a list of the copies."""
    copies: list[Path] = []
    in_use = native.kernels()._name

    def copy(_: str, library: Path) -> None:
        shutil.copy(in_use, library)
        copies.append(library)

    monkeypatch.setattr(native, "_compile", copy)
    return copies


def replaced(path: Path, content: bytes) -> None:
    """Write another file in a file's place; a library that is in use is left as it is."""
    path.with_suffix(".new").write_bytes(content)
    path.with_suffix(".new").replace(path)


def as_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere.so")
    path.symlink_to(path.parent.parent / "elsewhere.so")


DAMAGE: dict[str, Callable[[Path], None]] = {
    "cut": lambda path: replaced(path, path.read_bytes()[:5000]),
    "longer": lambda path: replaced(path, path.read_bytes() + b"\0"),
    "missing": Path.unlink,
    "writable": lambda path: path.chmod(0o666),
    "link": as_link,
}


@needs_kernels
@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_kernel_library_is_made_anew(
    kind: str,
    folder: Path,
    compilations: list[Path],
) -> None:
    for _ in range(2):
        assert isinstance(load(), ctypes.CDLL)

    assert len(compilations) == 1

    (library,) = folder.iterdir()
    content = library.read_bytes()
    DAMAGE[kind](library)

    assert isinstance(load(), ctypes.CDLL)
    assert len(compilations) == 2

    (library,) = folder.iterdir()

    assert library.read_bytes() == content
    assert not library.is_symlink()

    library.unlink()
    (library / "inner").mkdir(parents=True)

    assert "set REGARD_CACHE to another folder" in str(load())


@needs_kernels
@pytest.mark.parametrize("content", [b"no library", None])
def test_a_compiler_that_writes_nothing_usable_is_explained(
    content: bytes | None,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        native,
        "_compile",
        lambda _, library: content is not None and library.write_bytes(content),
    )
    assert str(folder) in str(load())
    assert not [path for path in folder.iterdir() if path.is_dir()], (
        "nothing temporary is left"
    )


@needs_kernels
def test_a_library_that_cannot_be_executed_in_one_folder_is_kept_in_the_next(
    tmp_path: Path,
    compilations: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = tmp_path / "first"
    monkeypatch.setenv(native.SWITCH, "compile")
    monkeypatch.setattr(
        private_cache,
        "cache_folders",
        lambda: [first, tmp_path / "second"],
    )
    open_library = ctypes.CDLL

    def refuse_the_first(path: str) -> ctypes.CDLL:
        if path.startswith(str(first)):
            raise OSError(f"{path}: failed to map segment from shared object")
        return open_library(path)

    monkeypatch.setattr(ctypes, "CDLL", refuse_the_first)

    assert not isinstance(load(), str)
    assert len(compilations) == 2


@pytest.mark.parametrize("mode", [0o1777, 0o720, 0o702])
def test_a_folder_that_others_can_write_to_is_not_used(mode: int, folder: Path) -> None:
    assert [*private_folders()] == [folder]

    folder.chmod(mode)

    assert [*private_folders()] == []
    assert "set REGARD_CACHE" in str(load()) or "compiler" in str(load())


def test_a_folder_that_others_can_exchange_is_not_used(folder: Path) -> None:
    folder.parent.chmod(0o777)

    assert [*private_folders()] == []

    folder.parent.chmod(0o1777)  # as /tmp: only owners rename

    assert [*private_folders()] == [folder]


def test_a_process_without_a_private_folder_makes_one_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(private_cache.FOLDER, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    private_cache._process_folders.cache_clear()
    for path in private_cache.cache_folders():
        path.mkdir(parents=True)
        path.chmod(0o777)
    message = (
        "others can write there.*set REGARD_CACHE to a folder that is writable and"
    )
    with pytest.warns(UserWarning, match=message):
        (own,) = private_folders()

    assert own.parent == tmp_path
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert [*private_folders()] == [own], "the same one, without another warning"

    tmp_path.chmod(0o777)
    private_cache._process_folders.cache_clear()

    assert [*private_folders()] == [], "others could exchange it"

    tmp_path.chmod(0o700)
    private_cache._process_folders.cache_clear()


@needs_root
def test_what_belongs_to_another_user_is_not_used(folder: Path) -> None:
    file = folder / "file"
    write_private(file, b"x")
    os.chown(file, STRANGER, -1)

    assert read_private(file, 10) is None

    os.chown(folder, STRANGER, -1)

    assert [*private_folders()] == []

    os.chown(folder, 0, -1)
    folder.rename(folder.with_name("real"))
    folder.symlink_to("real")
    os.chown(folder, STRANGER, -1, follow_symlinks=False)

    assert [*private_folders()] == []


def test_files_that_are_links_pipes_large_or_writable_by_others_are_not_read(
    folder: Path,
) -> None:
    path = folder / "file"
    write_private(path, b"12345")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_private(path, 5) == b"12345"
    assert read_private(path, 4) is None

    (folder / "link").symlink_to(path)
    os.mkfifo(folder / "pipe")
    for name in ("link", "pipe", "missing", "."):
        assert read_private(folder / name, 5) is None
    write_private(folder / "link", b"content")

    assert path.read_bytes() == b"12345", "a link is replaced, not followed"
    assert not (folder / "link").is_symlink()

    path.chmod(0o620)

    assert read_private(path, 5) is None
