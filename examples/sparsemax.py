"""Sparsemax (Martins and Astudillo 2016): weights that are exactly 0 for most entries.

    regard train --preset rnn-bahdanau --set model.decoder.normaliser=sparsemax \
                 --source train.ko --target train.en --plugin ./sparsemax.py --out runs/sparsemax

Sparsemax is the point of the simplex that is nearest to the scores. Its weights are max(0, z − τ),
with the threshold τ by which they sum to one. Autograd finds the gradient of the paper: the sort
gives the support, and τ is a mean over it.
"""

from __future__ import annotations

import torch
from torch import Tensor

import regard


@regard.register_normaliser("sparsemax")
def sparsemax(scores: Tensor, keep: Tensor | None) -> Tensor:
    """Turn scores (R, H, T, S) into sparse weights that sum to one over the visible entries."""
    if keep is not None:
        scores = scores.masked_fill(~keep, -1e9)
    z = scores - scores.amax(-1, keepdim=True)  # the same weights, with smaller numbers
    ordered = z.sort(-1, descending=True).values
    counts = torch.arange(1, z.shape[-1] + 1, device=z.device)
    sums = ordered.cumsum(-1)
    support = (1 + counts * ordered > sums).sum(-1, keepdim=True)
    threshold = (sums.gather(-1, support - 1) - 1) / support
    weights = (z - threshold).clamp(min=0)
    return weights if keep is None else weights.masked_fill(~keep, 0)
