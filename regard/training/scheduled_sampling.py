"""Scheduled sampling: in training, some of the pieces that the decoder reads are its own and not the translator's."""

from __future__ import annotations

from dataclasses import replace

import torch

from regard.data.batch import TrainingBatch
from regard.models import Batch, Model
from regard.shapes import Float, Int, Tensor

__all__ = ["with_own_outputs"]

SLICE = 256


@torch.no_grad()
def with_own_outputs(
    model: Model, batch: TrainingBatch, probability: float, generator: torch.Generator
) -> TrainingBatch:
    """The batch with each target piece that is read replaced, with this probability, by one that the model draws there.

    Bengio et al. 2015, in two passes (Mihaylova and Martins 2019), so that it serves every decoder: the first pass
    reads the given pieces and predicts at all places at once; what is drawn from these predictions is then read, one
    place on. The beginning of the sentence is always given. With probability 1 only own outputs are read.
    """
    features = model(Batch(batch.source, batch.source_keep), batch.target_in)
    drawn = _drawn(model, features[:, :-1], generator)
    given = batch.target_in[:, 1:]
    own = torch.rand(given.shape, generator=generator, device=given.device) < probability
    return replace(batch, target_in=torch.cat([batch.target_in[:, :1], torch.where(own, drawn, given)], 1))


def _drawn(model: Model, features: Float[Tensor, "B T D"], generator: torch.Generator) -> Int[Tensor, "B T"]:
    """One piece for each place, by its probability: the largest of logits with Gumbel noise (Gumbel 1954)."""
    B, T, _ = features.shape
    pieces = []
    for some in torch.split(features.flatten(0, 1), SLICE):
        logits = model.project(some.unsqueeze(0))[0].float()
        noise = torch.empty_like(logits).exponential_(generator=generator).log_()
        pieces.append((logits - noise).argmax(-1))
    return torch.cat(pieces).view(B, T) if pieces else features.new_zeros(B, T, dtype=torch.int64)
