"""Scheduled sampling: in training the decoder reads some of its own predictions."""

from __future__ import annotations

from dataclasses import replace

import torch

from regard.common.shapes import Float, Int, Tensor
from regard.data.batch import TrainingBatch
from regard.models import Batch, Model

SLICE = 256
"""Positions whose logits are computed together."""


@torch.no_grad()
def sample_target_inputs(
    model: Model, batch: TrainingBatch, probability: float, generator: torch.Generator
) -> TrainingBatch:
    """Replace target inputs, with this probability, by tokens drawn from the model's predictions.

    The method of Bengio et al. 2015 in two passes (Mihaylova and Martins 2019), which fits every
    decoder: the first pass reads the reference and predicts all positions at once, and tokens drawn
    from these predictions are inputs of the second pass. The first input, beginning of sentence, is
    never replaced.
    """
    features = model(Batch(batch.source, batch.source_keep), batch.target_in)
    sampled = _sample_tokens(model, features[:, :-1], generator)
    reference = batch.target_in[:, 1:]
    draws = torch.rand(reference.shape, generator=generator, device=reference.device)
    inputs = torch.where(draws < probability, sampled, reference)
    return replace(batch, target_in=torch.cat([batch.target_in[:, :1], inputs], 1))


def _sample_tokens(
    model: Model, features: Float[Tensor, "B T D"], generator: torch.Generator
) -> Int[Tensor, "B T"]:
    """Draw a token for each position by its probability.

    It is the argmax of the logits plus Gumbel noise (Gumbel 1954).
    """
    B, T, _ = features.shape
    tokens = []
    for rows in torch.split(features.flatten(0, 1), SLICE):
        logits = model.project(rows.unsqueeze(0))[0].float()
        noise = torch.empty_like(logits).exponential_(generator=generator).log_()
        tokens.append((logits - noise).argmax(-1))
    if not tokens:
        return features.new_zeros(B, T, dtype=torch.int64)
    return torch.cat(tokens).view(B, T)
