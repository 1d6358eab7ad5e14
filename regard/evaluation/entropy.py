"""Attention entropy of each layer: it falls as the model learns alignments."""

from __future__ import annotations

import torch

from regard.attention import record_attention
from regard.common.shapes import Float, Tensor
from regard.data.batch import TrainingBatch
from regard.data.vocabulary import PAD
from regard.models import Batch, Encoded, Model


@torch.no_grad()
def attention_entropy(model: Model, batch: TrainingBatch) -> dict[str, float]:
    """Return the mean entropy in nats of each attention layer, over its heads and its queries that
    are not padding.

    0: all weight on one entry; log S: the same weight on each of S entries.
    """
    with record_attention(model) as readings:
        model(Batch(batch.source, batch.source_keep), batch.target_in)
    target_keep = batch.target_out != PAD
    other_keep = {"encoder": _source_keep(model, batch)}
    return {
        name: _mean(
            weights, other_keep.get(str(model.get_submodule(name).role), target_keep)
        )
        for name, weights in readings.items()
    }


def _source_keep(model: Model, batch: TrainingBatch) -> Tensor:
    """Return the keep mask of the source entries: tokens, or cells of images."""
    if batch.source.dim() == 2:
        return (
            torch.ones_like(batch.source, dtype=torch.bool)
            if batch.source_keep is None
            else batch.source_keep
        )
    encoded: Encoded = model.encoder(Batch(batch.source, batch.source_keep))
    outputs = encoded.outputs
    return (
        outputs.new_ones(outputs.shape[:2], dtype=torch.bool)
        if encoded.keep is None
        else encoded.keep
    )


def _mean(weights: Float[Tensor, "N H T S"], keep: Tensor) -> float:
    entropy = torch.special.entr(weights.float()).sum(-1).mean(1)  # (N, T)
    return float(entropy[keep].mean())
