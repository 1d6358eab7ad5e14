"""Damaged model folders: every command names the file, the damage and the remedy."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import Command, text_of, write_lines

from regard.common.checksums import sealed
from regard.model_folder import folder_id, save_alignment

LINE = "나는 빵을 먹고 있었다\n"


def test_a_missing_or_damaged_file_is_named_by_every_command(
    regard: Command, run: Path
) -> None:
    write_lines("a", ["a"])
    commands = (
        "translate run a --output out",
        "evaluate run --source a --reference a",
        "show run a",
    )
    (run / "joint.model").unlink()
    (run / "joint.model").mkdir()
    because = "run/joint.model: cannot be read (Is a directory)"
    done = regard.fails(commands[0], status=1, because=because)
    assert "or train the model again" in done.causes[0]

    (run / "config.json").unlink()
    because = "run/config.json: missing, so run is not a model folder"
    for command in commands:
        regard.fails(command, status=1, because=because)


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"layers": 2}, "run/model.safetensors: no weights called encoder.layers.1"),
        ({"feedforward": 96}, "have another shape: wanted (24, 96), got (24, 48)"),
        ({"layerz": 2}, "run/config.json: unknown setting 'model.encoder"),
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


HEAD = {"layer": "decoder.layers.0.cross_attention", "head": 0, "shifted": True}


@pytest.mark.parametrize("change", [{"layer": "decoder"}, {"head": 2}])
def test_an_alignment_that_the_model_lacks_is_reported_and_not_used(
    regard: Command, run: Path, change: dict[str, Any]
) -> None:
    plain = regard("translate run --alignments", stdin=LINE)
    content = sealed({**HEAD, **change}, id=folder_id(run))
    Path("run/alignment.json").write_text(json.dumps(content))
    done = regard("translate run --alignments", stdin=LINE)
    assert done.out == plain.out

    (warning,) = done.warnings
    because = "run/alignment.json: names a layer or head that this model lacks"
    assert warning.startswith(because)
    assert warning.endswith("alignments come from the middle layer")


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
    assert done.causes[0].endswith("seal it with `regard doctor run --seal`")

    recipe = run / "train.toml"
    recipe.write_text(recipe.read_text().replace("log_every = ", "log_every = 1"))
    because_of_recipe = "run/train.toml: damaged or changed (its values do not match"
    regard.fails("train --out run --resume", status=1, because=because_of_recipe)

    done = regard.fails("doctor run", status=1, because=[])
    assert done.lines[0].startswith(f"BAD {because}")
    assert done.lines[1:3] == whole[1:3]
    assert done.lines[5].startswith(f"BAD {because_of_recipe}")

    assert regard("doctor run --seal").lines == [*whole, unlisted]
    assert regard("translate run", stdin=LINE).warnings == []

    with recipe.open("a") as file:
        file.write("# a note at the end changes no value\n")
    assert regard("doctor run").lines == [*whole, unlisted]
