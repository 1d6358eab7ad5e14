"""Makes what is translated with: a Regard folder, the sentences as its pieces, and its export to CTranslate2.

python models.py --model tiny --data .work/data --lines test.en --folder DIR [--run RUN]

Runs in Regard's own environment. Without a run the weights are random and the vocabulary is that of prepare.py.
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
"""What stands before the name of a preset where a model is named."""


def settings(model: str) -> dict[str, Any]:
    """The encoder and decoder of a model, as in a recipe."""
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
        wide = {"size": max(size, 256), "embedding": size, "attention": size}
        values = {"encoder": settings(shape)["encoder"], "decoder": {"kind": "recurrent", **wide}}
    return values


def texts(folder: Path, sentences: Sequence[Sequence[str]]) -> list[str]:
    """What pieces say, by the vocabulary of a Regard folder."""
    from regard.data.tokenizer import Tokenizer
    from regard.data.vocabulary import UNK
    from regard.model_folder import load_settings

    target = Tokenizer.load(folder, load_settings(folder).tokenizer).target
    ids = {piece: i for i, piece in enumerate(target.tokens(range(len(target))))}
    return [target.decode([ids.get(piece, UNK) for piece in pieces]) for pieces in sentences]


def main() -> None:
    """Make what is not there already from the same."""
    options = _options()
    made_from, stamp = _made_from(options), options.folder / "made-from.json"
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
        kept = shutil.ignore_patterns("checkpoints", "exports", "*.part")
        shutil.copytree(options.run, folder, ignore=kept)
    tokenizer = Tokenizer.load(folder, load_settings(folder).tokenizer)
    source, lines = tokenizer.source, _lines(options)
    cut = [source.tokens(source.encode(line)) for line in lines]
    (options.folder / "source.txt").write_text("".join(" ".join(pieces) + "\n" for pieces in cut), "utf-8")
    (options.folder / "pieces.json").write_text(json.dumps(source.tokens(range(len(source)))), "utf-8")
    if options.model in SHAPES:
        _export(folder, options.folder / "ctranslate2")
        if options.run is not None:
            _offer(folder)


def _export(folder: Path, out: Path) -> None:
    """Write the model for CTranslate2, in float32: it makes of that what it is asked for when it loads it.

    Not by `regard export`, which compares outputs and refuses what differs: near ties do where weights are random, and
    at natural length the tables say how many sentences are the same.
    """
    from regard.interchange.ctranslate2 import write
    from regard.model_folder import load_folder

    out.mkdir()
    write(load_folder(folder), out, "float32")


def _random(options: argparse.Namespace, folder: Path) -> None:
    """A model folder as training would have written it before its first update."""
    import torch
    from regard.data.tokenizer import Tokenizer, TokenizerSettings
    from regard.data.vocabulary import Vocabulary
    from regard.model_folder import WEIGHTS, FolderSettings, named_weights, save_folder, save_tensors
    from regard.models import ModelSettings, build
    from regard.search import SearchSettings

    torch.manual_seed(1)
    chosen = ModelSettings.parse(settings(options.model), options.model)
    vocabulary, kind = Vocabulary((options.data / "bpe.model").read_bytes()), TokenizerSettings(byte_fallback=False)
    model = build(chosen, len(vocabulary), len(vocabulary), True)
    save_folder(
        folder,
        FolderSettings(model=chosen, tokenizer=kind, search=SearchSettings()),
        Tokenizer(vocabulary, vocabulary, kind),
    )
    save_tensors(folder / WEIGHTS, named_weights(model))


def _offer(folder: Path) -> None:
    """Give the folder an export of its own, so that the engine `auto` has a choice."""
    from regard.errors import RegardError
    from regard.interchange.ctranslate2 import cached_export

    try:
        cached_export(folder, "int8")
    except RegardError as error:
        print(f"auto has no choice: {error}")


def _made_from(options: argparse.Namespace) -> str:
    """Changes when anything does that the folder is made from."""
    parts = [Path(__file__), options.lines, options.data / "bpe.model"]
    if options.run is not None:
        parts += [options.run / "config.json", options.run / "model.safetensors"]
    hashes = [hashlib.sha256(part.read_bytes()).hexdigest() for part in parts]
    asked = {"model": options.model, "settings": settings(options.model), "sentences": options.sentences}
    return json.dumps({**asked, "from": hashes})


def _lines(options: argparse.Namespace) -> list[str]:
    lines: list[str] = options.lines.read_text("utf-8").removesuffix("\n").split("\n")
    return lines[: options.sentences]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Makes what is translated with.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--lines", required=True, type=Path)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--sentences", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
