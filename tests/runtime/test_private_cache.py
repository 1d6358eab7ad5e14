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

pytestmark = pytest.mark.system  # most compile the library
needs_kernels = pytest.mark.skipif(
    native.why_unavailable() is not None, reason=f"{native.why_unavailable()}"
)
STRANGER = 12345  # a user id


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a cache folder of this test's own."""
    monkeypatch.setenv(private_cache.FOLDER, str(tmp_path / "cache"))
    monkeypatch.setenv(native.SWITCH, "compile")  # even if there is a ready-made library
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the kernels once."""
    library = tmp_path_factory.mktemp("compiled") / "kernels.so"
    native._compile(native._compiler(), library)
    return library


def load() -> ctypes.CDLL | str:
    """Load the kernels as a new process does."""
    return native._load.__wrapped__()


def replaced(path: Path, content: bytes) -> None:
    """Write another file in a file's place; a library that is in use is left as it is."""
    path.with_suffix(".new").write_bytes(content)
    path.with_suffix(".new").replace(path)


def as_folder(path: Path) -> None:
    path.unlink()
    (path / "inner").mkdir(parents=True)


def as_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere.so")
    path.symlink_to(path.parent.parent / "elsewhere.so")


DAMAGE: dict[str, Callable[[Path], None]] = {
    "cut": lambda path: replaced(path, path.read_bytes()[:5000]),
    "empty": lambda path: replaced(path, b""),
    "flipped": lambda path: replaced(
        path, bytes([*path.read_bytes()[:-900], 7, *path.read_bytes()[-899:]])
    ),
    "longer": lambda path: replaced(path, path.read_bytes() + b"\0"),
    "text": lambda path: replaced(path, b"no library"),
    "missing": Path.unlink,
    "writable": lambda path: path.chmod(0o666),
    "link": as_link,
}


@needs_kernels
@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_kernel_library_is_made_anew(
    kind: str, folder: Path, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilations = []

    def compile_again(_: str, library: Path) -> None:
        shutil.copy(compiled, library)
        compilations.append(library)

    monkeypatch.setattr(native, "_compile", compile_again)
    assert isinstance(load(), ctypes.CDLL)
    assert isinstance(load(), ctypes.CDLL)
    assert len(compilations) == 1
    (library,) = folder.iterdir()
    DAMAGE[kind](library)
    assert isinstance(load(), ctypes.CDLL)
    assert len(compilations) == 2
    (library,) = folder.iterdir()
    assert library.read_bytes() == compiled.read_bytes()
    assert not library.is_symlink()


@needs_kernels
def test_a_folder_in_place_of_the_library_is_explained(
    folder: Path, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_compile", lambda _, library: shutil.copy(compiled, library))
    assert isinstance(load(), ctypes.CDLL)
    as_folder(next(folder.iterdir()))
    assert "set REGARD_CACHE to another folder" in str(load())


@needs_kernels
@pytest.mark.parametrize("content", [b"", b"no library", None])
def test_a_compiler_that_writes_nothing_usable_is_explained(
    content: bytes | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        native, "_compile", lambda _, library: content is not None and library.write_bytes(content)
    )
    assert str(folder) in str(load())
    assert not [path for path in folder.iterdir() if path.is_dir()], "nothing temporary is left"


@needs_kernels
def test_a_library_that_cannot_be_executed_in_one_folder_is_kept_in_the_next(
    tmp_path: Path, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    monkeypatch.setattr(private_cache, "cache_folders", lambda: folders)
    monkeypatch.setattr(native, "_compile", lambda _, library: shutil.copy(compiled, library))
    open_library = ctypes.CDLL

    def refuse_the_first(path: str) -> ctypes.CDLL:
        if path.startswith(str(folders[0])):
            raise OSError(f"{path}: failed to map segment from shared object")
        return open_library(path)

    monkeypatch.setattr(ctypes, "CDLL", refuse_the_first)
    assert not isinstance(load(), str)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o720, 0o702])
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
    folder.parent.chmod(0o700)


def test_a_root_that_everyone_can_write_to_is_that_of_a_container(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can exchange folders there can exchange Python itself; any other folder above still
    counts.
    """
    status = Path.stat
    open_folders = {Path(folder.anchor)}

    def everyone(path: Path, **options: bool) -> os.stat_result:
        actual = status(path, **options)
        return os.stat_result((0o40777, *actual[1:])) if path in open_folders else actual

    monkeypatch.setattr(Path, "stat", everyone)
    assert [*private_folders()] == [folder]
    open_folders.add(folder.resolve().parent)
    assert [*private_folders()] == []


def test_a_process_without_a_private_folder_makes_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(private_cache.FOLDER, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    private_cache._process_folders.cache_clear()
    for path in private_cache.cache_folders():
        path.mkdir(parents=True)
        path.chmod(0o777)
    with pytest.warns(
        UserWarning,
        match="others can write there.*set REGARD_CACHE to a folder that is writable and",
    ):
        (own,) = private_folders()
    assert own.parent == tmp_path
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert [*private_folders()] == [own], "the same one, without another warning"
    tmp_path.chmod(0o777)
    private_cache._process_folders.cache_clear()
    assert [*private_folders()] == [], "others could exchange it"
    tmp_path.chmod(0o700)
    private_cache._process_folders.cache_clear()


def test_a_folder_may_be_ones_own_link_but_not_a_dangling_one(folder: Path) -> None:
    folder.rename(folder.with_name("real"))
    folder.symlink_to("real")
    assert [*private_folders()] == [folder]
    folder.with_name("real").rmdir()
    assert [*private_folders()] == []


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files to another user"
)
class TestStranger:
    def test_folders_and_links_of_another_user_are_not_used(self, folder: Path) -> None:
        os.chown(folder, STRANGER, -1)
        assert [*private_folders()] == []
        os.chown(folder, 0, -1)
        folder.rename(folder.with_name("real"))
        folder.symlink_to("real")
        os.chown(folder, STRANGER, -1, follow_symlinks=False)
        assert [*private_folders()] == []

    def test_files_of_another_user_are_not_read(self, folder: Path) -> None:
        write_private(folder / "file", b"x")
        os.chown(folder / "file", STRANGER, -1)
        assert read_private(folder / "file", 10) is None


def test_files_that_are_links_pipes_large_or_writable_by_others_are_not_read(folder: Path) -> None:
    path = folder / "file"
    write_private(path, b"12345")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [read_private(path, 5), read_private(path, 4)] == [b"12345", None]
    (folder / "link").symlink_to(path)
    os.mkfifo(folder / "pipe")
    assert [read_private(folder / name, 5) for name in ("link", "pipe", "missing", ".")] == [
        None
    ] * 4
    path.chmod(0o620)
    assert read_private(path, 5) is None


def test_a_link_is_replaced_and_what_it_leads_to_stays(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("{}")
    (folder / "file").symlink_to(tmp_path / "victim")
    write_private(folder / "file", b"content")
    assert (tmp_path / "victim").read_text() == "{}"
    assert not (folder / "file").is_symlink()
    assert (folder / "file").read_bytes() == b"content"
