"""Damaged model folders: every command names the file, the damage and the remedy."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import Command, text_of, write_lines

from regard.common.checksums import sealed
from regard.model_folder import folder_id, save_alignment

LINE = "나는 빵을 먹고 있었다\n"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: list[tuple[str, Callable[[Path], None], str]] = [
    ("config.json", Path.unlink, "missing, so run is not a model folder"),
    ("config.json", truncate, "damaged, not JSON"),
    ("joint.model", truncate, "damaged or changed (it does not match"),
    ("joint.model", replace_by_folder, "cannot be read (Is a directory)"),
    ("model.safetensors", Path.unlink, "missing"),
    ("model.safetensors", truncate, "damaged"),
]


@pytest.mark.parametrize(("name", "spoil", "because"), DAMAGE)
def test_a_missing_or_damaged_file_is_named_by_every_command(
    regard: Command, run: Path, name: str, spoil: Callable[[Path], None], because: str
) -> None:
    spoil(run / name)
    because = f"run/{name}: {because}"
    done = regard.fails(
        "translate run --output out", stdin="a\n", status=1, because=because
    )
    assert "or train the model again" in done.causes[0]

    if spoil is Path.unlink:
        write_lines("a", ["a"])
        regard.fails("evaluate run --source a --reference a", status=1, because=because)
        regard.fails("show run a", status=1, because=because)


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("no", "no: no such folder; give"),
        ("folder", "folder/config.json: missing, so folder is not a model folder"),
        ("file", "file: a file, and no model; give"),
    ],
)
def test_folders_without_a_model_are_refused(
    regard: Command, name: str, because: str
) -> None:
    Path("folder").mkdir()
    Path("file").touch()
    regard.fails(f"translate {name}", stdin="a\n", status=1, because=because)
    regard.fails(f"show {name} a", status=1, because=because)


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"layers": 2}, "run/model.safetensors: no weights called encoder.layers.1"),
        ({"feedforward": 96}, "have another shape: wanted (24, 96), got (24, 48)"),
        ({"layerz": 2}, "run/config.json: unknown setting 'model.encoder"),
        (
            {"layers": "two"},
            "run/config.json: model.encoder.layers: input should be a valid int",
        ),
    ],
)
def test_a_configuration_of_another_model_is_refused(
    regard: Command, run: Path, change: dict[str, Any], because: str
) -> None:
    values = json.loads(text_of("run/config.json"))
    values["model"]["encoder"] |= change
    Path("run/config.json").write_text(json.dumps(sealed(values)))
    done = regard.ended("translate run", stdin="a\n")
    assert done.status in (1, 2)
    assert because in done.causes[0]
    assert done.out == ""


def test_weights_of_another_model_are_refused(
    regard: Command, run: Path, other: Path
) -> None:
    shutil.copy(other / "model.safetensors", run)
    because = (
        "run/model.safetensors: the weights are of another model than config.json; copy"
    )
    regard.fails("translate run", stdin="a\n", status=1, because=because)


HEAD = {"layer": "decoder.layers.0.cross_attention", "head": 0, "shifted": True}
LACKING = "run/alignment.json: names a layer or head that this model lacks"


@pytest.mark.parametrize(
    ("content", "because"),
    [
        ("{", "run/alignment.json: damaged ("),
        ({**HEAD, "layer": "decoder"}, LACKING),
        ({**HEAD, "head": 2}, LACKING),
    ],
)
def test_a_damaged_alignment_is_reported_and_not_used(
    regard: Command, run: Path, content: str | dict[str, Any], because: str
) -> None:
    plain = regard("translate run --alignments", stdin=LINE)
    if isinstance(content, dict):
        content = json.dumps(sealed(content, id=folder_id(run)))
    Path("run/alignment.json").write_text(content)
    done = regard("translate run --alignments", stdin=LINE)
    assert done.out == plain.out

    (warning,) = done.warnings
    assert warning.startswith(because)
    assert warning.endswith("alignments come from the last layer")


def test_a_folder_without_training_files_translates_and_aligns_by_the_chosen_head(
    regard: Command, run: Path, data: Path
) -> None:
    whole = regard(f"translate run {data}/test.ko")
    outputs = set()
    for head in (0, 1):
        save_alignment(run, {**HEAD, "head": head})
        done = regard(f"translate run {data}/test.ko --alignments")
        assert done.err == whole.err, "nothing on alignments"
        outputs.add(done.out)
    assert len(outputs) == 2

    shutil.rmtree("run/checkpoints")
    for name in ("journal.jsonl", "train.toml", "README.md"):
        os.remove(f"run/{name}")

    run.rename("모델 folder")
    assert regard("translate", "모델 folder", data / "test.ko").out == whole.out


def test_doctor_checks_a_folder_aloud_and_seals_it(regard: Command, run: Path) -> None:
    save_alignment(run, HEAD)
    names = "config.json joint.model model.safetensors alignment.json languages.json train.toml"
    whole = [f"ok  run/{name}" for name in names.split()]
    assert regard("doctor run").lines == whole

    Path("run/other.model").write_bytes(b"of something else")
    unlisted = "ok  run/other.model: not listed in config.json, so nothing reads it"
    assert regard("doctor run").lines == [*whole, unlisted]

    values = json.loads(text_of("run/config.json"))
    values["search"]["beam"] = 2
    Path("run/config.json").write_text(json.dumps(values))
    because = "run/config.json: damaged or changed (its content does not match its SHA-256); copy"
    done = regard.fails("translate run", stdin="a\n", status=1, because=because)
    advice = "if the change was on purpose, seal it with `regard doctor run --seal`"
    assert done.causes[0].endswith(advice)

    done = regard.fails("doctor run", status=1, because=[])
    assert done.lines[0].startswith(f"BAD {because}")
    assert done.lines[1:3] == ["ok  run/joint.model", "ok  run/model.safetensors"]

    regard("doctor run --seal")
    assert regard("translate run", stdin=LINE).warnings == []

    truncate(run / "model.safetensors")
    because = "run/model.safetensors: damaged ("
    regard.fails("doctor run --seal", status=1, because=because)
    regard.fails("doctor --seal", because="--seal: which folder is to be sealed?")


@pytest.mark.parametrize("name", ["joint.model", "model.safetensors"])
def test_a_flipped_bit_is_refused_when_training_begins_with_it(
    regard: Command, run: Path, corpus: list[str], name: str
) -> None:
    content = bytearray((run / name).read_bytes())
    content[-9] ^= 4
    (run / name).write_bytes(content)
    because = f"run/{name}: damaged or changed ("
    regard.fails(
        "train", *corpus, "--from", run, "--out", "new", status=1, because=because
    )
    if name == "joint.model":
        regard.fails("train --out run --resume", status=1, because=because)
