"""Attention entropy of each layer, which falls as the model learns alignments."""

from __future__ import annotations

import torch

from regard.attention import record_attention
from regard.common.shapes import Float, Tensor
from regard.data.batch import TrainingBatch
from regard.data.vocabulary import PAD
from regard.models import Batch, Encoded, Model


@torch.no_grad()
def attention_entropy(model: Model, batch: TrainingBatch) -> dict[str, float]:
    """Return the mean entropy of each attention layer in nats, over heads and queries without
    padding.

    It is 0 if all weight is on one entry, and log S if the weights of S entries are equal.
    """
    with record_attention(model) as readings:
        model(Batch(batch.source, batch.source_keep), batch.target_in)
    target_keep = batch.target_out != PAD
    source_keep = _source_keep(model, batch)
    entropies = dict[str, float]()
    for name, weights in readings.items():
        is_encoder = str(model.get_submodule(name).role) == "encoder"
        keep = source_keep if is_encoder else target_keep
        entropies[name] = _mean(weights, keep)
    return entropies


def _source_keep(model: Model, batch: TrainingBatch) -> Tensor:
    """Return the keep mask of the source entries: tokens, or cells of images."""
    if batch.source.dim() == 2:
        if batch.source_keep is not None:
            return batch.source_keep
        return torch.ones_like(batch.source, dtype=torch.bool)
    encoded: Encoded = model.encoder(Batch(batch.source, batch.source_keep))
    if encoded.keep is not None:
        return encoded.keep
    outputs = encoded.outputs
    return outputs.new_ones(outputs.shape[:2], dtype=torch.bool)


def _mean(weights: Float[Tensor, "N H T S"], keep: Tensor) -> float:
    entropy = torch.special.entr(weights.float()).sum(-1).mean(1)  # (N, T)
    return float(entropy[keep].mean())
