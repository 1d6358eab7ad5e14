"""Damaged model folders: every command names the file, the damage and the remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import Command

from regard.common.checksums import sealed
from regard.model_folder import folder_id, save_alignment

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
    ("joint.model", truncate, "damaged or changed (it does not match"),
    ("joint.model", fill_with_noise, "damaged or changed (it does not match"),
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


@pytest.mark.parametrize(
    ("name", "spoil", "because"), DAMAGE, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_missing_or_damaged_file_is_named(
    regard: Command, run: Path, name: str, spoil: Spoil, because: str
) -> None:
    spoil(run / name)
    done = regard.fails(
        "translate",
        run,
        "--output",
        "out.txt",
        stdin=b"a\n",
        status=1,
        because=f"run/{name}: {because}",
    )
    assert "or train the model again" in done.causes[0]


@pytest.mark.parametrize("name", ["config.json", "joint.model", "model.safetensors"])
def test_other_commands_report_the_same(regard: Command, run: Path, data: Path, name: str) -> None:
    delete(run / name)
    expected = regard.fails("translate", run, stdin=b"a\n", status=1, because=f"run/{name}: ")
    files = ["--source", data / "test.ko", "--reference", data / "test.en"]
    assert regard.fails("evaluate", run, *files, status=1, because="").causes == expected.causes
    assert (
        regard.fails("show", run, "나는 집에 간다", status=1, because="").causes == expected.causes
    )


@pytest.mark.parametrize("name", ["no", "folder", "file"])
def test_folders_without_a_model_are_refused(regard: Command, data: Path, name: str) -> None:
    Path("folder").mkdir()
    Path("file").touch()
    because = (
        "folder/config.json: missing, so folder is not a model folder"
        if name == "folder"
        else f"{name}: {'a file, and no model' if name == 'file' else 'no such folder'}; give"
    )
    regard.fails("translate", name, stdin=b"a\n", status=1, because=because)
    regard.fails("show", name, "a", status=1, because=because)
    regard.fails(
        "evaluate",
        name,
        "--source",
        data / "test.ko",
        "--reference",
        data / "test.en",
        status=1,
        because=because,
    )


@pytest.mark.parametrize(
    ("change", "because"),
    [
        (
            {"model": {"encoder": {"layers": 2}}},
            "run/model.safetensors: no weights called encoder.layers.1",
        ),
        (
            {"model": {"encoder": {"size": 48}, "decoder": {"size": 48}}},
            "have another shape: wanted (48,), got (24,)",
        ),
        ({"model": {"encoder": {"layerz": 2}}}, "run/config.json: unknown setting 'model.encoder"),
        (
            {"model": {"encoder": {"layers": "two"}}},
            "run/config.json: model.encoder.layers: input should be a valid integer, got 'two'",
        ),
        (
            {"tokenizer": {"joint": False}, "model": {"share": "target"}},
            "run/source.model: cannot be read",
        ),
    ],
)
def test_a_configuration_of_another_model_is_refused(
    regard: Command, run: Path, change: dict[str, Any], because: str
) -> None:
    values = json.loads((run / "config.json").read_text())
    _change(values, change)
    (run / "config.json").write_text(json.dumps(sealed(values)))
    done = regard.ended("translate", run, stdin=b"a\n")
    assert done.status in (1, 2)
    assert because in done.causes[0]
    assert done.out == ""


def test_weights_of_another_model_are_refused(regard: Command, run: Path, recurrent: Path) -> None:
    shutil.copy(recurrent / "model.safetensors", run)
    done = regard.ended("translate", run, stdin=b"a\n")
    assert (done.status, done.out) == (1, "")
    assert done.causes[0].startswith(
        "run/model.safetensors: the weights are of another model than config.json; copy"
    )


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
def test_a_damaged_alignment_is_reported_and_not_used(
    regard: Command, run: Path, content: str, because: str
) -> None:
    line = "나는 빵을 먹고 있었다\n".encode()
    plain = regard("translate", run, "--alignments", stdin=line)
    content = content.replace("LAYER", "decoder.layers.0.cross_attention")
    if content.startswith("{") and content.endswith("}"):
        content = json.dumps(sealed(json.loads(content), id=folder_id(run)))
    (run / "alignment.json").write_text(content)
    done = regard("translate", run, "--alignments", stdin=line)
    assert done.out == plain.out
    (warning,) = done.warnings
    assert warning.startswith(because)
    assert warning.endswith("alignments come from the last layer")


def test_a_good_alignment_is_used(regard: Command, run: Path, data: Path) -> None:
    outputs = set()
    plain = regard("translate", run, data / "test.ko")
    for head in (0, 1):
        save_alignment(
            run, {"layer": "decoder.layers.0.cross_attention", "head": head, "shifted": True}
        )
        done = regard("translate", run, data / "test.ko", "--alignments")
        assert done.err == plain.err, "nothing on alignments"
        outputs.add(done.out)
    assert len(outputs) == 2


def test_a_model_folder_translates_without_its_training_files(
    regard: Command, run: Path, data: Path
) -> None:
    whole = regard("translate", run, data / "test.ko").out
    for name in ("checkpoints", "journal.jsonl", "train.toml", "README.md"):
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    run.rename("모델 folder")
    assert regard("translate", "모델 folder", data / "test.ko").out == whole


def test_doctor_checks_a_folder_aloud_and_seals_it(regard: Command, run: Path, data: Path) -> None:
    pairs = ["--source", data / "test.ko", "--target", data / "test.en"]
    regard("align", run, *pairs, "--choose")
    whole = [
        "config.json",
        "joint.model",
        "model.safetensors",
        "alignment.json",
        "languages.json",
        "train.toml",
    ]
    assert regard("doctor", run).lines == [f"ok  run/{name}" for name in whole]
    (run / "other.model").write_bytes(b"of something else")
    assert regard("doctor", run).lines[6:] == [
        "ok  run/other.model: not listed in config.json, so nothing reads it"
    ]
    values = json.loads((run / "config.json").read_text())
    values["search"]["beam"] = 2
    (run / "config.json").write_text(json.dumps(values))
    because = "run/config.json: damaged or changed (its content does not match its SHA-256); copy the folder again"
    done = regard.fails("translate", run, stdin=b"a\n", status=1, because=because)
    assert done.causes[0].endswith(
        "if the change was on purpose, seal it with `regard doctor run --seal`"
    )
    done = regard.fails("doctor", run, status=1, because=[])
    assert done.lines[0].startswith(f"BAD {because}")
    assert done.lines[1:3] == ["ok  run/joint.model", "ok  run/model.safetensors"]
    regard("doctor", run, "--seal")
    assert regard("translate", run, stdin="나는 집에 간다\n".encode()).warnings == []


def test_doctor_does_not_seal_what_is_no_model(regard: Command, run: Path) -> None:
    truncate(run / "model.safetensors")
    regard.fails("doctor", run, "--seal", status=1, because="run/model.safetensors: damaged (")
    regard.fails("doctor", "no", status=1, because="no: no such folder")
    regard.fails("doctor", "--seal", status=2, because="--seal: which folder is to be sealed?")


def test_a_flipped_bit_is_refused_when_training_begins_with_it(
    regard: Command, run: Path, corpus: list[str]
) -> None:
    for name in ("joint.model", "model.safetensors"):
        content = bytearray((run / name).read_bytes())
        content[-9] ^= 4
        (run / name).write_bytes(content)
        because = f"run/{name}: damaged or changed ("
        regard.fails("train", *corpus, "--from", run, "--out", "tuned", status=1, because=because)
        if name == "joint.model":
            regard.fails("train", "--out", run, "--resume", status=1, because=because)
        content[-9] ^= 4
        (run / name).write_bytes(content)


def _change(values: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict):
            _change(values[key], value)
        else:
            values[key] = value
