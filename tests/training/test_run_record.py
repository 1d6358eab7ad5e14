"""The record of a run is what its folder tells, and empty where the folder tells nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from regard.data.corpus_facts import CorpusFacts
from regard.data.provenance import write_corpora
from regard.model_folder import WEIGHTS
from regard.training import model_card
from regard.training.journal import Journal
from regard.training.recipe import Recipe, preset
from regard.training.run_record import RunRecord

FACTS = CorpusFacts(7, "0" * 64, "1" * 64)


def test_a_resumed_run_has_all_its_commands_and_its_last_scores(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"files": {}}', encoding="utf-8")
    corpora = {"train": FACTS, "mix1": FACTS, "valid": FACTS}
    write_corpora(tmp_path, corpora, ["train: 7 pairs"])
    journal = Journal(tmp_path / "journal.jsonl")
    scores = [{"name": "chrF", "value": 9.0, "low": 8.0, "high": 10.0}]
    for command in ("regard train --out a", "regard train --resume"):
        journal.write("machine", command=command)
    journal.write("machine", command="regard train --resume")
    journal.write("valid", update=5, best=True, chrf=9.0, bleu=1.0, loss=1.0)
    journal.write("test", update=5, pairs=3, beam=5, scores=scores)

    weights = torch.zeros(1)
    save_file({"a": weights}, tmp_path / WEIGHTS, {"update": "5"})
    record = RunRecord.read(tmp_path)
    assert record.commands == ("regard train --out a", "regard train --resume")
    assert (record.pairs("train"), record.pairs("valid")) == (14, 7)
    assert record.report == ("train: 7 pairs",)
    assert not record.test_is_outdated

    journal.write("valid", update=9, best=True, chrf=11.0, bleu=1.0, loss=1.0)
    journal.write("valid", update=12, best=False, chrf=10.0, bleu=1.0, loss=1.0)
    save_file({"a": weights}, tmp_path / WEIGHTS, {"update": "9"})
    record = RunRecord.read(tmp_path)
    assert record.best["update"] == 9
    assert record.test_is_outdated

    data = {"source": "a.ko", "target": "a.en"}
    recipe = Recipe.parse({**preset("transformer-tiny"), "data": data}, "test")
    model_card.write(tmp_path, recipe)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "Commands: `regard train --out a`, then `regard train --resume`\n" in card
    assert "Earlier test, of the weights at update 5, on 3 pairs" in card


@pytest.mark.parametrize("content", ["", "[]", '{"files": 3}', '{"files": {"a": []}}'])
def test_a_damaged_record_is_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / "data.json").write_text(content, encoding="utf-8")
    (tmp_path / "journal.jsonl").write_text("{", encoding="utf-8")
    write_corpora(tmp_path, {"train": FACTS}, [])
    record = RunRecord.read(tmp_path)
    assert (record.recipe, record.files, record.best) == (None, {}, {})
    assert record.pairs("train") == 0
