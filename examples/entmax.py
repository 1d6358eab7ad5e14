"""1.5-entmax (Peters et al. 2019): between softmax and sparsemax; small weights are exactly 0.

    regard train --preset rnn-bahdanau --set model.decoder.normaliser=entmax \
                 --source train.ko --target train.en --plugin ./entmax.py --out runs/entmax

The weights are max(0, z/2 − τ)², with the threshold τ by which they sum to one. For a support of k
entries with mean m and sum of squared deviations s of z/2, τ = m − √((1 − s) / k). Autograd finds
the gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

import regard


@regard.register_normaliser("entmax")
def entmax(scores: Tensor, keep: Tensor | None) -> Tensor:
    """Turn scores (R, H, T, S) into sparse weights that sum to one over the visible entries."""
    if keep is not None:
        scores = scores.masked_fill(~keep, -1e9)
    z = (scores - scores.amax(-1, keepdim=True)) / 2
    z = z.clamp(min=-2)  # below −1 every weight is 0
    ordered = z.sort(-1, descending=True).values
    counts = torch.arange(1, z.shape[-1] + 1, device=z.device)
    means = ordered.cumsum(-1) / counts
    deviations = (ordered**2).cumsum(-1) - counts * means**2
    radicands = (1 - deviations) / counts
    thresholds = means - radicands.detach().clamp(min=0).sqrt()
    support = (thresholds <= ordered).sum(-1, keepdim=True)
    threshold = means.gather(-1, support - 1) - radicands.gather(-1, support - 1).sqrt()
    weights = (z - threshold).clamp(min=0) ** 2
    return weights if keep is None else weights.masked_fill(~keep, 0)
