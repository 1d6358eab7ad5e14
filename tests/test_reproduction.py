"""Runs that are trained again: equal bytes, what differs, and what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
import torch
from helpers.forgotten_plugins import forgotten_plugins
from safetensors.torch import load_file

import regard
from regard.common.errors import DataError, UsageError
from regard.common.plugins import import_named
from regard.learn.samples import korean_english
from regard.reproduction import Reproduction, Row
from regard.training.loss import Objective

pytestmark = pytest.mark.system  # each trains

SIZES = {"train": 60, "valid": 4, "test": 0, "recombination": 0, "length": 0}
SETTINGS = {
    "model.encoder.size": 8,
    "model.decoder.size": 8,
    "model.encoder.embedding": 8,
    "model.decoder.embedding": 8,
    "model.decoder.attention_size": 8,
    "training.updates": 3,
    "training.validate_every": 2,
}


def train(folder: Path, **arguments: Any) -> Path:
    """Train a run with files beside it."""
    folder.mkdir(exist_ok=True)
    korean_english(sizes=SIZES, short=1.0).write(folder, "ko", "en")
    regard.train(
        source=folder / "train.ko",
        target=folder / "train.en",
        preset="rnn-bahdanau",
        out=folder / "run",
        threads=1,
        **{"settings": SETTINGS, **arguments},
    )
    return folder / "run"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("trained"), test=4)


def change_machine(run: Path, **values: object) -> None:
    """Write other conditions into the journal."""
    path = run / "journal.jsonl"
    events = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for event in events:
        if event["event"] == "machine":
            event |= values
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))


def files_of(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_bytes_are_equal_and_the_run_is_untouched(
    trained: Path, tmp_path: Path
) -> None:
    before = files_of(trained)
    again = regard.reproduce(trained, out=tmp_path / "again")

    assert again.is_identical
    assert again.has_same_conditions
    assert files_of(trained) == before
    one, other = (
        load_file(path / "model.safetensors") for path in (trained, again.folder)
    )
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert all(row.is_equal for row in again.results)
    names = [row.name for row in again.results]
    assert {"validation loss", "validation chrf", "test BLEU", "test chrF"} <= {*names}
    lines = [*again.lines()]
    assert len(lines) == 2 + len(again.conditions) + len(again.results)
    assert lines[-1] == "reproduced: the weights have the same bytes"
    assert not any("differs" in line for line in lines)


def test_another_seed_or_version_is_named_in_the_table(
    trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    change_machine(run, torch="1.0", threads=2)
    again = regard.reproduce(run, threads=1)

    assert again.folder == tmp_path / "run-reproduced"
    assert not again.has_same_conditions
    differing = [row for row in again.conditions if not row.is_equal]
    assert differing == [
        Row("torch", "1.0", torch.__version__),
        Row("threads", "2", "1"),
    ]
    marked = [line.split()[0] for line in again.lines() if "differs" in line]
    assert marked == ["torch", "threads"]
    assert again.is_identical or again.verdict.endswith("(torch, threads)")


def test_other_weights_under_equal_conditions_fail_the_command(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.cli.reproduce import reproduce
    from regard.common.errors import TrainingError
    from regard.reproduction import Reproduction

    def differing(*_: object, **__: object) -> Reproduction:
        conditions = (Row("torch", "1", "1"),)
        return Reproduction(tmp_path, conditions, (Row("weights (SHA-256)", "a", "b"),))

    monkeypatch.setattr("regard.reproduction.reproduce", differing)
    with pytest.raises(TrainingError, match="under the same conditions"):
        reproduce(_command(trained))


def _command(run: Path) -> Any:
    from regard.requests.reproduce_request import ReproduceCommand

    return ReproduceCommand(run=run)


@pytest.mark.parametrize("change", ["changed", "absent"])
def test_data_that_changed_or_are_absent_are_named_with_their_hash(
    change: str, trained: Path, tmp_path: Path
) -> None:
    data = trained.parent / "train.en"
    content = data.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    try:
        if change == "changed":
            data.write_bytes(content + b"one more\n")
            now = hashlib.sha256(data.read_bytes()).hexdigest()
            message = f"train.target: {data} has changed: its SHA-256 was {digest[:12]}… and is {now[:12]}…"
        else:
            data.unlink()
            message = f"train.target: {data} is not there; put the file with the SHA-256 {digest[:12]}…"
        with pytest.raises(DataError) as refused:
            regard.reproduce(trained, out=tmp_path / "again")
    finally:
        data.write_bytes(content)
    (cause,) = refused.value.causes
    assert cause.startswith(message)
    assert not (tmp_path / "again").exists()


def test_a_run_that_has_not_ended_or_without_a_record_is_refused(
    trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    journal = run / "journal.jsonl"
    whole = journal.read_text("utf-8")
    for event in ("resume", "train"):
        journal.write_text(f'{whole}{{"event": "{event}", "update": 3, "time": 1}}\n')
        with pytest.raises(UsageError, match="the run has not ended"):
            regard.reproduce(run)
    journal.write_text(whole)
    (run / "data.json").unlink()
    with pytest.raises(DataError, match=r"data.json: missing or damaged"):
        regard.reproduce(run)
    (run / "train.toml").unlink()
    with pytest.raises(
        UsageError, match=r"has no train.toml, so it was not trained here"
    ):
        regard.reproduce(run)


def test_a_run_with_a_plugin_and_an_objective_names_both(tmp_path: Path) -> None:
    with forgotten_plugins():
        path = tmp_path / "mine.py"
        path.write_text(
            "import regard\n@regard.register_normaliser('mine')\n"
            "def mine(scores, keep):\n"
            "    return scores.masked_fill(~keep, -1e9).softmax(-1)\n",
            encoding="utf-8",
        )
        import_named([str(path)])
        objective = Objective(0.1)
        settings = {**SETTINGS, "model.decoder.normaliser": "mine"}
        run = train(tmp_path / "data", objective=objective, settings=settings)
        message = r"in Python: regard\.reproduce\(…, objective=…\)"
        with pytest.raises(UsageError, match=message):
            regard.reproduce(run)
        assert not (tmp_path / "data" / "run-reproduced").exists()
        again = regard.reproduce(run, objective=objective)

    rows = {row.name: row for row in again.conditions}
    digest = sha256(path.read_bytes()).hexdigest()[:12]
    assert rows["plug-ins"] == Row("plug-ins", *[f"mine==sha256:{digest}…"] * 2)
    assert rows["objective"].is_equal
    assert rows["objective"].now.startswith("regard.training.loss:Objective==")
    assert again.is_identical


def test_a_notebook_shows_a_table_that_marks_what_differs(tmp_path: Path) -> None:
    conditions = (Row("torch", "<1>", "2"), Row("python", "3", "3"))
    results = (Row("weights (SHA-256)", "0f", "0f"),)
    html = Reproduction(tmp_path, conditions, results)._repr_html_()
    rows = [[cell.text or "" for cell in row] for row in fromstring(html).iter("tr")]

    assert rows[1:] == [
        ["torch", "<1>", "2", "differs"],
        ["python", "3", "3", ""],
        ["weights (SHA-256)", "0f", "0f", ""],
    ]
    assert "reproduced: the weights have the same bytes" in html
