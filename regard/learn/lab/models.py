"""Small models for experiments: each learns most of the sample in a minute on one processor core."""

from __future__ import annotations

from typing import Any

PEAK, VOCABULARY = 8e-3, 1000


def recurrent(decoder: str = "recurrent", encoder: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    """Make the recipe of a recurrent model: bidirectional GRU of 2 × 64, decoder of 128; attention after each step.

    `settings` are those of the decoder; `decoder="no_attention"` has the last states alone.
    """
    common = {"embedding": 64, "dropout": 0.1}
    own = {"context": "every"} if decoder == "no_attention" else {"order": "luong", "score": "general"}
    sides = {
        "encoder": {"kind": "recurrent", "size": 64, **common, **(encoder or {})},
        "decoder": {"kind": decoder, "size": 128, **common, **own, **settings},
    }
    return {"model": sides, "tokenizer": {"size": VOCABULARY}, "schedule": {"peak": PEAK}}


def transformer(decoder: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    """Make the recipe of a Transformer of 2 + 2 layers of 64 with 4 heads; `settings` are those of both sides."""
    side = {"kind": "transformer", "layers": 2, "size": 64, "heads": 4, "feedforward": 128, "dropout": 0.1, **settings}
    sides = {"encoder": side, "decoder": {**side, **(decoder or {})}}
    return {"model": sides, "tokenizer": {"size": VOCABULARY}, "schedule": {"peak": PEAK}}
