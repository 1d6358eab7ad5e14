"""Scheduled sampling: the decoder reads some of its own tokens in training, instead of those of the
reference.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from regard.common.shapes import Float, Int, Tensor
from regard.data.batch import TrainingBatch
from regard.models import Batch, Model

SLICE = 256  # positions whose logits are computed at once


@torch.no_grad()
def sample_target_inputs(
    model: Model, batch: TrainingBatch, probability: float, generator: torch.Generator
) -> TrainingBatch:
    """The batch with each target input replaced, with this probability, by a token drawn from the
    model's prediction.

    Bengio et al. 2015, in two passes (Mihaylova and Martins 2019), so that it serves every decoder:
    the first pass reads the reference and predicts all positions at once; tokens drawn from these
    predictions are the inputs of the next positions in the second pass. The first input, the
    beginning of the sentence, is never replaced.
    """
    features = model(Batch(batch.source, batch.source_keep), batch.target_in)
    sampled = _sample_tokens(model, features[:, :-1], generator)
    reference = batch.target_in[:, 1:]
    replaced = (
        torch.rand(reference.shape, generator=generator, device=reference.device)
        < probability
    )
    return replace(
        batch,
        target_in=torch.cat(
            [batch.target_in[:, :1], torch.where(replaced, sampled, reference)], 1
        ),
    )


def _sample_tokens(
    model: Model, features: Float[Tensor, "B T D"], generator: torch.Generator
) -> Int[Tensor, "B T"]:
    """Draw a token for each position by its probability: the argmax of logits with Gumbel noise
    (Gumbel 1954).
    """
    B, T, _ = features.shape
    tokens = []
    for rows in torch.split(features.flatten(0, 1), SLICE):
        logits = model.project(rows.unsqueeze(0))[0].float()
        noise = torch.empty_like(logits).exponential_(generator=generator).log_()
        tokens.append((logits - noise).argmax(-1))
    return (
        torch.cat(tokens).view(B, T)
        if tokens
        else features.new_zeros(B, T, dtype=torch.int64)
    )
