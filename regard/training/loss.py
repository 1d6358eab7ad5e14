"""Training losses: label-smoothed cross-entropy, R-Drop, guided attention, doubly stochastic
attention.

The whole B × T × V tensor of logits never exists: output layer and cross-entropy are computed in
slices that stay in cache, and the gradient of each slice is formed together with its logits, in
three matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from regard.attention import record_attention
from regard.common.shapes import Bool, Float, Int, Tensor
from regard.data.batch import TrainingBatch
from regard.data.vocabulary import PAD
from regard.models import Batch, Model
from regard.training.guided import Guide

SLICE = 256  # positions whose logits are computed at once on a CPU
# Logits computed at once elsewhere, where each slice costs the launch of some thirty kernels.
LARGE_SLICE = 2**24


class Loss(NamedTuple):
    """Sums over the target tokens of a batch: the minimised loss, the plain cross-entropy in nats,
    their number.

    With guided attention, `guided` is the divergence of the guided head in nats, summed over the
    `linked` tokens.
    """

    smoothed: Tensor
    cross_entropy: Tensor
    tokens: int
    guided: Tensor | None = None
    linked: Tensor | None = None

    def detached(self) -> Loss:
        """The numbers without their graph of gradients."""
        guided = None if self.guided is None else self.guided.detach()
        return self._replace(smoothed=self.smoothed.detach(), guided=guided)


class Objective(nn.Module):
    """A model and its training loss: `objective(batch)` returns the loss.

    `smoothing` is that of labels, `rdrop` and `doubly_stochastic` are weights beside the
    cross-entropy; 0: off.
    """

    def __init__(
        self,
        model: Model,
        smoothing: float,
        rdrop: float = 0.0,
        guide: Guide | None = None,
        doubly_stochastic: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.rdrop = rdrop
        self.guide = guide
        self.doubly_stochastic = doubly_stochastic

    def forward(self, batch: TrainingBatch) -> Loss:
        kept = None
        targets = batch.target_out.flatten()
        if batch.tokens < len(targets):
            kept = (targets != PAD).nonzero()[:, 0]
            targets = targets[kept]
        passes = [
            self._forward_pass(batch, kept) for _ in range(2 if self.rdrop else 1)
        ]
        features, divergences, penalties = zip(*passes, strict=True)
        output = self.model.decoder.output
        arguments = (output.weight, output.bias, targets, self.smoothing)
        if self.rdrop:
            loss = Loss(
                *rdrop_cross_entropy(features[0], features[1], *arguments, self.rdrop),
                batch.tokens,
            )
        else:
            loss = Loss(*smoothed_cross_entropy(features[0], *arguments), batch.tokens)
        if self.doubly_stochastic:
            penalty = self.doubly_stochastic * sum(penalties) / len(penalties)
            loss = loss._replace(smoothed=loss.smoothed + penalty)
        guided = [divergence for divergence in divergences if divergence is not None]
        return (
            loss
            if batch.links is None or not guided
            else self._add_guided(loss, guided, batch.links)
        )

    def _forward_pass(
        self, batch: TrainingBatch, kept: Tensor | None
    ) -> tuple[Float[Tensor, "M D"], Tensor | None, Tensor | int]:
        """The features at the `kept` target positions (None: all), the divergence of the guided
        head, and the doubly stochastic penalty.
        """
        with ExitStack() as stack:
            guided: Mapping[str, Tensor] = {}
            cross: Mapping[str, Tensor] = {}
            if self.guide is not None and batch.links is not None:
                layer = self.model.get_submodule(self.guide.layer)
                guided = stack.enter_context(record_attention(layer, gradients=True))
            if self.doubly_stochastic:
                cross = stack.enter_context(
                    record_attention(self.model, gradients=True, role="cross")
                )
            features: Tensor = self.model(
                Batch(batch.source, batch.source_keep), batch.target_in
            ).flatten(0, 1)
        features = features if kept is None else features.index_select(0, kept)
        divergence: Tensor | None = None
        # LayerDrop may leave the layer out.
        if self.guide is not None and batch.links is not None and guided:
            divergence = self.guide.loss(guided[""], batch.links)
        penalties = [
            doubly_stochastic_penalty(weights, batch.target_out != PAD)
            for weights in cross.values()
        ]
        return features, divergence, torch.stack(penalties).mean() if penalties else 0

    def _add_guided(self, loss: Loss, divergences: list[Tensor], links: Tensor) -> Loss:
        """Add the guided attention loss, the mean of the passes in which the guided layer was
        computed.
        """
        assert self.guide is not None, "a divergence comes from a guided head"
        guided = torch.stack(divergences).mean()
        smoothed = loss.smoothed + self.guide.weight * guided
        return loss._replace(
            smoothed=smoothed, guided=guided, linked=links.any(2).sum()
        )


def doubly_stochastic_penalty(
    weights: Float[Tensor, "N H T S"], keep: Bool[Tensor, "N T"]
) -> Tensor:
    """Doubly stochastic attention: Σ (1 − Σ α)², the inner sum over target tokens, the outer over
    source entries.

    Xu et al. 2015, equation 14: the sum over all targets, the mean over heads. `keep` marks target
    tokens; masked source entries have no weight at any step, and are not counted.
    """
    totals = (weights * keep[:, None, :, None]).sum(2)  # (N, H, S)
    return (1 - totals).square().masked_fill(totals == 0, 0).sum((0, 2)).mean()


def smoothed_cross_entropy(
    features: Float[Tensor, "M D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"],
    targets: Int[Tensor, " M"],
    smoothing: float,
) -> tuple[Tensor, Tensor]:
    """Sums over M positions of the label-smoothed (Szegedy et al. 2016, section 7) and the plain
    cross-entropy.

    The target has 1 − smoothing of the probability mass, all V tokens share the rest. Only the
    first has a gradient.
    """
    smoothed, cross_entropy = _SlicedCrossEntropy.apply(
        features, weight, bias, targets, smoothing
    )  # type: ignore[no-untyped-call]
    return smoothed, cross_entropy


def rdrop_cross_entropy(  # noqa: PLR0913 - the terms of the equation
    first: Float[Tensor, "M D"],
    second: Float[Tensor, "M D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"],
    targets: Int[Tensor, " M"],
    smoothing: float,
    rdrop: float,
) -> tuple[Tensor, Tensor]:
    """R-Drop (Liang et al. 2021, equations 1 to 3, halved): the mean smoothed cross-entropy of two
    passes that differ by their dropout, plus rdrop / 2 times the mean of the two divergences
    between their predictions.

    Returns the sum over M positions, and that of the plain cross-entropy, also a mean of both
    passes.
    """
    smoothed, cross_entropy = _SlicedRDrop.apply(
        first, second, weight, bias, targets, smoothing, rdrop
    )  # type: ignore[no-untyped-call]
    return smoothed, cross_entropy


class _SlicedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
    ) -> Any:
        low = _product_dtype(features)
        V = weight.shape[0]
        F = features.to(low)
        W = weight.to(low)
        b = bias.to(low)
        columns = weight.sum(0)
        needed = any(ctx.needs_input_grad)
        smoothed, cross_entropy = features.new_zeros(2, dtype=torch.float32).unbind()
        grads = (
            (torch.empty_like(F), torch.zeros_like(weight), torch.zeros_like(bias))
            if needed
            else ()
        )
        with torch.autocast(features.device.type, enabled=False):
            for start in range(0, len(F), count := _rows_at_once(F, V)):
                rows = slice(start, start + count)
                logits = torch.addmm(b, F[rows], W.t())  # (M', V)
                probs = logits.softmax(1)
                at_target = logits.gather(1, targets[rows, None])[:, 0].float()
                mean = (F[rows].float() @ columns + bias.sum()) / V
                total = _log_partition(
                    logits,
                    at_target,
                    probs.gather(1, targets[rows, None])[:, 0].float(),
                )
                cross_entropy = cross_entropy + (total - at_target).sum()
                smoothed = (
                    smoothed
                    + (total - (1 - smoothing) * at_target - smoothing * mean).sum()
                )
                if needed:
                    error = (at_target - total).exp() - (1 - smoothing)
                    probs[
                        torch.arange(len(error), device=error.device), targets[rows]
                    ] = error.to(low)
                    _accumulate(grads, rows, probs, F, W)
        if needed:
            _subtract_smoothing(grads, F, columns, smoothing / V)
            ctx.save_for_backward(*grads)
            ctx.dtype = features.dtype
        ctx.mark_non_differentiable(cross_entropy)
        return smoothed, cross_entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Any:
        features, weight, bias = ctx.saved_tensors
        return (
            features.to(ctx.dtype).mul_(gradient),
            weight.mul_(gradient),
            bias.mul_(gradient),
            None,
            None,
        )


class _SlicedRDrop(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0913 - autograd passes all inputs by position
        ctx: Any,
        first: Tensor,
        second: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
        rdrop: float,
    ) -> Any:
        low = _product_dtype(first)
        V = weight.shape[0]
        W = weight.to(low)
        b = bias.to(low)
        columns = weight.sum(0)
        count = _rows_at_once(first, V) // 2
        # Slices of both passes alternate, so that one matrix product serves both.
        F = _interleave(first.to(low), second.to(low), count)
        T = _interleave(targets, targets, count)
        smoothed, cross_entropy = first.new_zeros(2, dtype=torch.float32).unbind()
        grads = (torch.empty_like(F), torch.zeros_like(weight), torch.zeros_like(bias))
        with torch.autocast(first.device.type, enabled=False):
            for start in range(0, len(F), 2 * count):
                rows = slice(start, start + 2 * count)
                log_probs = torch.addmm(b, F[rows], W.t()).float()
                totals = log_probs.logsumexp(1)
                mean = (F[rows].float() @ columns + bias.sum()) / V
                at_target = log_probs.gather(1, T[rows, None])[:, 0]
                cross_entropy = cross_entropy + (totals - at_target).sum() / 2
                smoothed = (
                    smoothed
                    + (totals - (1 - smoothing) * at_target - smoothing * mean).sum()
                    / 2
                )
                log_probs.sub_(totals[:, None])
                probs = log_probs.exp()
                M = len(log_probs) // 2
                log_ratio = log_probs[:M] - log_probs[M:]
                p = probs[:M]
                q = probs[M:]
                kl_pq = (p * log_ratio).sum(1, keepdim=True)
                kl_qp = -(q * log_ratio).sum(1, keepdim=True)
                smoothed = smoothed + (kl_pq + kl_qp).sum() * (rdrop / 4)
                # Gradient of the divergences by the logits: p · (log p − log q − KL(p‖q)) + p − q,
                # and p, q swapped.
                error = torch.empty_like(log_probs)
                difference = (p - q).mul_(rdrop / 4)
                torch.sub(log_ratio, kl_pq, out=error[:M]).mul_(p).mul_(rdrop / 4).add_(
                    difference
                ).add_(p, alpha=0.5)
                torch.add(log_ratio, kl_qp, out=error[M:]).mul_(q).mul_(
                    -rdrop / 4
                ).sub_(difference).add_(q, alpha=0.5)
                error[torch.arange(len(error), device=error.device), T[rows]] -= (
                    1 - smoothing
                ) / 2
                _accumulate(grads, rows, error.to(low), F, W)
        _subtract_smoothing(grads, F, columns, smoothing / V / 2)
        halves = [pair.chunk(2) for pair in torch.split(grads[0], 2 * count)]
        ctx.save_for_backward(
            *(torch.cat(parts) for parts in zip(*halves, strict=True)), *grads[1:]
        )
        ctx.dtype = first.dtype
        ctx.mark_non_differentiable(cross_entropy)
        return smoothed, cross_entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Any:
        first, second, weight, bias = ctx.saved_tensors
        features = [tensor.to(ctx.dtype).mul_(gradient) for tensor in (first, second)]
        return *features, weight.mul_(gradient), bias.mul_(gradient), None, None, None


def _rows_at_once(features: Tensor, vocabulary: int) -> int:
    """The even number of rows in a slice."""
    return SLICE if features.is_cpu else max(SLICE, LARGE_SLICE // vocabulary // 2 * 2)


def _interleave(first: Tensor, second: Tensor, count: int) -> Tensor:
    """`count` rows of the first, as many of the second, and so on."""
    pairs = zip(torch.split(first, count), torch.split(second, count), strict=True)
    return torch.cat([torch.cat(pair) for pair in pairs])


def _log_partition(logits: Tensor, at_target: Tensor, prob: Tensor) -> Tensor:
    """The logarithm of the softmax denominator of each row, on a CPU from its target's probability
    if that is not 0.
    """
    if not logits.is_cpu:  # to ask whether one is 0 would wait for the device
        return logits.float().logsumexp(1)
    total = at_target - prob.log()
    underflow = prob < torch.finfo(torch.float32).tiny
    return (
        torch.where(underflow, logits.float().logsumexp(1), total)
        if bool(underflow.any())
        else total
    )


def _accumulate(
    grads: tuple[Tensor, ...],
    rows: slice,
    error: Tensor,
    inputs: Tensor,
    outputs: Tensor,
) -> None:
    """Add the gradients of features, weight and bias that follow from the gradient of some rows'
    logits.
    """
    features, weight, bias = grads
    torch.mm(error, outputs, out=features[rows])
    bias.add_(error.sum(0))
    if inputs.dtype == weight.dtype:
        weight.addmm_(error.t(), inputs[rows])
    else:
        weight.add_(torch.mm(error.t(), inputs[rows]))


def _subtract_smoothing(
    grads: tuple[Tensor, ...], inputs: Tensor, columns: Tensor, share: float
) -> None:
    """Subtract the gradient of label smoothing, which is the same for every token of the
    vocabulary.
    """
    features, weight, bias = grads
    features.sub_((share * columns).to(features.dtype))
    weight.sub_(share * inputs.float().sum(0))
    bias.sub_(share * len(inputs))


def _product_dtype(features: Tensor) -> torch.dtype:
    """The type of matrix products: that of autocast, if it is on."""
    device = features.device.type
    return (
        torch.get_autocast_dtype(device)
        if torch.is_autocast_enabled(device)
        else features.dtype
    )
