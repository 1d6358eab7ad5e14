"""regard export --to huggingface and regard import: a round trip, and fine-tuning of imported
models.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from command import Command, sets
from safetensors.torch import load_file

from regard.common.errors import ExportError
from regard.interchange import huggingface
from regard.interchange import marian as marian_format
from regard.model_folder import load_folder
from regard.pipeline import FolderTranslator

transformers = pytest.importorskip("transformers", reason="regard[hf] is not installed")

UPDATES = ["training.updates=60", "training.validate_every=60"]


@pytest.fixture(scope="session")
def run(marian: Path) -> Path:
    return marian


def test_export_and_import_restore_the_model(regard: Command, run: Path, data: Path) -> None:
    done = regard("export", run, "there", "--to", "huggingface", "--threads", "1")
    assert "compared on 8 sentences of the sample: largest difference of logits" in done.err
    assert (
        "different: 0 by tokenisation, 0 by greedy search; within the limits for float32"
        in done.err
    )
    assert {path.name for path in Path("there").iterdir()} == {
        *("config.json", "generation_config.json", "model.safetensors", "SHA256SUMS"),
        *("source.spm", "target.spm", "tokenizer_config.json", "vocab.json"),
    }
    done = regard("import", "huggingface", "there", "back")
    assert "a Marian model with" in done.err
    assert (Path("back") / "joint.model").read_bytes() == (run / "joint.model").read_bytes()
    original = load_file(run / "model.safetensors")
    imported = load_file("back/model.safetensors")
    assert original.keys() == imported.keys()
    assert all(bool((tensor == imported[name]).all()) for name, tensor in original.items())
    lines = (data / "test.ko").read_text(encoding="utf-8").splitlines()
    Path("lines").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    expected = regard("translate", run, "lines", "--length-penalty", "0").lines
    folder = load_folder(run)
    translator = FolderTranslator(folder.model, folder.tokenizer, folder.settings)
    translations = translator.translate(lines, length_penalty=0.0)
    assert [translation.text for translation in translations] == expected
    # At the length limit an end is forced: Hugging Face counts it as certain, and may choose
    # another hypothesis.
    max_lengths = [len(folder.tokenizer.source.encode(line)) + 1 + 5 for line in lines]
    finished = [
        i
        for i, translation in enumerate(translations)
        if len(translation.tokens) + 3 < max_lengths[i]
    ]
    assert _translate(Path("there"), [lines[i] for i in finished]) == [
        expected[i] for i in finished
    ]
    assert len(finished) > 2


def test_an_imported_model_is_fine_tuned_and_exported_again(
    regard: Command, run: Path, corpus: list[str], tmp_path: Path
) -> None:
    regard("export", run, "there", "--to", "huggingface")
    _reorder_vocabulary(Path("there"))
    regard.fails(
        "import",
        "huggingface",
        "there",
        "back",
        status=1,
        because=["checksum", "missing", "checksum", "checksum"],
    )
    (Path("there") / "SHA256SUMS").unlink()
    done = regard("import", "huggingface", "there", "back")
    assert "no checksums came with these files" in done.err
    assert (
        f"\n  {hashlib.sha256(Path('there/source.spm').read_bytes()).hexdigest()}  source.spm\n"
        in done.err
    )
    settings = load_folder("back").settings
    assert settings.tokenizer.numbering == "marian"
    regard(
        "train",
        "--from",
        "back",
        *corpus,
        "--out",
        "on",
        "--threads",
        "1",
        *sets(["training.precision=float32", *UPDATES]),
    )
    assert (
        "나는" in regard("show", "on", "나는 집에 간다", "--out", "seen.svg").out
        or Path("seen.svg").is_file()
    )
    regard("export", "on", "again", "--to", "huggingface")
    for name in ("vocab.json", "source.spm", "target.spm"):
        assert (Path("again") / name).read_bytes() == (Path("there") / name).read_bytes()
    before = load_file("there/model.safetensors")
    after = load_file("again/model.safetensors")
    assert before.keys() == after.keys()
    assert any(bool((tensor != after[name]).any()) for name, tensor in before.items())
    assert after["final_logits_bias"].abs().max() < 100, (
        "the bias that suppresses our padding token is not exported"
    )


def test_other_models_than_marian_are_refused_with_all_reasons(
    regard: Command, transformer: Path, recurrent: Path
) -> None:
    because = [f"model.{side}.norm is 'pre'" for side in ("encoder", "decoder")]
    regard.fails("export", transformer, "there", "--to", "huggingface", status=1, because=because)
    because = [f"model.{side}.kind is 'recurrent'" for side in ("encoder", "decoder")]
    regard.fails("export", recurrent, "there", "--to", "huggingface", status=1, because=because)


def test_an_export_that_computes_differently_is_removed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = marian_format.to_marian

    def spoilt(*arguments: object) -> object:
        tensors = convert(*arguments)  # type: ignore[arg-type]
        return {**tensors, "final_logits_bias": tensors["final_logits_bias"] + 1e-3}

    monkeypatch.setattr(marian_format, "to_marian", spoilt)
    with pytest.raises(ExportError, match="the export does not behave as the model does"):
        huggingface.export(run, tmp_path / "there")
    assert list(tmp_path.iterdir()) == []


def test_existing_and_missing_files_are_refused(
    regard: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("there").mkdir()
    Path("there/file").write_text("mine")
    regard.fails(
        "export",
        run,
        "there",
        "--to",
        "huggingface",
        status=1,
        because="there is something already",
    )
    regard.fails(
        "import",
        "huggingface",
        "there",
        "back",
        status=1,
        because="there/config.json: cannot be read",
    )
    because = "a folder for Hugging Face has float32 weights"
    regard.fails(
        "export",
        run,
        "new",
        "--to",
        "huggingface",
        "--precision",
        "int8",
        status=2,
        because=because,
    )
    monkeypatch.setitem(sys.modules, "transformers", None)
    regard.fails(
        "export", run, "new", "--to", "huggingface", status=1, because="pip install 'regard[hf]'"
    )


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

    monkeypatch.setitem(sys.modules, "transformers", Unusable("transformers"))
    if not late:
        monkeypatch.setattr("importlib.import_module", lambda name: sys.modules[name].anything)
    done = regard.fails(
        "export",
        run,
        "new",
        "--to",
        "huggingface",
        status=1,
        because="cannot be imported (operator",
    )
    assert (
        "install the torchvision that was built for this torch, or uninstall torchvision"
        in done.causes[0]
    )


def _translate(folder: Path, lines: list[str]) -> list[str]:
    """Translate with Hugging Face, by the search settings in the folder."""
    huggingface.import_transformers()
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    outputs = []
    for line in lines:
        input_ids = tokenizer(line, return_tensors="pt").input_ids
        max_length = input_ids.shape[1] + 5  # SMALL's search.max_ratio and search.max_extra
        generated = model.generate(input_ids, length_penalty=0.0, max_length=max_length + 1)
        outputs.append(tokenizer.decode(generated[0], skip_special_tokens=True))
    return outputs


def _reorder_vocabulary(folder: Path) -> None:
    """Change the folder to the form of published models: reordered tokens, and targets that begin
    with padding.
    """
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    rest = [token for token, index in vocabulary.items() if index > 3]
    order = [vocabulary[token] for token in ("</s>", "<unk>", *reversed(rest))] + [
        vocabulary["<s>"]
    ]
    names = ["</s>", "<unk>", *reversed(rest), "<pad>"]
    (folder / "vocab.json").write_text(
        json.dumps({token: i for i, token in enumerate(names)}), encoding="utf-8"
    )
    tensors = load_file(folder / "model.safetensors")
    tensors["model.shared.weight"] = tensors["model.shared.weight"][order]
    tensors["final_logits_bias"] = tensors["final_logits_bias"][:, order]
    from safetensors.torch import save_file

    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {
        "vocab_size": len(names),
        "decoder_vocab_size": len(names),
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
    }
    config |= {"pad_token_id": len(names) - 1, "decoder_start_token_id": len(names) - 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "generation_config.json").unlink()
