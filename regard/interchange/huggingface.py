"""Marian models of Hugging Face, in and out: folders that `MarianMTModel` and `MarianTokenizer` load."""

from __future__ import annotations

import importlib
import json
import pickle
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.atomic import write_bytes
from regard.data.batch import pad
from regard.data.marian_vocab import PieceTable
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import BOS, EOS, UNK, TableVocabulary, Vocabulary
from regard.errors import ExportError, MissingExtra
from regard.interchange import marian
from regard.interchange.probe_sentences import real_sentences
from regard.model_folder import (
    WEIGHTS,
    FolderSettings,
    ModelFolder,
    load_folder,
    load_tensors,
    load_weights,
    named_weights,
    save_folder,
    save_tensors,
)
from regard.models import Batch, build, count_parameters, huggingface_obstacles
from regard.search import SearchSettings, search

__all__ = ["Parity", "compared", "export", "import_model"]

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
CLOSE = 1e-4
"""How far logits may be apart."""
LONGEST = 60
"""Pieces of a translation that is compared."""
TOGETHER = 16
"""Sentences that are translated together."""


@dataclass(frozen=True)
class Parity:
    """How a folder of Hugging Face and a model of ours compare on real sentences."""

    sentences: int
    source: str
    difference: float
    """The largest difference of two logits."""
    cut: int
    """Sentences that the two tokenizers cut differently."""
    other: int
    """Sentences that greedy search translates otherwise."""

    def __str__(self) -> str:
        return (
            f"{self.sentences} sentences of {self.source}: logits differ by {self.difference:.2g} at most, {self.cut} "
            f"were cut into other pieces, {self.other} translated otherwise by greedy search"
        )


def export(folder: Path, out: Path, source: Path | None = None) -> Parity:
    """Write a model folder for Hugging Face, and compare the two on real sentences.

    Raises ExportError, with all reasons, where the model is no Marian model or does not do the same there; then nothing
    is left behind.
    """
    transformers()
    model = load_folder(folder)
    if causes := huggingface_obstacles(model.settings.model, model.settings.tokenizer.joint):
        raise ExportError(*causes)
    if out.exists() and any(out.iterdir()):
        raise ExportError(f"{out}: there is something already; choose a new folder, or remove this one")
    sentences, origin = real_sentences(folder, model.tokenizer.source, source)
    beside = _beside(out)
    try:
        write(model, beside)
        parity = compared(model, beside, sentences, origin)
        check(parity)
        _named(beside, out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return parity


def import_model(folder: Path, out: Path) -> ModelFolder:
    """Make a model folder of a Marian model. Nothing in it is unpickled but tensors.

    Raises ExportError, with all reasons, for what is no Marian model, and leaves nothing behind.
    """
    config = _table(folder / CONFIG)
    generation = _table(folder / GENERATION) if (folder / GENERATION).is_file() else {}
    settings = marian.model_settings(config)
    tokenizer = _tokenizer(folder)
    if causes := _other_numbers(config, tokenizer):
        raise ExportError(*causes)
    if out.exists() and any(out.iterdir()):
        raise ExportError(f"{out}: there is something already; choose a new folder, or remove this one")
    tensors = marian.from_marian(_tensors(folder), settings, tokenizer)
    model = build(settings, len(tokenizer.source), len(tokenizer.target), tokenizer.settings.joint).eval()
    load_weights(model, tensors, folder)
    search = marian.search_settings(generation, config)
    found = ModelFolder(FolderSettings(model=settings, tokenizer=tokenizer.settings, search=search), tokenizer, model)
    beside = _beside(out)
    try:
        save_folder(beside, found.settings, tokenizer)
        save_tensors(beside / WEIGHTS, named_weights(model))
        write_bytes(beside / "README.md", _card(folder, found).encode())
        _named(beside, out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return found


def write(model: ModelFolder, out: Path) -> None:
    """Write what `MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained` load."""
    settings, tokenizer = model.settings, model.tokenizer
    config = marian.config_of(settings.model, tokenizer, settings.search)
    for name, values in (
        (CONFIG, config),
        (GENERATION, marian.generation_of(tokenizer, settings.search)),
        (TOKENIZER, _tokenizer_config(tokenizer, config)),
    ):
        write_bytes(out / name, _json(values))
    write_bytes(out / "source.spm", tokenizer.source.model)
    write_bytes(out / "target.spm", tokenizer.target.model)
    write_bytes(out / "vocab.json", _listing(tokenizer.source))
    if not settings.tokenizer.joint:
        write_bytes(out / "target_vocab.json", _listing(tokenizer.target))
    tensors = marian.to_marian(named_weights(model.model), settings.model, tokenizer)
    save_tensors(out / WEIGHTS, tensors, {"format": "pt"})


def transformers() -> Any:
    """The package, imported late and made quiet. Raises MissingExtra where it is not installed."""
    try:
        package: Any = importlib.import_module("transformers")
    except ImportError:
        raise MissingExtra("transformers", "hf", "a comparison with Hugging Face") from None
    package.logging.set_verbosity_error()
    package.logging.disable_progress_bar()
    return package


@torch.inference_mode()
def compared(model: ModelFolder, there: Path, sentences: Sequence[str], origin: str) -> Parity:
    """Cut, translate and score the same sentences with both."""
    other, cutter = _loaded(there)
    tokenizer = model.tokenizer
    source, target = marian.rows(tokenizer.source), marian.rows(tokenizer.target)
    rows = [[*tokenizer.source.encode(text), EOS] for text in sentences]
    cut = sum(cutter(text).input_ids != [source[i] for i in ids] for text, ids in zip(sentences, rows, strict=True))
    difference, otherwise = 0.0, 0
    for some in (rows[start : start + TOGETHER] for start in range(0, len(rows), TOGETHER)):
        ids, keep = pad(some)
        numbers = torch.tensor(source)[ids]
        seen = torch.ones_like(ids) if keep is None else keep.long()
        ours = _greedy(model, Batch(ids, keep), [len(row) for row in some])
        written = other.generate(numbers, attention_mask=seen, num_beams=1, do_sample=False, max_length=LONGEST + 1)
        ends = [[target[i] for i in (*best, EOS)] for best in ours]
        otherwise += sum(row[1 : len(end) + 1] != end for row, end in zip(written.tolist(), ends, strict=True))
        given, _ = pad([[BOS, *best] for best in ours])
        mine = model.model.project(model.model(Batch(ids, keep), given))
        said = other(numbers, attention_mask=seen, decoder_input_ids=torch.tensor(target)[given]).logits
        real = torch.arange(given.shape[1]) <= torch.tensor([len(best) for best in ours])[:, None]
        apart = (mine[..., UNK:] - said[..., list(target)[UNK:]]).abs()[real]
        difference = float(torch.tensor([difference, float(apart.max())]).max())  # nan stays
    return Parity(len(sentences), origin, difference, cut, otherwise)


def _loaded(there: Path) -> tuple[Any, Any]:
    """Hugging Face's model and tokenizer."""
    package = transformers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = package.MarianMTModel.from_pretrained(there, dtype=torch.float32).eval()
        return model, package.MarianTokenizer.from_pretrained(there)


def _greedy(model: ModelFolder, batch: Batch, entries: Sequence[int]) -> list[tuple[int, ...]]:
    """What our greedy search writes, of at most `LONGEST` pieces."""
    settings = SearchSettings(beam=1, max_ratio=1e-6, max_extra=LONGEST)
    found = search(model.model, model.model.encode(batch), entries, settings)
    return [hypotheses[0].ids for hypotheses in found]


def check(parity: Parity) -> None:
    """Raise ExportError where the two do not do the same."""
    if not parity.difference <= CLOSE or max(parity.cut, parity.other) > parity.sentences // 32:
        raise ExportError(f"Hugging Face does not do the same: {parity}")


def _beside(out: Path) -> Path:
    beside = out.with_name(out.name + ".part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    return beside


def _named(beside: Path, out: Path) -> None:
    """Give a folder that is whole its name."""
    if out.exists():
        out.rmdir()
    beside.replace(out)


def _tokenizer_config(tokenizer: Tokenizer, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "tokenizer_class": "MarianTokenizer",
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": config["max_position_embeddings"],
        "separate_vocabs": not tokenizer.settings.joint,
    }


def _listing(vocabulary: Vocabulary) -> bytes:
    """The file that numbers the pieces."""
    if vocabulary.table is not None:
        return vocabulary.table.text
    pieces = vocabulary.tokens(range(len(vocabulary)))
    return _json({piece: number for number, piece in enumerate(pieces)})


def _tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a Marian folder: one of ours that was exported, or one whose pieces a list numbers."""
    about = _table(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    joint = not about.get("separate_vocabs", False)
    models = [_bytes(folder / f"{side}.spm") for side in ("source", "target")]
    lists = [_bytes(folder / name) for name in ("vocab.json", *(() if joint else ("target_vocab.json",)))]
    plain = [
        _vocabulary(folder / f"{side}.spm", model) for side, model in zip(("source", "target"), models, strict=True)
    ]
    for name, text in zip(("vocab.json", "target_vocab.json"), lists, strict=False):
        _parsed(folder / name, text)
    if (not joint or models[0] == models[1]) and all(
        _listing(vocabulary) == text or json.loads(_listing(vocabulary)) == json.loads(text)
        for vocabulary, text in zip(plain, lists, strict=False)
    ):
        if joint:
            plain = [plain[0], plain[0]]
        return Tokenizer(plain[0], plain[1], TokenizerSettings(kind=plain[0].kind, joint=joint, size=len(plain[0])))
    try:
        listings = [PieceTable.parse(text) for text in lists]
    except ValueError as problem:
        raise ExportError(f"{folder}: the list that numbers the pieces is {problem}") from None
    source, target = TableVocabulary(models[0], listings[0]), TableVocabulary(models[1], listings[-1])
    settings = TokenizerSettings(kind=source.kind, joint=joint, size=len(source), numbering="marian")
    return Tokenizer(source, target, settings)


def _vocabulary(path: Path, model: bytes) -> Vocabulary:
    try:
        if model:
            return Vocabulary(model)
    except RuntimeError:
        pass
    raise ExportError(
        f"{path}: damaged, not a SentencePiece model; copy it again (a file of git-lfs has to be fetched)"
    )


def _other_numbers(config: dict[str, Any], tokenizer: Tokenizer) -> list[str]:
    """Where the configuration means other special pieces than the tokenizer."""
    there = marian.rows(tokenizer.target)
    wanted = {"pad_token_id": there[0], "eos_token_id": there[EOS], "decoder_start_token_id": there[BOS]}
    return [
        f"{name} is {config.get(name)!r}, and the tokenizer's is {number}"
        for name, number in wanted.items()
        if config.get(name) != number
    ]


def _tensors(folder: Path) -> dict[str, torch.Tensor]:
    """The weights, from safetensors, or from a file of PyTorch of which nothing but tensors is read."""
    if (folder / WEIGHTS).is_file():
        return load_tensors(folder / WEIGHTS)
    path = folder / "pytorch_model.bin"
    if not path.is_file():
        raise ExportError(f"{folder}: there is neither {WEIGHTS} nor {path.name}; give the folder of a Marian model")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as problem:
        raise ExportError(f"{path}: not a file of tensors alone ({str(problem).splitlines()[0]})") from None
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise ExportError(f"{path}: not a file of tensors alone (there is something else in it)")
    return dict(found)


def _parsed(path: Path, text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise ExportError(f"{path}: damaged, not JSON ({problem})") from None


def _table(path: Path) -> dict[str, Any]:
    values = _parsed(path, _bytes(path))
    if not isinstance(values, dict):
        raise ExportError(f"{path}: damaged, wanted a table, got {type(values).__name__}")
    return values


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise ExportError(
            f"{path}: cannot be read ({problem.strerror}); give the folder of a Marian model, with its tokenizer"
        ) from None


def _card(folder: Path, found: ModelFolder) -> str:
    parts = found.settings.model
    return f"""# A translation model taken over from Hugging Face

- From: `{folder}`, by `regard import huggingface`.
- A Marian model: {parts.encoder.layers} + {parts.decoder.layers} Transformer layers, \
{count_parameters(found.model):,} weights.
- Training data, scores and licence: see where it came from; nothing of that is known here.
"""


def _json(values: Any) -> bytes:
    return (json.dumps(values, ensure_ascii=False, indent=2) + "\n").encode()
