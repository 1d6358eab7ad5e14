"""Supervised attention (Liu et al. 2016): an auxiliary loss by word alignments.

    python supervised_attention.py train.ko train.en train.align runs/supervised

The weights of every cross-attention, averaged over its heads, learn the links of each target token,
by their cross-entropy beside that of the translation. Without alignments of the pairs there is no
such loss. The run is resumed with the same objective: `resume()` below.
"""

from __future__ import annotations

import sys

import torch

import regard
from regard.attention import record_attention
from regard.data.batch import TrainingBatch
from regard.models import Model
from regard.training.loss import Loss, Objective


class SupervisedAttention:
    """The loss of the translation, plus `weight` times that of the attention."""

    def __init__(self, weight: float = 0.3, smoothing: float = 0.1) -> None:
        self.weight = weight
        self.translation = Objective(smoothing)

    def __call__(self, model: Model, batch: TrainingBatch) -> Loss:
        """Return the sums over the target tokens of a batch."""
        with record_attention(model, gradients=True, role="cross") as layers:
            loss = self.translation(model, batch)
        if batch.links is None or not layers:
            return loss
        terms = []
        for weights in layers.values():  # (B, H, T, S)
            smallest = torch.finfo(weights.dtype).tiny
            log_weights = weights.mean(1).clamp_min(smallest).log()
            terms.append(-(batch.links * log_weights).sum())
        attention = torch.stack(terms).mean()
        return loss._replace(
            smoothed=loss.smoothed + self.weight * attention,
            guided=attention,  # the journal has its mean over the linked tokens
            linked=batch.links.any(2).sum(),
        )


def train(source: str, target: str, alignments: str, out: str) -> regard.Run:
    """Train a recurrent model whose attention learns the alignments."""
    return regard.train(
        source=source,
        target=target,
        alignments=alignments,
        preset="rnn-bahdanau",
        objective=SupervisedAttention(),
        out=out,
    )


def resume(out: str) -> regard.Run:
    """Continue the run."""
    return regard.train(out=out, resume=True, objective=SupervisedAttention())


if __name__ == "__main__":
    train(*sys.argv[1:])
