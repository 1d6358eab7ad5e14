"""Links in model folders: none leads out of them, in reading or in writing, but those of Hugging
Face's cache.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.small_models import SENTENCES, folder
from helpers.system_marks import posix

import regard
from regard.cli.interchange import export as export_command
from regard.cli.run_views import draw_run
from regard.common.checksums import fingerprints
from regard.common.errors import ModelFolderError, RegardError
from regard.common.reading import MAGIC, check_links, is_file_name
from regard.model_folder import (
    ALIGNMENT,
    CONFIG,
    WEIGHTS,
    check_folder,
    save_alignment,
    seal_folder,
)
from regard.pipeline import export_cache, load
from regard.serving.export_process import prepare
from regard.serving.pytorch_models import open_folder
from regard.training.recipe import Recipe, preset

pytestmark = posix
CHOICE: dict[str, Any] = {
    "layer": "decoder.layers.0.cross_attention",
    "head": 1,
    "shifted": False,
    "symmetry": None,
}
FILES = [CONFIG, WEIGHTS, ALIGNMENT, "joint.model"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = folder(tmp_path / "models" / "run")
    save_alignment(path, CHOICE)
    return path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_recipe(run: Path) -> None:
    """Write what a run is resumed by."""
    data = {"source": "a", "target": "b"}
    values = {**preset("transformer-tiny"), "data": data}
    Recipe.parse(values, "").write(run / "train.toml")


def read_nothing_and_write_nothing(
    run: Path, secret: str, outside: Path, action: Callable[[Path], object]
) -> str:
    """Call something with a model folder; return what it is refused with. What lies outside stays
    as it is, and unread.
    """
    before = contents(outside)
    problem = ""
    result = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = action(run)
    except RegardError as refused:
        problem = str(refused)

    assert contents(outside) == before

    for path, content in contents(run).items():
        assert outside in path.resolve().parents or secret.encode() not in content
    assert secret not in f"{problem}{result}"

    return problem


def move_out(path: Path, outside: Path) -> None:
    """Put a file or folder elsewhere and a link in its place."""
    outside.mkdir(exist_ok=True)
    path.rename(outside / path.name)
    path.symlink_to(outside / path.name)


SECRET = "known to nobody"
ACTIONS: dict[str, Callable[[Path], object]] = {
    "serve": lambda run: prepare(run, "int8"),
    "serve with PyTorch": lambda run: open_folder(run, "int8", 1, 10**7).about(),
    "export": lambda run: export_command(run, source=run / "sentences.txt"),
    "seal": seal_folder,
    "resume": lambda run: regard.train(out=run, resume=True, device="cpu"),
    "choose a head": lambda run: save_alignment(run, CHOICE),
    "draw": lambda run: draw_run([run], "curve"),
}
CHANGED = {
    "serve": {"README.md"},
    "serve with PyTorch": {"README.md"},
    "export": {"README.md", "exports", "exports/runtime-int8.regard.part"},
    "seal": {CONFIG, WEIGHTS, ALIGNMENT},
    "resume": {CONFIG, "journal.jsonl", "README.md", "data.json", "checkpoints"},
    "choose a head": {CONFIG, ALIGNMENT},
    "draw": {"journal.jsonl"},
}


@pytest.mark.parametrize("action", ACTIONS)
def test_no_link_leads_out_of_a_folder(
    tmp_path: Path, run: Path, action: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file and folder in turn is a link to one outside: neither is that read into anything,
    nor changed.
    """
    monkeypatch.setenv(export_cache.SWITCH, "on")
    write_recipe(run)
    for name in ("README.md", "journal.jsonl", "data.json", "sentences.txt"):
        (run / name).write_text("\n".join(SENTENCES), encoding="utf-8")
    for name in ("checkpoints/update-1", "exports/ctranslate2-int8"):
        (run / name).mkdir(parents=True)
    for ending in ("", ".part", ".partial"):
        (run / "exports" / f"runtime-int8.regard{ending}").write_bytes(MAGIC)
    names = {path.relative_to(run) for path in run.rglob("*")} - {Path("sentences.txt")}
    refused = set()

    for number, name in enumerate(sorted(names)):
        copy = tmp_path / f"copy-{number}"
        outside = tmp_path / f"outside-{number}"
        shutil.copytree(run, copy)
        move_out(copy / name, outside)
        (outside / "more").touch()
        for file, content in contents(outside).items():
            file.write_bytes(content + SECRET.encode())
        problem = read_nothing_and_write_nothing(copy, SECRET, outside, ACTIONS[action])
        if f"{copy / name}: a link that leads out of the folder" in problem:
            refused.add(str(name))

    assert refused >= CHANGED[action]
    for path in cache.glob("model-*"):
        assert SECRET.encode() not in path.read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_a_link_elsewhere_is_refused(
    run: Path, tmp_path: Path, name: str
) -> None:
    """Even if it is the very file: whoever made the folder could have named any other."""
    move_out(run / name, tmp_path / "outside")
    problem = rf"{name}: a link that leads out of the folder, to .*; nothing outside"
    for read in (load, check_folder, seal_folder, fingerprints):
        with pytest.raises(ModelFolderError, match=problem):
            read(run)


def test_nothing_of_the_target_is_said(run: Path) -> None:
    for target in ("/etc/passwd", "/dev/zero", "../../other"):
        (run / CONFIG).unlink()
        (run / CONFIG).symlink_to(target)
        with pytest.raises(ModelFolderError) as refused:
            load(run)
        (cause,) = refused.value.causes
        assert cause.startswith(f"{run / CONFIG}: a link that leads out of the folder")


def test_links_within_the_folder_and_to_the_folder_are_followed(
    run: Path, tmp_path: Path
) -> None:
    expected = load(run).translate(SENTENCES[:1])[0].text
    (run / WEIGHTS).rename(run / "w")
    (run / WEIGHTS).symlink_to("w")
    (tmp_path / "link").symlink_to(run)
    os.symlink(tmp_path / "models", tmp_path / "all")
    for path in (run, tmp_path / "link", tmp_path / "all" / "run"):
        assert load(path).translate(SENTENCES[:1])[0].text == expected


def test_a_snapshot_in_the_cache_of_hugging_face_is_read(
    run: Path, tmp_path: Path
) -> None:
    """Its files are links to blobs, which lie beside the snapshots of the same model; other links
    are refused.
    """
    repository = tmp_path / "hub" / "models--me--run"
    snapshot = repository / "snapshots" / "0a1b"
    blobs = repository / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted(run.iterdir())):
        shutil.copy(path, blobs / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")

    translated = [
        load(path).translate(SENTENCES[:1])[0].text for path in (snapshot, run)
    ]
    assert translated[0] == translated[1]

    (snapshot / WEIGHTS).unlink()
    (snapshot / WEIGHTS).symlink_to(run / WEIGHTS)

    with pytest.raises(ModelFolderError, match="leads out of the folder"):
        load(snapshot)


def test_folders_are_looked_through_and_all_links_named(
    run: Path, tmp_path: Path
) -> None:
    (run / "shards" / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (run / "shards" / name).symlink_to(tmp_path)
    (run / "shards" / "inner").symlink_to(run / "shards" / "deep")
    (run / "checkpoints").symlink_to(tmp_path / "nowhere")

    with pytest.raises(ModelFolderError) as refused:
        check_links(run, "shards", "checkpoints", "missing")

    names = {cause.split(": a link")[0] for cause in refused.value.causes}
    assert names == {
        f"{run}/{name}" for name in ("shards/a", "shards/deep/b", "checkpoints")
    }


@pytest.mark.parametrize("name", ["journal.jsonl", "README.md", "checkpoints"])
def test_training_writes_through_no_link(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    out = tmp_path / "out"
    out.mkdir()
    (out / name).symlink_to(victim)
    with pytest.raises(ModelFolderError, match=f"{name}: a link that leads out"):
        regard.train(out=out, source="a", target="b", device="cpu")
    assert not victim.exists()


def test_digests_of_files_elsewhere_are_refused(run: Path) -> None:
    """The manifest names files, which `regard doctor` hashes."""
    values = json.loads((run / CONFIG).read_text(encoding="utf-8"))
    files = values["seal"]["files"]
    for name in ("../../outside", "/etc/passwd", "..", "", "a\\b", "C:a"):
        assert not is_file_name(name)
        values["seal"]["files"] = {**files, name: "0" * 64}
        (run / CONFIG).write_text(json.dumps(values), encoding="utf-8")
        for read in (load, check_folder, seal_folder):
            with pytest.raises(
                RegardError, match="wanted names of files in the folder"
            ):
                read(run)
