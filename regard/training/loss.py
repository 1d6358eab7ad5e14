"""Label-smoothed cross-entropy that never makes the whole B × T × V tensor.

The output layer and the loss are computed in slices that stay in cache, and the gradient of each slice is formed while
its logits are at hand: three matrix products and a handful of passes, no logits kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from regard.data.batching import PairBatch
from regard.data.tokenizer import PAD
from regard.models import Batch, Model
from regard.shapes import Float, Int, Tensor

__all__ = ["Loss", "Objective", "smoothed_cross_entropy"]

SLICE = 256


class Loss(NamedTuple):
    """Sums over the real target pieces of a batch: what is minimised, the plain cross-entropy in nats, how many."""

    smoothed: Tensor
    entropy: Tensor
    tokens: int

    def detached(self) -> Loss:
        """The numbers without what they were computed from."""
        return Loss(self.smoothed.detach(), self.entropy, self.tokens)


class Objective(nn.Module):
    """A model and what it is trained for: `objective(batch)` gives the loss."""

    def __init__(self, model: Model, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, batch: PairBatch) -> Loss:
        features = self.model(Batch(batch.source, batch.source_keep), batch.target_in)
        flat, targets = features.flatten(0, 1), batch.target_out.flatten()
        if batch.tokens < len(targets):
            real = (targets != PAD).nonzero()[:, 0]
            flat, targets = flat.index_select(0, real), targets[real]
        output = self.model.decoder.output
        smoothed, entropy = smoothed_cross_entropy(flat, output.weight, output.bias, targets, self.smoothing)
        return Loss(smoothed, entropy, batch.tokens)


def smoothed_cross_entropy(
    features: Float[Tensor, "M D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"],
    targets: Int[Tensor, " M"],
    smoothing: float,
) -> tuple[Tensor, Tensor]:
    """The sums over M positions of the smoothed (Szegedy et al. 2016, section 7) and of the plain cross-entropy.

    The target gets 1 − smoothing of the mass, all V pieces share the rest. Only the first sum has a gradient.
    """
    smoothed, entropy = _Sliced.apply(features, weight, bias, targets, smoothing)  # type: ignore[no-untyped-call]
    return smoothed, entropy


class _Sliced(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float) -> Any:
        low = _low_precision(features)
        V, F, W, b = weight.shape[0], features.to(low), weight.to(low), bias.to(low)
        columns, needed = weight.sum(0), any(ctx.needs_input_grad)
        smoothed, entropy = features.new_zeros(2, dtype=torch.float32).unbind()
        grads = (torch.empty_like(F), torch.zeros_like(weight), torch.zeros_like(bias)) if needed else ()
        with torch.autocast(features.device.type, enabled=False):
            for start in range(0, len(F), SLICE):
                rows = slice(start, start + SLICE)
                logits = torch.addmm(b, F[rows], W.t())  # (M', V)
                chances = logits.softmax(1)
                at_target = logits.gather(1, targets[rows, None])[:, 0].float()
                mean = (F[rows].float() @ columns + bias.sum()) / V
                total = _total(logits, at_target, chances.gather(1, targets[rows, None])[:, 0].float())
                entropy = entropy + (total - at_target).sum()
                smoothed = smoothed + (total - (1 - smoothing) * at_target - smoothing * mean).sum()
                if needed:
                    error = (at_target - total).exp() - (1 - smoothing)
                    chances[torch.arange(len(error), device=error.device), targets[rows]] = error.to(low)
                    _accumulate(grads, rows, chances, F, W)
        if needed:
            _smooth(grads, F, columns, smoothing / V)
            ctx.save_for_backward(*grads)
            ctx.dtype = features.dtype
        ctx.mark_non_differentiable(entropy)
        return smoothed, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Any:
        features, weight, bias = ctx.saved_tensors
        return features.to(ctx.dtype).mul_(gradient), weight.mul_(gradient), bias.mul_(gradient), None, None


def _total(logits: Tensor, at_target: Tensor, chance: Tensor) -> Tensor:
    """The logarithm of the sum that the softmax divided by, from one quotient of each row where that is not 0."""
    total, lost = at_target - chance.log(), chance < torch.finfo(torch.float32).tiny
    return torch.where(lost, logits.float().logsumexp(1), total) if bool(lost.any()) else total


def _accumulate(grads: tuple[Tensor, ...], rows: slice, error: Tensor, inputs: Tensor, outputs: Tensor) -> None:
    """Add what the gradient of some rows' logits says to the gradients of features, weight and bias."""
    features, weight, bias = grads
    torch.mm(error, outputs, out=features[rows])
    bias.add_(error.sum(0))
    if inputs.dtype == weight.dtype:
        weight.addmm_(error.t(), inputs[rows])
    else:
        weight.add_(torch.mm(error.t(), inputs[rows]))


def _smooth(grads: tuple[Tensor, ...], inputs: Tensor, columns: Tensor, share: float) -> None:
    """The part of the gradients that is the same for every piece: each gives up its share of the mass."""
    features, weight, bias = grads
    features.sub_((share * columns).to(features.dtype))
    weight.sub_(share * inputs.float().sum(0))
    bias.sub_(share * len(inputs))


def _low_precision(features: Tensor) -> torch.dtype:
    device = features.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features.dtype
