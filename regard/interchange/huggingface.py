"""Import and export Marian models of Hugging Face (`MarianMTModel` and `MarianTokenizer`)."""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from regard.common.atomic import atomic_folder, write_bytes, write_text
from regard.common.checksums import tensor_digest
from regard.common.errors import ExportError, MissingExtra
from regard.common.markdown import code_span, quote_argument
from regard.common.reading import file_bytes, parse_json, read_tensors, reason_of
from regard.data.batch import pad
from regard.data.languages import Languages
from regard.data.marian_vocab import PieceTable
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import (
    BOS,
    EOS,
    UNK,
    TableVocabulary,
    Vocabulary,
    vocabulary_of,
)
from regard.interchange import marian
from regard.interchange.checksums import check_sums, write_sums
from regard.interchange.parity import (
    GREEDY,
    TOKENS,
    Parity,
    best_targets,
    check_new,
    encode,
)
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
    save_weights,
)
from regard.models import Batch, build, count_parameters, huggingface_obstacles
from regard.runtime.engine.known_model import own_classes
from regard.search import SearchSettings

CONFIG = "config.json"
GENERATION = "generation_config.json"
TOKENIZER = "tokenizer_config.json"
PYTORCH = "pytorch_model.bin"
FILES = (
    CONFIG,
    GENERATION,
    TOKENIZER,
    "source.spm",
    "target.spm",
    "vocab.json",
    "target_vocab.json",
    WEIGHTS,
    PYTORCH,
)
"""The files that are read if they exist."""
MAX_DIFFERENCE = 1e-4
"""Largest difference of logits."""
MAX_TOKENS = 60
"""Largest number of tokens in a translation that is compared."""
BATCH_SIZE = 16


def export(folder: Path, out: Path, source: Path | None = None) -> Parity:
    """Write a model folder for Hugging Face, and compare the two on real sentences.

    Raises ExportError, with all causes, and leaves nothing behind, if the model is no Marian model
    or behaves differently there.
    """
    import_transformers()
    model = load_folder(folder)
    ExportError.raise_all(
        [
            *huggingface_obstacles(
                model.settings.model, model.settings.tokenizer.joint
            ),
            *model.settings.tokenizer.export_obstacles,
            *own_classes(model.model),
        ]
    )
    check_new(out)
    sentences, origin = real_sentences(folder, model.tokenizer.source, source)
    with atomic_folder(out) as folder_beside:
        write(model, folder_beside)
        parity = compare(model, folder_beside, sentences, origin)
        _check(parity)
    return parity


def import_model(folder: Path, out: Path) -> tuple[ModelFolder, dict[str, str]]:
    """Convert a Marian model to a model folder. Only tensors are unpickled.

    Returns also the SHA-256 of each file without a published checksum. Raises ExportError, with all
    causes, and leaves nothing behind, if the folder is no Marian model or differs from its
    checksums.
    """
    unchecked = check_sums(folder, FILES)
    config = _read_table(folder / CONFIG)
    generation = (
        _read_table(folder / GENERATION) if (folder / GENERATION).is_file() else {}
    )
    settings = marian.model_settings(config)
    tokenizer = _tokenizer(folder)
    ExportError.raise_all(_different_ids(config, tokenizer))
    check_new(out)
    tensors = marian.from_marian(_tensors(folder), settings, tokenizer)
    model = build(
        settings, len(tokenizer.source), len(tokenizer.target), tokenizer.settings.joint
    ).eval()
    load_weights(model, tensors, folder)
    search = marian.search_settings(generation, config)
    languages = marian.languages(
        _read_table(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    )
    folder_settings = FolderSettings(
        model=settings, tokenizer=tokenizer.settings, search=search, languages=languages
    )
    imported = ModelFolder(folder_settings, tokenizer, model)
    with atomic_folder(out) as folder_beside:
        save_folder(
            folder_beside,
            imported.settings,
            tokenizer,
            origin=tensor_digest(named_weights(model), {}),
        )
        save_weights(folder_beside, named_weights(model))
        write_text(folder_beside / "README.md", _model_card(folder, imported))
    return imported, unchecked


def write(model: ModelFolder, out: Path) -> None:
    """Write the files that `MarianMTModel` and `MarianTokenizer` load by `from_pretrained`."""
    settings = model.settings
    tokenizer = model.tokenizer
    config = marian.config_of(settings.model, tokenizer, settings.search)
    write_text(out / CONFIG, _json(config))
    write_text(
        out / GENERATION, _json(marian.generation_of(tokenizer, settings.search))
    )
    write_text(
        out / TOKENIZER, _json(_tokenizer_config(tokenizer, config, settings.languages))
    )
    write_bytes(out / "source.spm", tokenizer.source.model)
    write_bytes(out / "target.spm", tokenizer.target.model)
    write_bytes(out / "vocab.json", _vocab_json(tokenizer.source))
    if not settings.tokenizer.joint:
        write_bytes(out / "target_vocab.json", _vocab_json(tokenizer.target))
    tensors = marian.to_marian(named_weights(model.model), settings.model, tokenizer)
    save_tensors(out / WEIGHTS, tensors, {"format": "pt"})
    write_sums(out)


def import_transformers() -> Any:
    """Import the package late, and silence it. Raises MissingExtra if it is not installed."""
    try:
        package: Any = importlib.import_module("transformers")
    except ImportError:
        raise MissingExtra(
            "transformers", "hf", "a comparison with Hugging Face"
        ) from None
    except Exception as problem:
        # A package that does not fit this PyTorch may raise any exception when imported.
        raise ExportError(_unusable(problem)) from None
    package.logging.set_verbosity_error()
    package.logging.disable_progress_bar()
    return package


@torch.inference_mode()
def compare(
    model: ModelFolder, folder: Path, sentences: Sequence[str], origin: str
) -> Parity:
    """Tokenise, translate and score the same sentences with both."""
    theirs, their_tokenizer = _load_marian(folder)
    tokenizer = model.tokenizer
    source = marian.rows(tokenizer.source)
    target = marian.rows(tokenizer.target)
    rows = encode(model, sentences)
    pairs = zip(sentences, rows, strict=True)
    mismatches = {
        TOKENS: sum(
            their_tokenizer(text).input_ids != [source[i] for i in ids]
            for text, ids in pairs
        )
    }
    mismatches[GREEDY], difference = 0, 0.0
    settings = SearchSettings(beam=1, max_ratio=1e-6, max_extra=MAX_TOKENS)
    for batch in (
        rows[start : start + BATCH_SIZE] for start in range(0, len(rows), BATCH_SIZE)
    ):
        ids, keep = pad(batch)
        their_ids = torch.tensor(source)[ids]
        mask = torch.ones_like(ids) if keep is None else keep.long()
        targets = best_targets(model, batch, settings)
        outputs = theirs.generate(
            their_ids,
            attention_mask=mask,
            num_beams=1,
            do_sample=False,
            max_length=MAX_TOKENS + 1,
        ).tolist()
        wanted = [[target[i] for i in (*ours, EOS)] for ours in targets]
        mismatches[GREEDY] += sum(
            row[1 : len(ids) + 1] != ids
            for row, ids in zip(outputs, wanted, strict=True)
        )
        target_in, _ = pad([[BOS, *ours] for ours in targets])
        logits = model.model.project(model.model(Batch(ids, keep), target_in))
        their_target_in = torch.tensor(target)[target_in]
        their_logits = theirs(
            their_ids, attention_mask=mask, decoder_input_ids=their_target_in
        ).logits
        target_keep = (
            torch.arange(target_in.shape[1])
            <= torch.tensor([len(ours) for ours in targets])[:, None]
        )
        differences = (logits[..., UNK:] - their_logits[..., list(target)[UNK:]]).abs()[
            target_keep
        ]
        # Unlike Python's max, this keeps NaN.
        difference = float(torch.tensor([difference, float(differences.max())]).max())
    return Parity(
        len(sentences), origin, "largest difference of logits", difference, mismatches
    )


def _load_marian(folder: Path) -> tuple[Any, Any]:
    """Load Hugging Face's model and tokenizer."""
    package = import_transformers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        safe = {"local_files_only": True, "trust_remote_code": False}
        try:  # the classes are imported only now, and torchvision with them
            model_class = package.MarianMTModel
            tokenizer_class = package.MarianTokenizer
        except Exception as problem:
            raise ExportError(_unusable(problem)) from None
        model = model_class.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True, **safe
        )
        return model.eval(), tokenizer_class.from_pretrained(folder, **safe)


def _unusable(problem: Exception) -> str:
    return (
        f"transformers is installed but cannot be imported ({reason_of(problem)}); install the "
        "torchvision that was built for this torch, or uninstall torchvision, which Marian models "
        "do not need"
    )


def _check(parity: Parity) -> None:
    """Raise ExportError if the two differ too much."""
    if (
        not parity.difference <= MAX_DIFFERENCE
        or max(parity.mismatches.values()) > parity.sentences // 32
    ):
        raise ExportError(f"the export does not behave as the model does: {parity}")


def _tokenizer_config(
    tokenizer: Tokenizer, config: dict[str, object], languages: Languages
) -> dict[str, object]:
    codes = {"source_lang": languages.source, "target_lang": languages.target}
    return {
        **{name: code for name, code in codes.items() if code},
        "tokenizer_class": "MarianTokenizer",
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": config["max_position_embeddings"],
        "separate_vocabs": not tokenizer.settings.joint,
    }


def _vocab_json(vocabulary: Vocabulary) -> bytes:
    """Return the content of the file that numbers the tokens."""
    if vocabulary.table is not None:
        return vocabulary.table.text
    tokens = vocabulary.tokens(range(len(vocabulary)))
    return _json({token: number for number, token in enumerate(tokens)}).encode()


def _tokenizer(folder: Path) -> Tokenizer:
    """Read the tokenizer of a Marian folder: one that we exported, or one numbered by
    vocab.json.
    """
    config = _read_table(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    joint = not config.get("separate_vocabs", False)
    models = [_read(folder / f"{side}.spm") for side in ("source", "target")]
    names = ("vocab.json",) if joint else ("vocab.json", "target_vocab.json")
    texts = [_read(folder / name) for name in names]
    vocabularies = [
        _vocabulary(folder / f"{side}.spm", models[i])
        for i, side in enumerate(("source", "target"))
    ]
    numbers = [
        _parse(folder / name, text) for name, text in zip(names, texts, strict=True)
    ]
    if (not joint or models[0] == models[1]) and numbers == [
        json.loads(_vocab_json(vocabulary))
        for vocabulary in vocabularies[: len(numbers)]
    ]:
        source = vocabularies[0]
        target = vocabularies[0 if joint else 1]
        return Tokenizer(
            source,
            target,
            TokenizerSettings(kind=source.kind, joint=joint, size=len(source)),
        )
    try:
        tables = [PieceTable.parse(text) for text in texts]
    except ValueError as problem:
        raise ExportError(
            f"{folder}: the file that numbers the tokens is {problem}"
        ) from None
    numbered = (
        TableVocabulary(models[0], tables[0]),
        TableVocabulary(models[1], tables[-1]),
    )
    settings = TokenizerSettings(
        kind=numbered[0].kind, joint=joint, size=len(numbered[0]), numbering="marian"
    )
    return Tokenizer(*numbered, settings)


def _vocabulary(path: Path, model: bytes) -> Vocabulary:
    with suppress(ValueError):
        return vocabulary_of(model)
    raise ExportError(
        f"{path}: damaged, not a SentencePiece model; copy it again (a file of git-lfs has to be "
        "fetched)"
    )


def _different_ids(config: dict[str, object], tokenizer: Tokenizer) -> list[str]:
    """Return an error for each special token whose id in the configuration is not the
    tokenizer's.
    """
    return [
        f"{name} is {config.get(name)!r}, and the tokenizer's is {number}"
        for name, number in marian.special_ids(tokenizer.target).items()
        if config.get(name) != number
    ]


def _tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Read the weights from safetensors, or from a PyTorch file, of which only tensors are read."""
    if (folder / WEIGHTS).is_file():
        return load_tensors(folder / WEIGHTS, foreign=True)
    path = folder / PYTORCH
    if not path.is_file():
        raise ExportError(
            f"{folder}: there is neither {WEIGHTS} nor {path.name}; give the folder of a Marian "
            "model"
        )
    return read_tensors(
        path, ExportError, "copy it again, or convert it to safetensors"
    )


def _parse(path: Path, text: bytes) -> object:
    try:
        return parse_json(text)
    except ValueError as problem:
        raise ExportError(f"{path}: damaged, not JSON ({problem})") from None


def _read_table(path: Path) -> dict[str, object]:
    values = _parse(path, _read(path))
    if not isinstance(values, dict):
        raise ExportError(
            f"{path}: damaged, wanted a table, got {type(values).__name__}"
        )
    return values


def _read(path: Path) -> bytes:
    try:
        return file_bytes(path)
    except OSError as problem:
        raise ExportError(
            f"{path}: cannot be read ({problem.strerror}); give the folder of a Marian model, with "
            "its tokenizer"
        ) from None


def _model_card(folder: Path, imported: ModelFolder) -> str:
    settings = imported.settings.model
    return f"""# A translation model imported from Hugging Face

- From: {code_span(quote_argument(str(folder)))}, by `regard import huggingface`.
- A Marian model: {settings.encoder.layers} + {settings.decoder.layers} Transformer layers, \
{count_parameters(imported.model):,} parameters.
- Training data, scores and licence: see its origin; they are not recorded here.
"""


def _json(values: object) -> str:
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"
