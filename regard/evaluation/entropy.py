"""Attention entropy of each layer, which falls as the model learns alignments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from regard.attention import record_attention
from regard.attention.alignment import Readings
from regard.attention.alignment_choice import AlignmentChoice
from regard.common.shapes import Float, Tensor
from regard.data.batch import TrainingBatch
from regard.data.vocabulary import PAD
from regard.models import Batch, Encoded, Model

SAME = 0.1
"""Share of the attention in which words differ, below which it is the same for all of them."""


def attention_notes(
    readings: Iterable[Readings], choice: AlignmentChoice
) -> Iterator[str]:
    """Yield a sentence if the words of each output have nearly the same attention."""
    differences = list[float]()
    for reading in readings:
        words = reading.words(choice.layer, choice.head, choice.shifted)
        if len(words.weights) > 1:
            deviation = np.abs(words.weights - words.weights.mean(0))
            differences.append(float(deviation.sum(1).mean()) / 2)
    if differences and (share := sum(differences) / len(differences)) < SAME:
        yield (
            "attention is nearly the same for all words of an output (they differ in "
            f"{share:.0%} of it), so figures of it show nothing yet"
        )


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
