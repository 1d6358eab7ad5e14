"""Make the models to translate with: a Regard folder, the tokenised sentences, and its export to
CTranslate2.

python models.py --model tiny --data .work/data --lines test.en --folder DIR [--run RUN]

It runs in Regard's own environment. Without a run the weights are random and the vocabulary is that
of prepare.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shapes import SHAPES

__all__ = ["PRESET", "settings", "texts"]

PRESET = "preset-"
"""Prefix of a model name that names a preset."""


def settings(model: str) -> dict[str, Any]:
    """Return the encoder and decoder settings of a model, as in a recipe."""
    from regard.training import preset

    if model in SHAPES:
        values: dict[str, Any] = preset(f"transformer-{model}")["model"]
    elif model.startswith(PRESET):
        values = preset(model.removeprefix(PRESET))["model"]
    elif model == "rnn":
        values = preset("rnn-bahdanau")["model"]
    else:
        shape = model.removeprefix("hybrid-")
        size = SHAPES[shape].size
        wide = {"size": max(size, 256), "embedding": size, "attention_size": size}
        values = {
            "encoder": settings(shape)["encoder"],
            "decoder": {"kind": "recurrent", **wide},
        }
    return values


def texts(folder: Path, sentences: Sequence[Sequence[str]]) -> list[str]:
    """Decode tokens to text with the target vocabulary of a Regard folder."""
    from regard.data.tokenizer import Tokenizer
    from regard.data.vocabulary import UNK
    from regard.model_folder import load_settings

    target = Tokenizer.load(folder, load_settings(folder).tokenizer).target
    ids = {token: i for i, token in enumerate(target.tokens(range(len(target))))}
    return [
        target.decode([ids.get(token, UNK) for token in tokens]) for tokens in sentences
    ]


def main() -> None:
    """Make the folder, unless it was made from the same files and settings."""
    options = _options()
    made_from = _made_from(options)
    stamp = options.folder / "made-from.json"
    if not (stamp.is_file() and stamp.read_text() == made_from):
        shutil.rmtree(options.folder, ignore_errors=True)
        options.folder.mkdir(parents=True)
        _make(options)
        stamp.write_text(made_from)
    print("RESULT " + json.dumps({"other_cores": 0.0}))


def _make(options: argparse.Namespace) -> None:
    from regard.data.tokenizer import Tokenizer
    from regard.model_folder import load_settings

    folder: Path = options.folder / "regard"
    if options.run is None:
        _random(options, folder)
    else:
        ignored = shutil.ignore_patterns("checkpoints", "exports", "*.part")
        shutil.copytree(options.run, folder, ignore=ignored)
    tokenizer = Tokenizer.load(folder, load_settings(folder).tokenizer)
    source = tokenizer.source
    lines = _lines(options)
    tokenised = [source.tokens(source.encode(line)) for line in lines]
    (options.folder / "source.txt").write_text(
        "".join(" ".join(tokens) + "\n" for tokens in tokenised), "utf-8"
    )
    (options.folder / "tokens.json").write_text(
        json.dumps(source.tokens(range(len(source)))), "utf-8"
    )
    if options.model in SHAPES:
        _export(folder, options.folder / "ctranslate2")


def _export(folder: Path, out: Path) -> None:
    """Write the model for CTranslate2 in float32, which it converts to the requested type on
    loading.

    Not by `regard export`, which refuses models whose outputs differ: random weights give near
    ties, and at natural length the tables say how many sentences are the same.
    """
    from regard.interchange.ctranslate2_export import write
    from regard.model_folder import load_folder

    out.mkdir()
    write(load_folder(folder), out, "float32")


def _random(options: argparse.Namespace, folder: Path) -> None:
    """Write a model folder as training would before its first update."""
    import torch
    from regard.data.tokenizer import Tokenizer, TokenizerSettings
    from regard.data.vocabulary import Vocabulary
    from regard.model_folder import (
        FolderSettings,
        named_weights,
        save_folder,
        save_weights,
    )
    from regard.models import ModelSettings, build
    from regard.search import SearchSettings

    torch.manual_seed(1)
    chosen = ModelSettings.parse(settings(options.model), options.model)
    vocabulary = Vocabulary((options.data / "bpe.model").read_bytes())
    kind = TokenizerSettings(byte_fallback=False)
    model = build(chosen, len(vocabulary), len(vocabulary), True)
    save_folder(
        folder,
        FolderSettings(model=chosen, tokenizer=kind, search=SearchSettings()),
        Tokenizer(vocabulary, vocabulary, kind),
    )
    save_weights(folder, named_weights(model))


def _made_from(options: argparse.Namespace) -> str:
    """Return a fingerprint of all files and settings that the folder is made from."""
    parts = [Path(__file__), options.lines, options.data / "bpe.model"]
    if options.run is not None:
        parts += [options.run / "config.json", options.run / "model.safetensors"]
    hashes = [hashlib.sha256(part.read_bytes()).hexdigest() for part in parts]
    request = {
        "model": options.model,
        "settings": settings(options.model),
        "sentences": options.sentences,
    }
    return json.dumps({**request, "from": hashes})


def _lines(options: argparse.Namespace) -> list[str]:
    lines: list[str] = options.lines.read_text("utf-8").removesuffix("\n").split("\n")
    return lines[: options.sentences]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make the models to translate with.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--lines", required=True, type=Path)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--sentences", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
