"""The models that are compared, and the arithmetic that a token of each costs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LINEAGE", "SHAPES", "TOKENS", "VOCABULARY", "Shape", "useful_flops"]

VOCABULARY = 8000
"""Size of the joint vocabulary, with the four special tokens."""

TOKENS = 4096
"""Tokens in a batch, as each system counts them."""


@dataclass(frozen=True)
class Shape:
    """A model that every system builds as similarly as its settings allow."""

    kind: str  # transformer, gru or convolutional
    layers: int  # of the encoder, and as many of the decoder
    size: int
    feedforward: int
    heads: int
    dropout: float
    warmup: int  # updates that are not measured: memory is allocated, caches fill


SHAPES = {
    "tiny": Shape(
        "transformer",
        layers=4,
        size=128,
        feedforward=256,
        heads=4,
        dropout=0.3,
        warmup=5,
    ),
    "base": Shape(
        "transformer",
        layers=6,
        size=512,
        feedforward=2048,
        heads=8,
        dropout=0.1,
        warmup=2,
    ),
    # A bidirectional encoder of 2 x 256; embeddings, decoder and additive attention of 512.
    "gru": Shape(
        "gru", layers=1, size=512, feedforward=0, heads=1, dropout=0.2, warmup=3
    ),
}

LINEAGE = {
    "rnn": Shape(
        "gru", layers=1, size=512, feedforward=0, heads=1, dropout=0.3, warmup=2
    ),
    "rnn-bahdanau": Shape(
        "gru", layers=1, size=512, feedforward=0, heads=1, dropout=0.3, warmup=2
    ),
    "rnn-luong": Shape(
        "gru", layers=1, size=512, feedforward=0, heads=1, dropout=0.3, warmup=2
    ),
    "conv": Shape(
        "convolutional",
        layers=4,
        size=256,
        feedforward=0,
        heads=1,
        dropout=0.2,
        warmup=2,
    ),
}
"""Regard's presets of these names, which `lineage.py` compares with the same models in plain
PyTorch.
"""


def useful_flops(
    shape: Shape, source_tokens: float, target_tokens: float
) -> float | None:
    """Return the arithmetic of training on this many tokens without padding; None if it is not
    known for the shape.

    It counts the products with weight matrices, once forward and twice backward. The products of
    attention between positions are left out: with sentences of fifteen tokens they are about 2 % at
    tiny and less at base.
    """
    d = shape.size
    ff = shape.feedforward
    layers = shape.layers
    if shape.kind == "gru":
        # Three gates of half the size from either end; keys; gates of token, context and
        # state.
        encoder = 2 * 3 * (d // 2) * (d + d // 2)
        memory = d * d
        # Then the query and the readout.
        decoder = 3 * d * 3 * d + d * d + 3 * d * d + d * VOCABULARY
        return 3 * 2 * (source_tokens * (encoder + memory) + target_tokens * decoder)
    if shape.kind != "transformer":
        return None
    encoder = layers * (4 * d * d + 2 * d * ff)
    memory = layers * 2 * d * d  # keys and values of the source for the decoder
    decoder = layers * (6 * d * d + 2 * d * ff) + d * VOCABULARY
    return 3 * 2 * (source_tokens * (encoder + memory) + target_tokens * decoder)
