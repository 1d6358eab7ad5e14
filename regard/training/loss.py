"""Label-smoothed cross-entropy that never makes the whole B × T × V tensor.

The output layer and the loss are computed in slices that stay in cache, and the gradient of each slice is formed while
its logits are at hand: three matrix products and a handful of passes, no logits kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from regard.attention import watch
from regard.data.batch import TrainingBatch
from regard.data.vocabulary import PAD
from regard.models import Batch, Model
from regard.shapes import Bool, Float, Int, Tensor
from regard.training.guided import Guide

__all__ = ["Loss", "Objective", "consistent_cross_entropy", "doubly_stochastic_penalty", "smoothed_cross_entropy"]

SLICE = 256


class Loss(NamedTuple):
    """Sums over the real target pieces of a batch: what is minimised, the plain cross-entropy in nats, how many.

    Where attention is guided, `guided` is how far it looks elsewhere (a divergence, in nats), over the `linked` pieces.
    """

    smoothed: Tensor
    entropy: Tensor
    tokens: int
    guided: Tensor | None = None
    linked: Tensor | None = None

    def detached(self) -> Loss:
        """The numbers without what they were computed from."""
        guided = None if self.guided is None else self.guided.detach()
        return self._replace(smoothed=self.smoothed.detach(), guided=guided)


class Objective(nn.Module):
    """A model and what it is trained for: `objective(batch)` gives the loss.

    `even`: how much every entry of the source is to be looked at once in all.
    """

    def __init__(
        self, model: Model, smoothing: float, rdrop: float = 0.0, guide: Guide | None = None, even: float = 0.0
    ) -> None:
        super().__init__()
        self.model, self.smoothing, self.rdrop, self.guide, self.even = model, smoothing, rdrop, guide, even

    def forward(self, batch: TrainingBatch) -> Loss:
        real, targets = None, batch.target_out.flatten()
        if batch.tokens < len(targets):
            real = (targets != PAD).nonzero()[:, 0]
            targets = targets[real]
        passes = [self._pass(batch, real) for _ in range(2 if self.rdrop else 1)]
        told, looked, uneven = zip(*passes, strict=True)
        output = self.model.decoder.output
        given = (output.weight, output.bias, targets, self.smoothing)
        if self.rdrop:
            loss = Loss(*consistent_cross_entropy(told[0], told[1], *given, self.rdrop), batch.tokens)
        else:
            loss = Loss(*smoothed_cross_entropy(told[0], *given), batch.tokens)
        if self.even:
            loss = loss._replace(smoothed=loss.smoothed + self.even * sum(uneven) / len(uneven))
        heard = [guided for guided in looked if guided is not None]
        return loss if batch.links is None or not heard else self._with(loss, heard, batch.links)

    def _pass(
        self, batch: TrainingBatch, real: Tensor | None
    ) -> tuple[Float[Tensor, "M D"], Tensor | None, Tensor | int]:
        """What the model says at the real target positions, how far the guided head looked elsewhere meanwhile, and how
        unevenly all heads looked.
        """
        with ExitStack() as stack:
            guided: Mapping[str, Tensor] = {}
            crossing: Mapping[str, Tensor] = {}
            if self.guide is not None and batch.links is not None:
                part = self.model.get_submodule(self.guide.layer)
                guided = stack.enter_context(watch(part, gradients=True))
            if self.even:
                crossing = stack.enter_context(watch(self.model, gradients=True, role="cross"))
            features = self._features(batch, real)
        looked: Tensor | None = None
        if self.guide is not None and batch.links is not None and guided:  # a layer that is left out is not heard
            looked = self.guide.loss(guided[""], batch.links)
        parts = [doubly_stochastic_penalty(weights, batch.target_out != PAD) for weights in crossing.values()]
        return features, looked, torch.stack(parts).mean() if parts else 0

    def _features(self, batch: TrainingBatch, real: Tensor | None) -> Float[Tensor, "M D"]:
        flat: Tensor = self.model(Batch(batch.source, batch.source_keep), batch.target_in).flatten(0, 1)
        return flat if real is None else flat.index_select(0, real)

    def _with(self, loss: Loss, heard: list[Tensor], links: Tensor) -> Loss:
        """The loss and the guided one, of which each pass that was heard has its share."""
        assert self.guide is not None, "who is heard is guided"
        guided = torch.stack(heard).mean()
        smoothed = loss.smoothed + self.guide.weight * guided
        return loss._replace(smoothed=smoothed, guided=guided, linked=links.any(2).sum())


def doubly_stochastic_penalty(weights: Float[Tensor, "N H T S"], written: Bool[Tensor, "N T"]) -> Tensor:
    """Σ (1 − Σ α)², the inner sum over the pieces of a target, the outer over the entries of its source.

    Doubly stochastic attention (Xu et al. 2015, equation 14): the sum over all targets, the mean over heads. What may
    not be read has no weight at any time, and is not counted.
    """
    looked = (weights * written[:, None, :, None]).sum(2)  # (N, H, S)
    return (1 - looked).square().masked_fill(looked == 0, 0).sum((0, 2)).mean()


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


def consistent_cross_entropy(
    first: Float[Tensor, "M D"],
    second: Float[Tensor, "M D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"],
    targets: Int[Tensor, " M"],
    smoothing: float,
    rdrop: float,
) -> tuple[Tensor, Tensor]:
    """R-Drop (Liang et al. 2021, equations 1 to 3, halved): the mean smoothed cross-entropy of two passes that differ
    by their dropout, plus rdrop / 2 times the mean of the two divergences between what they predict.

    Returns the sum over M positions, and that of the plain cross-entropy, a mean of both passes too.
    """
    smoothed, entropy = _Paired.apply(first, second, weight, bias, targets, smoothing, rdrop)  # type: ignore[no-untyped-call]
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


class _Paired(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
        a: float,
    ) -> Any:
        low = _low_precision(first)
        V, W, b, columns = weight.shape[0], weight.to(low), bias.to(low), weight.sum(0)
        count = SLICE // 2
        # Slices of both passes in turn, so that one product serves both.
        F, T = _in_turn(first.to(low), second.to(low), count), _in_turn(targets, targets, count)
        smoothed, entropy = first.new_zeros(2, dtype=torch.float32).unbind()
        grads = (torch.empty_like(F), torch.zeros_like(weight), torch.zeros_like(bias))
        with torch.autocast(first.device.type, enabled=False):
            for start in range(0, len(F), 2 * count):
                rows = slice(start, start + 2 * count)
                logs = torch.addmm(b, F[rows], W.t()).float()
                totals = logs.logsumexp(1)
                mean = (F[rows].float() @ columns + bias.sum()) / V
                at_target = logs.gather(1, T[rows, None])[:, 0]
                entropy = entropy + (totals - at_target).sum() / 2
                smoothed = smoothed + (totals - (1 - smoothing) * at_target - smoothing * mean).sum() / 2
                logs.sub_(totals[:, None])
                chances = logs.exp()
                M = len(logs) // 2
                apart = logs[:M] - logs[M:]
                one, other = chances[:M], chances[M:]
                there, back = (one * apart).sum(1, keepdim=True), -(other * apart).sum(1, keepdim=True)
                smoothed = smoothed + (there + back).sum() * (a / 4)
                # Of the divergences by the logits: p · (log p − log q − KL(p‖q)) + p − q, and the same the other way.
                error = torch.empty_like(logs)
                across = (one - other).mul_(a / 4)
                torch.sub(apart, there, out=error[:M]).mul_(one).mul_(a / 4).add_(across).add_(one, alpha=0.5)
                torch.add(apart, back, out=error[M:]).mul_(other).mul_(-a / 4).sub_(across).add_(other, alpha=0.5)
                error[torch.arange(len(error), device=error.device), T[rows]] -= (1 - smoothing) / 2
                _accumulate(grads, rows, error.to(low), F, W)
        _smooth(grads, F, columns, smoothing / V / 2)
        halves = [pair.chunk(2) for pair in torch.split(grads[0], 2 * count)]
        ctx.save_for_backward(*(torch.cat(parts) for parts in zip(*halves, strict=True)), *grads[1:])
        ctx.dtype = first.dtype
        ctx.mark_non_differentiable(entropy)
        return smoothed, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Any:
        first, second, weight, bias = ctx.saved_tensors
        features = [some.to(ctx.dtype).mul_(gradient) for some in (first, second)]
        return *features, weight.mul_(gradient), bias.mul_(gradient), None, None, None


def _in_turn(first: Tensor, second: Tensor, count: int) -> Tensor:
    """`count` rows of one, as many of the other, and so on."""
    pairs = zip(torch.split(first, count), torch.split(second, count), strict=True)
    return torch.cat([torch.cat(pair) for pair in pairs])


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
