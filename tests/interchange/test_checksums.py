"""Published models are compared with the checksums that came with them: three forms, each as its
own tools write it.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub._local_folder import write_download_metadata

from regard.common.errors import ExportError
from regard.interchange.checksums import SUMS, check_sums, write_sums

CONTENT = {"config.json": b"{}\n", "model.safetensors": b"weights" * 400_000}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    for name, content in CONTENT.items():
        (tmp_path / "model" / name).write_bytes(content)
    return tmp_path / "model"


def sha256(name: str) -> str:
    return hashlib.sha256(CONTENT[name]).hexdigest()


def git_blob(name: str) -> str:
    return hashlib.sha1(b"blob %d\0" % len(CONTENT[name]) + CONTENT[name]).hexdigest()


def listed(folder: Path) -> Path:
    write_sums(folder)
    return folder


def downloaded(folder: Path) -> Path:
    for name in CONTENT:
        etag = sha256(name) if name.endswith(".safetensors") else git_blob(name)
        write_download_metadata(folder, name, "1" * 40, etag)
    return folder


def in_cache(folder: Path) -> Path:
    """Arrange files as in Hugging Face's cache: snapshots of links to files that are named by their
    checksums.
    """
    blobs = folder.parent / "blobs"
    snapshot = folder.parent / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for name in CONTENT:
        blob = blobs / (
            sha256(name) if name.endswith(".safetensors") else git_blob(name)
        )
        shutil.move(folder / name, blob)
        (snapshot / name).symlink_to(blob)
    return snapshot


@pytest.mark.parametrize("arrange", [listed, downloaded, in_cache])
@pytest.mark.parametrize("name", CONTENT)
def test_a_changed_file_is_refused(
    folder: Path,
    arrange: Callable[[Path], Path],
    name: str,
) -> None:
    path = arrange(folder)

    assert check_sums(path, CONTENT) == {}

    content = bytearray(CONTENT[name])
    content[len(content) // 2] ^= 1
    (path / name).write_bytes(content)

    message = r"damaged or changed, its checksum is not .*; fetch it again"

    with pytest.raises(ExportError, match=message) as refused:
        check_sums(path, CONTENT)

    (cause,) = refused.value.causes

    assert cause.startswith(f"{path / name}: ")


def test_files_without_a_checksum_are_returned_with_theirs(folder: Path) -> None:
    expected = {name: sha256(name) for name in CONTENT}
    assert check_sums(folder, [*CONTENT, "vocab.json"]) == expected


def test_the_list_is_that_of_sha256sum(folder: Path) -> None:
    if shutil.which("sha256sum") is None:
        pytest.skip("there is no sha256sum")
    write_sums(folder)
    subprocess.run(
        ["sha256sum", "--check", "--strict", SUMS],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    done = subprocess.run(
        ["sha256sum", "--binary", *CONTENT],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    named = done.stdout.replace(b"*", b"*./")
    for content in (done.stdout, named, b"\xef\xbb\xbf# of version 1\n\n" + named):
        (folder / SUMS).write_bytes(content)
        assert check_sums(folder, CONTENT) == {}


def test_lists_are_read_with_care(folder: Path) -> None:
    write_sums(folder)
    (folder / "config.json").unlink()
    (folder / "model.safetensors").write_bytes(b"")
    with (folder / SUMS).open("a") as file:
        file.write(f"{'0' * 64}  not_fetched.h5\nno checksum\n")

    with pytest.raises(ExportError) as refused:
        check_sums(folder, CONTENT)

    starts = [
        f"{SUMS}: line 4 is no SHA-256",
        f"config.json: missing, but {SUMS} lists it",
        "model.safetensors: damaged",
    ]
    for cause, start in zip(refused.value.causes, starts, strict=True):
        assert cause.startswith(f"{folder}/{start}")
