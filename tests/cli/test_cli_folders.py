"""Damaged model folders: every command names the file, the damage and the remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import Command

Spoil = Callable[[Path], None]


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def fill_with_noise(path: Path) -> None:
    path.write_bytes(bytes(range(251)) * 9)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: list[tuple[str, Spoil, str]] = [
    ("config.json", delete, "missing, so run is not a model folder"),
    ("config.json", truncate, "damaged, not JSON"),
    ("config.json", fill_with_noise, "damaged, not JSON"),
    ("config.json", empty, "damaged, not JSON"),
    ("config.json", replace_by_folder, "missing, so run is not a model folder"),
    ("joint.model", delete, "cannot be read (No such file or directory)"),
    ("joint.model", truncate, "damaged, not a SentencePiece model"),
    ("joint.model", fill_with_noise, "damaged, not a SentencePiece model"),
    ("joint.model", empty, "damaged"),
    ("joint.model", replace_by_folder, "cannot be read (Is a directory)"),
    ("model.safetensors", delete, "missing"),
    ("model.safetensors", truncate, "damaged"),
    ("model.safetensors", fill_with_noise, "damaged"),
    ("model.safetensors", empty, "damaged"),
    ("model.safetensors", replace_by_folder, "missing"),
]


@pytest.fixture
def run(transformer: Path, regard: Command) -> Path:
    """Copy a model folder, to damage it."""
    shutil.copytree(transformer, "run")
    return Path("run")


@pytest.mark.parametrize(("name", "spoil", "because"), DAMAGE, ids=lambda value: getattr(value, "__name__", None))
def test_a_missing_or_damaged_file_is_named(regard: Command, run: Path, name: str, spoil: Spoil, because: str) -> None:
    spoil(run / name)
    done = regard.fails(
        "translate", run, "--output", "out.txt", stdin=b"a\n", status=1, because=f"run/{name}: {because}"
    )
    assert "or train the model again" in done.causes[0]


@pytest.mark.parametrize("name", ["config.json", "joint.model", "model.safetensors"])
def test_other_commands_report_the_same(regard: Command, run: Path, data: Path, name: str) -> None:
    delete(run / name)
    expected = regard.fails("translate", run, stdin=b"a\n", status=1, because=f"run/{name}: ")
    files = ["--source", data / "test.ko", "--reference", data / "test.en"]
    assert regard.fails("evaluate", run, *files, status=1, because="").causes == expected.causes
    assert regard.fails("show", run, "나는 집에 간다", status=1, because="").causes == expected.causes


@pytest.mark.parametrize("name", ["no", "folder", "file"])
def test_folders_without_a_model_are_refused(regard: Command, data: Path, name: str) -> None:
    Path("folder").mkdir()
    Path("file").touch()
    because = (
        "folder/config.json: missing, so folder is not a model folder"
        if name == "folder"
        else f"{name}: no such folder; give"
    )
    regard.fails("translate", name, stdin=b"a\n", status=1, because=because)
    regard.fails("show", name, "a", status=1, because=because)
    regard.fails(
        "evaluate", name, "--source", data / "test.ko", "--reference", data / "test.en", status=1, because=because
    )


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"model": {"encoder": {"layers": 2}}}, "run/model.safetensors: no weights called encoder.layers.1"),
        ({"model": {"encoder": {"size": 48}, "decoder": {"size": 48}}}, "have another shape: wanted (48,), got (24,)"),
        ({"model": {"encoder": {"layerz": 2}}}, "run/config.json: unknown setting 'model.encoder"),
        (
            {"model": {"encoder": {"layers": "two"}}},
            "run/config.json: model.encoder.layers: input should be a valid integer, got 'two'",
        ),
        ({"tokenizer": {"joint": False}, "model": {"share": "target"}}, "run/source.model: cannot be read"),
    ],
)
def test_a_configuration_of_another_model_is_refused(
    regard: Command, run: Path, change: dict[str, Any], because: str
) -> None:
    values = json.loads((run / "config.json").read_text())
    _change(values, change)
    (run / "config.json").write_text(json.dumps(values))
    done = regard.ended("translate", run, stdin=b"a\n")
    assert done.status in (1, 2)
    assert because in done.causes[0]
    assert done.out == ""


def test_weights_of_another_model_are_refused(regard: Command, run: Path, recurrent: Path) -> None:
    shutil.copy(recurrent / "model.safetensors", run)
    done = regard.ended("translate", run, stdin=b"a\n")
    assert (done.status, done.out) == (1, "")
    assert done.causes[-1].startswith("the weights are of another model than config.json; copy the folder again")


@pytest.mark.parametrize(
    ("content", "because"),
    [
        ("{", "run/alignment.json: damaged ("),
        ("[]", "run/alignment.json: damaged ("),
        (
            '{"layer": "decoder", "head": 0, "shifted": false}',
            "run/alignment.json: names a layer or head that this model lacks",
        ),
        (
            '{"layer": "LAYER", "head": 2, "shifted": false}',
            "run/alignment.json: names a layer or head that this model lacks",
        ),
        (
            '{"layer": "LAYER", "head": "one", "shifted": false}',
            "run/alignment.json: names a layer or head that this model lacks",
        ),
    ],
)
def test_a_damaged_alignment_is_reported_and_not_used(regard: Command, run: Path, content: str, because: str) -> None:
    line = "나는 빵을 먹고 있었다\n".encode()
    plain = regard("translate", run, "--alignments", stdin=line)
    (run / "alignment.json").write_text(content.replace("LAYER", "decoder.layers.0.cross_attention"))
    done = regard("translate", run, "--alignments", stdin=line)
    assert done.out == plain.out
    (warning,) = done.warnings
    assert warning.startswith(because)
    assert warning.endswith("alignments come from the last layer")


def test_a_good_alignment_is_used(regard: Command, run: Path, data: Path) -> None:
    outputs = set()
    for head in (0, 1):
        (run / "alignment.json").write_text(
            json.dumps({"layer": "decoder.layers.0.cross_attention", "head": head, "shifted": True})
        )
        done = regard("translate", run, data / "test.ko", "--alignments")
        assert done.err == ""
        outputs.add(done.out)
    assert len(outputs) == 2


def test_a_model_folder_translates_without_its_training_files(regard: Command, run: Path, data: Path) -> None:
    whole = regard("translate", run, data / "test.ko").out
    for name in ("checkpoints", "journal.jsonl", "train.toml", "README.md"):
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    run.rename("모델 folder")
    assert regard("translate", "모델 folder", data / "test.ko").out == whole


def _change(values: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict):
            _change(values[key], value)
        else:
            values[key] = value
