"""Files from outside: whatever is in them, an error is one sentence with the path, and nothing is
executed.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers.small_models import folder
from helpers.system_marks import posix
from safetensors.torch import save_file

from regard.common.atomic import file_sha256
from regard.common.errors import ConfigurationError, DataError, ModelFolderError
from regard.common.reading import (
    DEPTH,
    file_bytes,
    is_runtime_file,
    parse_json,
    parse_toml,
    read_tensors,
    tensor_shapes,
)
from regard.common.settings import parse_assignments, read_toml
from regard.data.text import read_lines
from regard.model_folder import load_folder, weights_id
from regard.serving.keys import list_keys
from regard.training.journal import Journal, read

DEEP = "[" * 100_000
LONG = "9" * 5000


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        LONG,
        '{"a": ' * 3000,
        "{",
        "",
        "\udc80",
        f'{{"a": {LONG}}}',
        "[" * 60 + "]" * 60,
    ],
)
def test_bad_json_is_a_value_error_with_a_reason(text: str) -> None:
    for content in (text, text.encode("utf-8", "surrogatepass")):
        with pytest.raises(ValueError, match=r"\w") as caught:
            parse_json(content)
        assert len(str(caught.value)) < 400


def test_json_is_read_as_it_is_written() -> None:
    values = {"a": [1, 2.5, None, True], "나": {"b": "c"}}
    assert (
        parse_json(json.dumps(values))
        == parse_json(json.dumps(values).encode())
        == values
    )
    assert parse_json("[" * DEPTH + "]" * DEPTH)


@pytest.mark.parametrize(
    "text",
    [
        f"a = {DEEP}",
        f"a = {LONG}",
        ".".join("a" * 3000) + " = 1",
        "a = {",
        "a = [" * 60,
    ],
)
def test_bad_toml_is_refused_with_the_path(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_toml(text)
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"recipe\.toml: not valid TOML"):
        read_toml(tmp_path / "recipe.toml")


def test_a_setting_is_never_nested_too_deeply() -> None:
    with pytest.raises(ConfigurationError, match="a key of 3,000 parts"):
        parse_assignments([".".join("a" * 3000) + "=1"])
    assert parse_assignments([f"a={DEEP}"]) == {"a": DEEP}, (
        "what is no TOML is text, which no setting takes"
    )


def test_a_device_is_not_read_to_its_end() -> None:
    if Path("/dev/zero").exists():
        with pytest.raises(OSError, match="a device"):
            file_bytes(Path("/dev/zero"))


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """Make a named pipe that is empty for whoever opens it, so that nobody waits for ever."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.open("wb").close(), daemon=True)
    writer.start()
    yield path
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    writer.join()


@posix
def test_a_pipe_is_no_file_unless_it_is_open_already(
    pipe: Path, tmp_path: Path
) -> None:
    """Reading it would wait for somebody who writes into it."""
    for reader_of_bytes in (file_bytes, file_sha256):
        with pytest.raises(OSError, match="a pipe or a device, not a file"):
            reader_of_bytes(pipe)
    with pytest.raises(
        DataError,
        match=r"pipe: cannot be read \(it is a pipe or a device, not a file\)",
    ):
        read_lines(pipe)
    with pytest.raises(
        DataError, match=r"pipe: cannot be read .* make it with `regard keys add`"
    ):
        list_keys(pipe)
    assert not is_runtime_file(pipe)
    assert tensor_shapes(pipe) is None

    run = folder(tmp_path / "run")
    (run / "model.safetensors").unlink()
    os.link(pipe, run / "model.safetensors")

    assert weights_id(run) == ""
    with pytest.raises(
        ModelFolderError,
        match=r"model\.safetensors: is a pipe or a device; put a file there",
    ):
        load_folder(run)

    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as file:
        file.write(b"a line\n")

    assert read_lines(f"/dev/fd/{reader}") == ["a line"], "a shell makes this of <(...)"

    os.close(reader)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return the bytes with a flip, a cut or a block of noise, seven times of ten where the
    structure is.
    """
    data = bytearray(content)
    place = (
        chance.randrange(len(data))
        if chance.random() < 0.3
        else chance.randrange(min(600, len(data)))
    )
    match chance.randrange(4):
        case 0:
            del data[place:]
        case 1:
            data[place : place + 8] = chance.randbytes(8)
        case 2:
            data[-1 - place] ^= 1 << chance.randrange(8)
        case _:
            data[place] ^= 1 << chance.randrange(8)
    return bytes(data)


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth", "legacy.bin"])
def test_damaged_tensors_are_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    chance = random.Random(name)
    tensors = {"a.weight": torch.randn(3, 5), "b": torch.arange(4.0)}
    if name == "w.safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path, _use_new_zipfile_serialization=name == "w.pth")
    whole = path.read_bytes()

    assert read_tensors(path, DataError, "fetch it")["a.weight"].equal(
        tensors["a.weight"]
    )

    refused = 0
    for content in [b"", b"\0", *(damaged(whole, chance) for _ in range(120))]:
        path.write_bytes(content)
        try:
            read_tensors(path, DataError, "fetch it")
        except DataError as problem:
            (cause,) = problem.causes
            refused += (
                cause.startswith(str(path))
                and cause.endswith("fetch it")
                and "\n" not in cause
            )

    assert refused > 40


def test_what_is_no_tensor_is_refused(tmp_path: Path) -> None:
    for content in (
        [1, 2],
        {"a": 1},
        {"a": torch.zeros(2, device="meta")},
        {"a": torch.eye(2).to_sparse()},
    ):
        torch.save(content, tmp_path / "w.pth")
        with pytest.raises(DataError, match=r"w\.pth: .*; fetch it"):
            read_tensors(tmp_path / "w.pth", DataError, "fetch it")
    (tmp_path / "w.pth").write_bytes(pickle.dumps({"a": Path}))
    with pytest.raises(DataError, match="not a file of tensors alone"):
        read_tensors(tmp_path / "w.pth", DataError, "fetch it")


def test_a_damaged_journal_is_only_a_diary(tmp_path: Path) -> None:
    good = ['{"event": "train", "update": 1, "loss": 2.5}', '{"event": "end"}']
    bad = [
        "[]",
        "text",
        "\xff",
        LONG,
        DEEP,
        '{"event": 5}',
        '{"event": "train"}',
        '{"event": "valid", "update": "x"}',
    ]
    bad += [
        '{"event": "valid", "update": 1, "chrf": []}',
        f'{{"event": "train", "update": {"9" * 40}}}',
    ]
    path = tmp_path / "journal.jsonl"
    path.write_bytes("\n".join([good[0], *bad, good[1], "cut of"]).encode("latin-1"))

    assert [event["event"] for event in read(path)] == ["train", "end"]
    with pytest.warns(
        UserWarning, match=r"journal\.jsonl: line 2 and 9 more damaged and left out"
    ):
        Journal(path).truncate(5)
    assert path.read_text(encoding="utf-8").splitlines() == good

    Journal(path).truncate(0)
    assert path.read_text(encoding="utf-8").splitlines() == good[1:]

    path.write_text('{"event": "half of a surrogate pair \\ud800"}\n')
    Journal(path).truncate(0)
    assert len(read(path)) == 1
