"""Small models for experiments: each learns most of the sample in a minute on one processor
core.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.data.vocabulary import Vocabulary
from regard.models import Model
from regard.pipeline import load_translator

VOCABULARY = 1000


def recurrent(
    decoder: str = "recurrent", encoder: dict[str, Any] | None = None, **settings: Any
) -> dict[str, Any]:
    """Make the recipe of a recurrent model: bidirectional GRU of 2 × 64, decoder of 128; attention
    after each step.

    `settings` are those of the decoder; `decoder="no_attention"` has the last states alone.
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


def decoder_settings(kind: str) -> dict[str, Any]:
    """Return the settings of a recurrent decoder of 128, or of the same without attention."""
    own = (
        {"context": "every"}
        if kind == "no_attention"
        else {"order": "luong", "score": "general"}
    )
    return {"kind": kind, "size": 128, "embedding": 64, "dropout": 0.1, **own}


def transformer(
    decoder: dict[str, Any] | None = None, **settings: Any
) -> dict[str, Any]:
    """Make the recipe of a Transformer of 2 + 2 layers of 64 with 4 heads; `settings` are those of
    both sides.
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
