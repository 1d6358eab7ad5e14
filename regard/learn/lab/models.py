"""Recipes of small models, which learn most of the sample data in a minute on one CPU core."""

from __future__ import annotations

from pathlib import Path

from regard.data.vocabulary import Vocabulary
from regard.models import Model
from regard.pipeline import load_translator

VOCABULARY = 1000


def recurrent(
    decoder: str = "recurrent",
    encoder: dict[str, object] | None = None,
    **settings: object,
) -> dict[str, object]:
    """Make the recipe of a recurrent model: a bidirectional GRU of 2 × 64 and a decoder of 128.

    `encoder` and `settings` change settings of the encoder and of the decoder. With
    `decoder="no_attention"`, the decoder sees only the last states of the encoder.
    """
    sides = {
        "encoder": {
            "kind": "recurrent",
            "size": 64,
            "embedding": 64,
            "dropout": 0.1,
            **(encoder or {}),
        },
        "decoder": {**decoder_settings(decoder), **settings},
    }
    return {"model": sides, "tokenizer": {"size": VOCABULARY}}


def decoder_settings(kind: str) -> dict[str, object]:
    """Return the settings of a recurrent decoder of size 128, with or without attention."""
    if kind == "no_attention":
        context_settings = {"context": "every"}
    else:
        context_settings = {"order": "luong", "score": "general"}
    sizes = {"size": 128, "embedding": 64, "dropout": 0.1}
    return {"kind": kind, **sizes, **context_settings}


def transformer(
    decoder: dict[str, object] | None = None, **settings: object
) -> dict[str, object]:
    """Make the recipe of a Transformer with 2 + 2 layers of size 64 and 4 heads.

    `settings` change settings of both sides, `decoder` those of the decoder alone.
    """
    side = {
        "kind": "transformer",
        "layers": 2,
        "size": 64,
        "heads": 4,
        "feedforward": 128,
        "dropout": 0.1,
        **settings,
    }
    sides = {"encoder": side, "decoder": {**side, **(decoder or {})}}
    return {"model": sides, "tokenizer": {"size": VOCABULARY}}


def load_run(folder: Path) -> tuple[Vocabulary, Model]:
    """Load the source vocabulary and the model of a run."""
    translator = load_translator(folder)
    assert isinstance(translator.model, Model), "a run is one model"
    return translator.tokenizer.source, translator.model
