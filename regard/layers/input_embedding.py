"""Input of an encoder or decoder: token embedding plus positional embedding, with dropout."""

from __future__ import annotations

from torch import nn

from regard.common.monkey_patches import as_defined
from regard.common.shapes import Float, Int, Tensor
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.positional_encoding import PositionEmbedding


@as_defined
class InputEmbedding(nn.Module):
    """Token embedding plus positional embedding, with dropout."""

    def __init__(
        self,
        embedding: Embedding,
        positions: PositionEmbedding | None,
        dropout: float,
        word_dropout: float,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)
        self.word_dropout = Dropout(word_dropout, per_position=True)
        self.position_embedding = positions

    def forward(
        self, tokens: Int[Tensor, "N T"], positions: Int[Tensor, "N T"]
    ) -> Float[Tensor, "N T D"]:
        x = self.word_dropout(self.embedding(tokens))
        if self.position_embedding is not None:
            x = x + self.position_embedding(positions)
        return self.dropout(x)  # type: ignore[no-any-return]
