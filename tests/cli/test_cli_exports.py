"""Exports in the cache: from the second call on a model folder translates without PyTorch, with the
same output.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from command import Command, CommandResult, text_of, write_lines
from helpers.small_models import SENTENCES, folder

from regard.common.errors import UsageError
from regard.interchange.runtime import keep_export
from regard.model_folder import load_folder, save_alignment
from regard.pipeline import export_cache, load_translator
from regard.pipeline.export_cache import export_name, find_export, write_export
from regard.runtime import native, private_cache
from regard.runtime.private_cache import lasting_folders

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

LINES = [
    *SENTENCES,
    "",
    "12 !",
    "مرحبا بالعالم",
    "I go. You go. We go home.",
    "집" * 50,
    "나는 {name} 집에 <b>간다</b> %s",
    "OPEN FILE",
]
LAYER = {
    "layer": "decoder.layers.0.cross_attention",
    "head": 1,
    "shifted": True,
    "symmetry": "union",
}
EXPORTED = [
    "--nbest 2 --alignments --length-penalty 0.2",
    "--beam 1 --threads 1 --max-length 3 --format jsonl",
    "--prefix 'I go' --seed 3 --quiet --device cpu",
    "--prefix \x07",
    "--no-repeat-ngram 2 --max-whole 4 --chunk 2 --output OUT",
    "--max-line 9",
    "--nbest 9",
    "--resume",
    "--input html --split on",
    "--input jsonl",
    "--precision int8 --format jsonl",
    "--term home --forbid go",
    "--sample --top-p 0.9 --nbest 2",
]
"""Options of calls that an export answers."""
NOT_EXPORTED = [
    "--groups 3",
    "--mbr",
    "--stream",
    "--coverage-penalty 0.1",
    "--precision int8 --alignments",
    "--precision int8 --input html",
]
"""Options of calls that PyTorch answers."""
REFUSED = ["--max-ratio -1", "--device tpu"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Switch exports on, with a cache folder of this test's own."""
    native.kernels()  # from the usual cache
    monkeypatch.setenv(export_cache.SWITCH, "on")
    monkeypatch.setattr(export_cache, "_GPUS", ())
    monkeypatch.setenv(private_cache.FOLDER, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model with languages and a chosen head."""
    path = folder(
        tmp_path_factory.mktemp("exports") / "run", end=0.5, languages=("kor", "eng")
    )
    save_alignment(path, LAYER)
    return path


def keep(path: Path, precision: Any = "float32") -> str:
    """Make the export of a folder; return its name."""
    name = export_name(path, precision)
    keep_export(path, name, load_folder(path), precision)
    return name


def without_times(done: CommandResult) -> CommandResult:
    """Remove what depends on the clock from a result."""
    return CommandResult(
        done.status, done.out, re.sub(r"[^\n]*(sentences/s|s left)[^\n]*", "", done.err)
    )


@pytest.fixture(scope="module")
def exports(model: Path) -> Path:
    """Make the exports that the calls below find; return the folder of the cache."""
    path = model.with_name("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(private_cache.FOLDER, str(path))
        for precision in ("float32", "int8"):
            keep(model, precision)
    return path


@pytest.mark.parametrize("options", [*EXPORTED, *REFUSED])
def test_an_export_answers_as_its_folder_does(
    options: str,
    model: Path,
    exports: Path,
    regard: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_lines("lines.txt", LINES)

    def run() -> tuple[CommandResult, str]:
        done = regard.ended(f"translate {model} lines.txt {options}")
        output = text_of("OUT") if Path("OUT").exists() else ""
        Path("OUT").unlink(missing_ok=True)
        return without_times(done), output

    monkeypatch.setenv(export_cache.SWITCH, "off")
    expected = run()
    monkeypatch.setenv(export_cache.SWITCH, "on")
    monkeypatch.setenv(private_cache.FOLDER, str(exports))
    if options in EXPORTED:
        monkeypatch.setattr("regard.cli.translate_model._model_folders", None)
    assert run() == expected


@pytest.mark.parametrize("options", NOT_EXPORTED)
def test_the_rest_is_left_to_pytorch(
    options: str, model: Path, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines("lines.txt", ["I go home"])

    def open_folders(*_: object) -> None:
        raise UsageError("PyTorch")

    monkeypatch.setattr(export_cache, "find_export", None)
    monkeypatch.setattr("regard.cli.translate_model._model_folders", open_folders)
    regard.fails(f"translate {model} lines.txt {options}", because="PyTorch")


def test_an_export_is_of_the_files_as_they_are(
    model: Path, cache: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    shutil.copytree(model, path)
    name = keep(path)
    assert find_export(path, "int8")[1] is None

    content = (cache / name).read_bytes()
    (cache / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert find_export(path) == (name, None)
    keep(path)
    assert find_export(path)[1] is not None, "it is made again"

    other = folder(tmp_path / "other", end=0.1)
    (cache / export_name(other, "float32")).write_bytes((cache / name).read_bytes())
    assert find_export(other)[1] is None  # it has the name of another

    for file in ("model.safetensors", "config.json", "alignment.json", "joint.model"):
        content = (path / file).read_bytes()
        (path / file).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert find_export(path)[1] is None
        (path / file).write_bytes(content)
        assert find_export(path)[1] is not None

    (path / "alignment.json").unlink()
    name = keep(path)
    assert find_export(path) == (name, None)

    # Each time.
    with pytest.warns(UserWarning, match="missing, although a head was chosen"):
        load_translator(path)


def test_where_no_export_can_be_made_nothing_is_said(
    model: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    shutil.copytree(model, path)
    name = export_name(path, "float32")
    loaded = load_folder(path)
    for problem in (ValueError("an unknown tokenizer"), OSError(), MemoryError()):
        with monkeypatch.context() as patch:
            runtime_file = Mock(side_effect=problem)
            patch.setattr("regard.interchange.runtime.runtime_file", runtime_file)
            keep_export(path, name, loaded, "float32")

    # Changed since it was opened.
    (path / "languages.json").write_text("{}", encoding="utf-8")
    keep_export(path, name, loaded, "float32")
    assert not list(cache.glob("model-*"))


def test_the_cache_is_limited(
    model: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, letter in enumerate("bca"):
        write_export(f"model-{letter}.regard", bytes(100))
        os.utime(cache / f"model-{letter}.regard", ns=(number, 0))

    for name in ("model-d.regardkilled", "model-d.regardunfinished"):
        (cache / name).touch()

    os.utime(cache / "model-d.regardkilled", (0, 0))
    monkeypatch.setattr(export_cache, "LIMIT", 250)
    write_export("model-d.regard", bytes(100))
    kept = ["model-a.regard", "model-d.regard", "model-d.regardunfinished"]
    assert sorted(os.listdir(cache)) == kept

    write_export("model-e.regard", bytes(900))
    kept = [*kept[1:], "model-e.regard"]
    assert sorted(os.listdir(cache)) == kept, "what was used within the hour stays"

    monkeypatch.setattr(export_cache, "LARGEST", 1000)
    assert find_export(model) == ("", None)

    monkeypatch.undo()
    (tmp_path / "file").touch()
    monkeypatch.setenv(private_cache.FOLDER, str(tmp_path / "file"))
    assert not [*lasting_folders()]
    assert write_export("model-g.regard", b"") is None


def test_a_gpu_is_left_to_pytorch(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(model)
    monkeypatch.setattr(export_cache, "_GPUS", (os.devnull,))
    assert find_export(model, device="auto") == ("", None)
    assert find_export(model, device="cpu")[1] is not None
