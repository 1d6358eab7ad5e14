"""Damage to a model folder is refused or changes nothing; a folder that is read while written is
never damaged.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_models import SENTENCES, folder

from regard.common.atomic import file_sha256
from regard.common.checksums import fingerprints, tensor_digest
from regard.common.errors import ModelFolderError, RegardError
from regard.common.reading import tensor_metadata
from regard.model_folder import (
    ALIGNMENT,
    CONFIG,
    WEIGHTS,
    check_folder,
    folder_id,
    load_folder,
    load_settings,
    load_tensors,
    named_weights,
    save_alignment,
    save_folder,
    save_tensors,
    save_weights,
    seal_folder,
)
from regard.pipeline import load

CHOICE: dict[str, Any] = {
    "layer": "decoder.layers.0.cross_attention",
    "head": 1,
    "shifted": False,
    "symmetry": None,
}
CASES = 40
VOCABULARY = "joint.model"
FILES = [CONFIG, VOCABULARY, WEIGHTS, ALIGNMENT]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Write a model folder with a chosen head."""
    path = folder(tmp_path / "run")
    save_alignment(path, CHOICE)
    return path


def output(path: Path) -> list[object]:
    """Return what a folder computes: texts, scores, alignments."""
    translations = load(path).translate(SENTENCES[:2], alignments=True, beam=1)
    return [
        (translation.text, translation.score, translation.alignments)
        for translation in translations
    ]


def flip(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


@pytest.mark.parametrize("cases", [3, pytest.param(CASES, marks=pytest.mark.slow)])
@pytest.mark.parametrize("damage", [flip, cut])
@pytest.mark.parametrize("name", FILES)
def test_damage_is_refused_or_reported_or_changes_nothing(
    run: Path, name: str, damage: Callable[[bytes, random.Random], bytes], cases: int
) -> None:
    content = (run / name).read_bytes()
    expected = output(run)
    chance = random.Random(20)
    noticed = 0

    for _ in range(cases):
        (run / name).write_bytes(damage(content, chance))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                actual = output(run)
                messages = [str(warning.message) for warning in warned]
            except RegardError as problem:
                messages = list(problem.causes)
        if messages:
            noticed += 1
            assert name in messages[0]
        else:
            assert actual == expected

    assert noticed > 0.9 * cases


def test_a_missing_file_is_named(run: Path) -> None:
    for name in (CONFIG, VOCABULARY, WEIGHTS):
        (run / name).rename(run / "aside")
        with pytest.raises(ModelFolderError, match=name):
            load(run)
        (run / "aside").rename(run / name)
    (run / ALIGNMENT).unlink()
    with pytest.warns(
        UserWarning, match=r"alignment\.json: missing, although a head was chosen"
    ):
        load(run)


def test_weights_that_training_has_not_written_yet_are_not_called_lost(
    run: Path,
) -> None:
    (run / WEIGHTS).unlink()
    with pytest.raises(ModelFolderError, match="missing; copy the folder again"):
        load(run)
    (run / "train.toml").touch()
    with pytest.raises(
        ModelFolderError,
        match=r"missing; if training was stopped, `regard train --out .* --resume` writes it",
    ):
        load(run)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, ALIGNMENT])
def test_a_file_of_another_model_of_the_same_shape_is_not_used(
    run: Path, tmp_path: Path, name: str
) -> None:
    other = folder(tmp_path / "other", end=-0.5)
    save_alignment(other, {**CHOICE, "head": 0})
    shutil.copy(other / name, run / name)
    if name == ALIGNMENT:
        with pytest.warns(UserWarning, match="chosen for another model"):
            load(run)
    else:
        with pytest.raises(
            ModelFolderError,
            match=r"the weights are of another model than config\.json",
        ):
            load(run)


def test_weights_without_a_digest_are_refused_and_foreign_ones_read(run: Path) -> None:
    from safetensors.torch import save_file

    tensors = load_tensors(run / WEIGHTS)
    save_file(tensors, run / WEIGHTS)

    with pytest.raises(
        ModelFolderError,
        match=r"model\.safetensors: not sealed .*`regard doctor .* --seal`",
    ):
        load_folder(run)
    assert load_tensors(run / WEIGHTS, foreign=True).keys() == tensors.keys()


def test_fingerprints_are_those_of_files_and_of_tensors_the_one_they_carry(
    run: Path,
) -> None:
    before = fingerprints(run)
    assert {CONFIG, VOCABULARY, WEIGHTS, ALIGNMENT} == before.keys()
    assert all(
        before[name] == file_sha256(run / name)
        for name in (CONFIG, VOCABULARY, ALIGNMENT)
    )
    assert (
        before[WEIGHTS]
        == tensor_metadata(run / WEIGHTS)["sha256"]
        != file_sha256(run / WEIGHTS)
    )

    (run / CONFIG).write_bytes((run / CONFIG).read_bytes() + b"\n")
    assert {
        name for name, digest in fingerprints(run).items() if digest != before[name]
    } == {CONFIG}


def test_a_change_on_purpose_is_sealed(run: Path) -> None:
    values = json.loads((run / CONFIG).read_text(encoding="utf-8"))
    values["search"]["beam"] = 2
    (run / CONFIG).write_text(json.dumps(values, indent=4), encoding="utf-8")

    with pytest.raises(
        ModelFolderError,
        match=rf"config\.json: damaged or changed .*`regard doctor {run} --seal`",
    ):
        load(run)
    assert "config.json" in check_folder(run)[CONFIG]

    seal_folder(run)
    assert not any(check_folder(run).values())
    assert load_settings(run).search.beam == 2

    tensors = load_tensors(run / WEIGHTS)
    save_tensors(
        run / WEIGHTS,
        {name: tensor * 1.01 for name, tensor in tensors.items()},
        {"update": "3"},
    )
    (run / ALIGNMENT).unlink()
    problems = check_folder(run)

    assert [name for name in problems if problems[name]] == [WEIGHTS, ALIGNMENT]

    seal_folder(run)
    assert not any(check_folder(run).values())
    assert ALIGNMENT not in check_folder(run)
    assert load(run).choice is None


@pytest.mark.parametrize("name", FILES)
def test_what_cannot_be_loaded_is_not_sealed(run: Path, name: str) -> None:
    (run / name).write_bytes((run / name).read_bytes()[:100])
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(ModelFolderError, match=name):
        seal_folder(run)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


@pytest.mark.system
def test_a_reader_never_takes_a_writer_for_damage(run: Path) -> None:
    model = load_folder(run).model
    ended = threading.Event()
    problems = []

    def write() -> None:
        for update in range(60):
            save_weights(run, named_weights(model), {"update": str(update)})
            save_alignment(run, {**CHOICE, "head": update % 2})
        ended.set()

    writer = threading.Thread(target=write)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer.start()
        while not ended.is_set():
            try:
                load(run)
            except (RegardError, UserWarning) as problem:
                problems.append(str(problem))

    writer.join()
    assert not problems


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


def die_after(renames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let so many renames happen, and kill at the next."""
    done = list[Any]()
    replace = os.replace

    def replace_or_die(*paths: Any) -> None:
        if len(done) == renames:
            raise Killed
        done.append(paths)
        replace(*paths)

    monkeypatch.setattr(os, "replace", replace_or_die)


@pytest.mark.parametrize("renames", range(4))
def test_a_kill_between_renames_leaves_no_damage(
    run: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """Weights and head are chosen anew, `config.json` not having named a head yet: four renames."""
    (run / ALIGNMENT).unlink()
    seal_folder(run)
    model = load_folder(run).model
    die_after(renames, monkeypatch)

    with pytest.raises(Killed):  # noqa: PT012 (the block is killed at any of its steps)
        save_alignment(run, CHOICE)
        save_weights(run, named_weights(model), {"update": "9"})
        save_weights(run, named_weights(model), {"update": "10"})

    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(run)

    assert not any(check_folder(run).values())


@pytest.mark.parametrize("renames", range(2))
def test_a_kill_while_a_folder_is_written_over_another_leaves_no_model_folder(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    loaded = load_folder(run)
    die_after(renames, monkeypatch)

    with pytest.raises(Killed):
        save_folder(run, loaded.settings, loaded.tokenizer, origin="other")

    monkeypatch.undo()
    with pytest.raises(
        ModelFolderError, match=r"config\.json: missing, so .* is not a model folder"
    ):
        load(run)
    assert folder_id(run) == ""


def test_hashing_leaves_the_storage_resizable() -> None:
    """Sharded training frees and resizes the storage of weights that have just been saved."""
    weight = torch.arange(6.0).reshape(2, 3)
    tensors = {
        "weight": weight,
        "turned": weight.T,
        "empty": torch.zeros(0, 4),
        "one": torch.tensor(1),
    }
    digest = tensor_digest(tensors, {})

    assert digest == tensor_digest(
        {name: tensor.clone() for name, tensor in tensors.items()}, {}
    )
    assert digest != tensor_digest({**tensors, "one": torch.tensor(2)}, {})

    weight.untyped_storage().resize_(0)
