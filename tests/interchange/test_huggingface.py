"""Marian models of Hugging Face: equal translations after import, equal files after export."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="regard[hf] is not installed")

import transformers
from marian_folders import LINES, marian_folder
from safetensors.torch import load_file, save_file

import regard
from regard.common.errors import ExportError, RegardError
from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.interchange import huggingface, marian
from regard.model_folder import CONFIG, ModelFolder, load_folder
from regard.models import Batch
from regard.search import NO_CONSTRAINTS, Hypothesis, SearchSettings, search

KINDS: dict[str, dict[str, Any]] = {
    "as OPUS-MT": {},
    "relu": {"activation_function": "relu"},
    "gelu, not scaled": {"activation_function": "gelu", "scale_embedding": False},
    "two vocabularies": {"separate": True},
}


FURTHER = ("relu", "gelu, not scaled")
"""Kinds of the slow tests; the commands import and export them by default too."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(kind, marks=pytest.mark.slow if kind in FURTHER else ())
        for kind in KINDS
    ],
)
def marian_path(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Folder with a Marian model of each kind."""
    return marian_folder(
        tmp_path_factory.mktemp("marian") / "model", **KINDS[request.param]
    )


@pytest.fixture(scope="module")
def run(marian_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run folder of the imported model."""
    path = tmp_path_factory.mktemp("imported") / "run"
    huggingface.import_model(marian_path, path)
    return path


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return marian_folder(tmp_path_factory.mktemp("opus") / "model")


def test_an_imported_model_translates_the_same(marian_path: Path, run: Path) -> None:
    imported = load_folder(run)
    parity = huggingface.compare(imported, marian_path, LINES[:-1], "lines")

    assert parity.difference < 1e-4
    assert parity.mismatches == {"tokenisation": 0, "greedy search": 0}

    settings = SearchSettings(
        beam=1,
        max_ratio=1e-6,
        max_extra=60,
    )
    best = {_search(imported, line, settings).ids for line in LINES}

    assert len(best) > 1, "the translations differ"


def test_tokenisation_and_detokenisation_are_the_same(
    marian_path: Path,
    run: Path,
) -> None:
    imported = load_folder(run)
    tokenizer = transformers.MarianTokenizer.from_pretrained(marian_path)
    # The last line holds special tokens, which Hugging Face reads as such in texts.
    *lines, special = LINES
    vocabularies = {
        "text": imported.tokenizer.source,
        "text_target": imported.tokenizer.target,
    }

    for side, vocabulary in vocabularies.items():
        rows = marian.rows(vocabulary)
        is_source = side == "text"
        # Of two vocabularies Hugging Face names the ids of a source by the target's.
        is_decoded = not is_source or not tokenizer.separate_vocabs
        for line in lines:
            reference = tokenizer(**{side: line}).input_ids
            ids = vocabulary.encode(line)

            assert [rows[i] for i in (*ids, EOS)] == reference
            assert vocabulary.encode_all([line, line]) == [ids, ids]

            if is_decoded and UNK not in ids and not line.startswith(">>"):
                text = tokenizer.decode(
                    reference,
                    skip_special_tokens=True,
                    use_source_tokenizer=is_source,
                )
                assert vocabulary.decode(ids) == text.strip()

    assert not {PAD, BOS, EOS} & {*imported.tokenizer.source.encode(special)}


def _config(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / CONFIG).read_text())
    for name in ("transformers_version", "init_std", "dtype"):
        values.pop(name, None)
    return values


def test_import_and_export_round_trip(
    marian_path: Path,
    run: Path,
    tmp_path: Path,
) -> None:
    back = tmp_path / "back"
    parity = huggingface.export(run, back, _write_lines(tmp_path / "lines"))

    assert (parity.sentences, parity.source) == (6, str(tmp_path / "lines"))

    for path in (*marian_path.glob("*.spm"), *marian_path.glob("*vocab.json")):
        assert (back / path.name).read_bytes() == path.read_bytes(), path.name
    first = load_file(marian_path / "model.safetensors")
    second = load_file(back / "model.safetensors")

    assert first.keys() == second.keys()

    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name

    assert _config(marian_path) == _config(back)

    reimported, _ = huggingface.import_model(back, tmp_path / "again")

    assert (tmp_path / "again" / CONFIG).read_bytes() == (run / CONFIG).read_bytes()
    assert reimported.tokenizer.fingerprint == load_folder(run).tokenizer.fingerprint


def test_greedy_search_of_hugging_face_on_an_export_is_ours(
    opus: Path,
    tmp_path: Path,
) -> None:
    imported, _ = huggingface.import_model(opus, tmp_path / "run")
    huggingface.export(
        tmp_path / "run",
        tmp_path / "back",
        _write_lines(tmp_path / "lines"),
    )
    reference, tokenizer = _load_reference(tmp_path / "back")
    generation = reference.generation_config

    assert generation.num_beams == 5
    assert generation.early_stopping is True
    assert generation.length_penalty == 1.0

    bad = [[tokenizer.pad_token_id], [tokenizer.unk_token_id]]

    assert sorted(generation.bad_words_ids) == sorted(bad)

    reference_ids = tokenizer(LINES[0], return_tensors="pt").input_ids
    generated = reference.generate(reference_ids, num_beams=1, max_length=40)
    settings = SearchSettings(
        beam=1,
        max_extra=39,
        max_ratio=1e-6,
    )
    best = _search(imported, LINES[0], settings)
    rows = marian.rows(imported.tokenizer.target)

    assert generated[0, 1:].tolist() == [rows[i] for i in (*best.ids, EOS)]


def test_pytorch_weights_are_imported(opus: Path, tmp_path: Path) -> None:
    old = _copy(opus, tmp_path / "old")
    tensors = load_file(opus / "model.safetensors")
    for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        tensors[f"{name}.weight"] = tensors["model.shared.weight"]
    torch.save(tensors, old / "pytorch_model.bin")
    (old / "model.safetensors").unlink()
    huggingface.import_model(old, tmp_path / "one")
    huggingface.import_model(opus, tmp_path / "other")

    one = tmp_path / "one" / "model.safetensors"
    other = tmp_path / "other" / "model.safetensors"

    assert one.read_bytes() == other.read_bytes()


def test_nothing_is_unpickled(opus: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "sprung",)

    old = _copy(opus, tmp_path / "old")
    (old / "model.safetensors").unlink()
    (old / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))

    with pytest.raises(ExportError, match="not a file of tensors alone"):
        huggingface.import_model(old, tmp_path / "run")

    torch.save({"model.shared.weight": Trap()}, old / "pytorch_model.bin")

    with pytest.raises(ExportError, match="not a file of tensors alone"):
        huggingface.import_model(old, tmp_path / "run")
    assert {path.name for path in tmp_path.iterdir()} == {"old"}


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({"model_type": "bart"}, ["model_type is 'bart'"]),
        (
            {"activation_function": "tanh", "tie_word_embeddings": False},
            ["'tanh'", "tie_word_embeddings is off"],
        ),
        (
            {"eos_token_id": 5, "pad_token_id": 5},
            ["pad_token_id is 5", "eos_token_id is 5"],
        ),
        (
            {"encoder_layers": None, "d_model": "32"},
            ["encoder_layers is None, wanted an integer", "d_model is '32'"],
        ),
        ({"encoder_layers": 3}, ["there are no weights called model.encoder.layers.2"]),
    ],
)
def test_other_models_are_refused(
    opus: Path,
    tmp_path: Path,
    change: dict[str, Any],
    messages: list[str],
) -> None:
    copy = _copy(opus, tmp_path / "other")
    config = json.loads((opus / CONFIG).read_text())
    (copy / CONFIG).write_text(json.dumps({**config, **change}))

    with pytest.raises(ExportError) as raised:
        huggingface.import_model(copy, tmp_path / "run")

    for message in messages:
        assert any(message in cause for cause in raised.value.causes), message

    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "run.partial").exists()


def test_weights_of_another_architecture_are_refused(
    opus: Path,
    tmp_path: Path,
) -> None:
    tensors = load_file(opus / "model.safetensors")
    vocabulary_size = len(tensors["model.shared.weight"])
    encoder = "model.encoder"
    for name, shape, message in (
        (
            f"{encoder}.layernorm_embedding.weight",
            (3,),
            "belong to no part of a Marian",
        ),
        (f"{encoder}.embed_positions.weight", (512, 32), "holds other positions"),
        ("lm_head.weight", (vocabulary_size, 32), "must be one matrix, and differ"),
        ("final_logits_bias", (1, vocabulary_size + 1), "rows, and the tokenizer"),
    ):
        copy = _copy(opus, tmp_path / "other")
        weights = {**tensors, name: torch.ones(shape)}
        save_file(weights, copy / "model.safetensors")

        with pytest.raises(ExportError, match=message):
            huggingface.import_model(copy, tmp_path / "run")
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["source.spm", "vocab.json", "model.safetensors"])
def test_an_incomplete_folder_is_refused(opus: Path, tmp_path: Path, name: str) -> None:
    copy = _copy(opus, tmp_path / "other")
    (copy / name).unlink()

    with pytest.raises(ExportError, match=name):
        huggingface.import_model(copy, tmp_path / "run")

    messages = {
        "source.spm": "source.spm: damaged, not a SentencePiece model",
        "vocab.json": "JSON",
        "model.safetensors": "model.safetensors",
    }
    (copy / name).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(RegardError, match=messages[name]):
        huggingface.import_model(copy, tmp_path / "run")

    assert not (tmp_path / "run").exists()


def _write_lines(path: Path) -> Path:
    path.write_text("".join(f"{line}\n" for line in LINES[:6]), encoding="utf-8")
    return path


@torch.inference_mode()
def _search(imported: ModelFolder, line: str, settings: SearchSettings) -> Hypothesis:
    """Return the best hypothesis of a line."""
    ids = [*imported.tokenizer.source.encode(line), EOS]
    source = imported.model.encode(Batch(torch.tensor([ids])))
    (hypotheses,) = search(imported.model, source, [len(ids)], settings)
    return hypotheses[0]


def _load_reference(marian_path: Path, **options: Any) -> tuple[Any, Any]:
    huggingface.import_transformers()
    model = transformers.MarianMTModel.from_pretrained(marian_path, **options).eval()
    return model, transformers.MarianTokenizer.from_pretrained(marian_path)


def _copy(folder: Path, to: Path) -> Path:
    to.mkdir(exist_ok=True)
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


@pytest.mark.filterwarnings("ignore:the translation repeats", "ignore:a sentence of")
def test_the_language_code_stays_in_front_of_every_segment(
    opus: Path,
    tmp_path: Path,
) -> None:
    imported, _ = huggingface.import_model(opus, tmp_path / "run")
    vocabulary = imported.tokenizer.source
    line = ">>eng<< 나는 집에 간다"
    (code,) = vocabulary.ids([">>eng<<"])

    assert vocabulary.language_codes == (">>eng<<",)
    assert vocabulary.encode(line)[0] == code

    (ids,) = vocabulary.sample_all([line], vocabulary.kind, 0.5, 3)

    assert ids[0] == code
    assert vocabulary.sample_all([line[8:]], vocabulary.kind, 0.5, 3) == [ids[1:]]

    translator = regard.load(tmp_path / "run")
    search = translator.settings.search.with_values(longest_source=12)
    translator.settings = translator.settings.with_values(search=search)
    long = ">>eng<< " + " ".join(["나는 집에 간다 ."] * 6)
    made = translator._segments(long, 0, NO_CONSTRAINTS, search, [])
    segments = [segment.read for segment in made]

    assert len(segments) > 2
    assert all(text.startswith(">>eng<< ") for text in segments)

    (translation,) = translator.translate([long], alignments=True)
    sources = {source for source, _ in translation.alignments or ()}

    assert sources <= set(range(len(long.split())))
    assert max(sources) > 12, "links of the last segment are at the end of the line"
