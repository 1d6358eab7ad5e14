"""regard export --to huggingface and regard import: a round trip, and fine-tuning of imported
models.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from command import TRANSFORMER, Command, sets, text_of
from safetensors.torch import load_file

from regard.cli import main
from regard.common.errors import ExportError
from regard.interchange import huggingface
from regard.interchange import marian as marian_format
from regard.model_folder import load_folder

pytest.importorskip("transformers", reason="regard[hf] is not installed")
import transformers

from tests.interchange.marian_folders import marian_folder

UPDATE = "training.updates=1 training.validate_with=1 training.precision=float32"


@pytest.fixture(scope="module")
def run(corpus: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a small Marian model for one update."""
    path = tmp_path_factory.mktemp("marian") / "run"
    options = [*corpus, "--preset", "marian", *sets(TRANSFORMER, UPDATE)]
    with pytest.raises(SystemExit):
        main(["train", *options, "--out", str(path), "--threads", "1", "--quiet"])
    return path


def test_an_imported_model_is_fine_tuned_and_exported_again(
    regard: Command, corpus: list[str]
) -> None:
    marian_folder(Path("there"))
    Path("there/SHA256SUMS").write_text(f"{'0' * 64}  source.spm\n")
    regard.fails("import huggingface there back", status=1, because="checksum")
    os.remove("there/SHA256SUMS")
    done = regard("import huggingface there back")
    assert "a Marian model with" in done.err
    assert "no checksums came with these files" in done.err
    digest = hashlib.sha256(Path("there/source.spm").read_bytes()).hexdigest()
    assert f"\n  {digest}  source.spm\n" in done.err
    assert load_folder("back").settings.tokenizer.numbering == "marian"

    tuning = [*sets(UPDATE), "--out", "on", "--threads", "1"]
    regard("train", "--from", "back", *corpus, *tuning)
    done = regard("export on --to huggingface")
    equal = "different: 0 by tokenisation, 0 by greedy search; within the limits for float32"
    assert equal in done.err

    again = Path("on/exports/huggingface")
    assert (again / "SHA256SUMS").is_file()
    for name in ("source.spm", "target.spm"):
        assert (again / name).read_bytes() == Path("there", name).read_bytes()
    vocabulary = json.loads(text_of("there/vocab.json"))
    assert json.loads(text_of(again / "vocab.json")) == vocabulary

    before = load_file("there/model.safetensors")
    after = load_file(again / "model.safetensors")
    assert before.keys() == after.keys()
    assert not all(tensor.equal(after[name]) for name, tensor in before.items())
    bias = after["final_logits_bias"].abs().max()
    assert bias < 100, "the bias that suppresses our padding token is not exported"


def test_an_export_that_computes_differently_is_removed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = marian_format.to_marian

    def spoilt(*arguments: Any) -> object:
        tensors = convert(*arguments)
        return {**tensors, "final_logits_bias": tensors["final_logits_bias"] + 1e-3}

    monkeypatch.setattr(marian_format, "to_marian", spoilt)
    because = "the export does not behave as the model does"
    with pytest.raises(ExportError, match=because):
        huggingface.export(run, tmp_path / "there")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named(
    regard: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    command = f"export {run} there --to huggingface"
    regard.fails(command, status=1, because="pip install 'regard[hf]'")


@pytest.mark.parametrize("late", [False, True])
def test_an_unusable_torchvision_is_explained(
    regard: Command, run: Path, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unusable(ModuleType):
        """Stand-in that breaks when it is imported, or when its classes are, as both have done."""

        def __getattr__(self, name: str) -> object:
            if late and name == "logging":
                return transformers.logging
            raise RuntimeError("operator torchvision::nms does not exist")

    module = Unusable("transformers")
    monkeypatch.setitem(sys.modules, "transformers", module)
    if not late:
        monkeypatch.setattr("importlib.import_module", lambda _: module.anything)
    command = f"export {run} new --to huggingface"
    done = regard.fails(command, status=1, because="cannot be imported (operator")
    assert "install the torchvision that was built for this torch" in done.causes[0]
