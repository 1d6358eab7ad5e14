"""minGRU (Feng et al. 2024): a recurrent encoder whose gates do not depend on its state.

    regard train --preset rnn-bahdanau --set model.encoder.kind=mingru \
                 --source train.ko --target train.en --plugin ./mingru.py --out runs/mingru

z = σ(W x), h = (1 − z) h′ + z V x. Since no gate needs the state before, all positions are computed
at once, by a prefix sum of logarithms as in the paper's appendix.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

import regard
from regard.layers.embedding import Embedding
from regard.models import Batch, Encoded, Encoder, EncoderSizes, PartSettings


class MinGRUSettings(PartSettings):
    """Settings of the encoder, as a recipe has them below [model.encoder]."""

    kind: Literal["mingru"] = "mingru"
    layers: int = Field(2, ge=1, description="number of layers")
    size: int = Field(256, ge=1, description="size of the states of each direction")
    embedding: int = Field(256, ge=1, description="size of the embeddings")
    dropout: float = Field(0.3, ge=0, lt=1, description="dropout after each layer")


@regard.register_encoder("mingru", MinGRUSettings)
class MinGRUEncoder(Encoder):
    """Layers of minGRU, each in both directions."""

    def __init__(self, settings: MinGRUSettings, vocabulary: int) -> None:
        super().__init__()
        self.embedding = Embedding(
            vocabulary, settings.embedding, scale_embedding=False
        )
        sizes = [settings.embedding] + [2 * settings.size] * (settings.layers - 1)
        self.layers = nn.ModuleList(
            nn.Linear(size, 4 * settings.size) for size in sizes
        )
        self.dropout = nn.Dropout(settings.dropout)
        self.sizes = EncoderSizes(2 * settings.size, 1, settings.embedding)

    def forward(self, batch: Batch) -> Encoded:
        """Encode a batch; the states of padding are zero."""
        keep = batch.keep
        embedded = x = self.dropout(self.embedding(batch.data))
        for layer in self.layers:
            forward, backward = layer(x).float().chunk(2, -1)
            states = [minimal_gru(forward, keep), reversed_gru(backward, keep)]
            x = self.dropout(torch.cat(states, -1))
        counts = x.shape[1] if keep is None else keep.sum(1, keepdim=True)
        return Encoded(x, embedded, (x.sum(1) / counts).unsqueeze(1), keep)


def minimal_gru(gates: Tensor, keep: Tensor | None) -> Tensor:
    """Return the states (B, S, D) for gates and candidates (B, S, 2·D), from a state of zero."""
    gate, candidate = gates.chunk(2, -1)
    positive = torch.where(candidate >= 0, candidate + 0.5, candidate.sigmoid())
    forgetting = -F.softplus(gate)  # log(1 − z)
    update = -F.softplus(-gate) + positive.log()  # log(z · candidate)
    if keep is not None:  # padding changes no state
        forgetting = forgetting.masked_fill(~keep[..., None], 0)
        update = update.masked_fill(~keep[..., None], -1e9)
    total = forgetting.cumsum(1)
    states = (total + (update - total).logcumsumexp(1)).exp()
    return states if keep is None else states * keep[..., None]


def reversed_gru(gates: Tensor, keep: Tensor | None) -> Tensor:
    """Run over the positions from the last to the first."""
    flipped = None if keep is None else keep.flip(1)
    return minimal_gru(gates.flip(1), flipped).flip(1)
