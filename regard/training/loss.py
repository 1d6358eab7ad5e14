"""Training losses: cross-entropy, R-Drop, guided attention and doubly stochastic attention.

The whole tensor of logits, B × T × V, never exists: output layer and cross-entropy are computed in
slices that fit in the cache, and the gradient of each slice is computed together with its logits,
in three matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from regard.attention import record_attention
from regard.common.shapes import Bool, Float, Int, Tensor
from regard.data.batch import TrainingBatch
from regard.data.vocabulary import PAD
from regard.models import Batch, Model
from regard.training.guided import Guide

SLICE = 256
"""Positions in a slice on a CPU."""
LARGE_SLICE = 2**24
"""Logits in a slice on a GPU, where each slice costs the launch of some thirty kernels."""


class Loss(NamedTuple):
    """Sums over the target tokens of a batch.

    `smoothed` is the loss to minimise, `cross_entropy` is in nats, and `tokens` is the number of
    tokens. With guided attention, `guided` is the divergence of the guided head in nats, summed
    over the tokens with links, and `linked` is their number. An objective may give both for a term
    of its own; the journal then has `guided` / `linked` as `guided`.
    """

    smoothed: Tensor
    cross_entropy: Tensor
    tokens: int
    guided: Tensor | None = None
    linked: Tensor | None = None

    def detached(self) -> Loss:
        """Return the loss without its autograd graph."""
        guided = None if self.guided is None else self.guided.detach()
        return self._replace(smoothed=self.smoothed.detach(), guided=guided)


LossFunction = Callable[[Model, TrainingBatch], Loss]
"""An objective: it computes the loss of a model on a batch, with teacher forcing. Several threads
call it at once.
"""


class Objective:
    """The training loss: `objective(model, batch)` returns it.

    `smoothing` is the share of label smoothing; `rdrop` and `doubly_stochastic` are the weights of
    these losses, and 0 turns them off.
    """

    def __init__(
        self,
        smoothing: float,
        rdrop: float = 0.0,
        guide: Guide | None = None,
        doubly_stochastic: float = 0.0,
    ) -> None:
        self.smoothing = smoothing
        self.rdrop = rdrop
        self.guide = guide
        self.doubly_stochastic = doubly_stochastic

    def __call__(self, model: Model, batch: TrainingBatch) -> Loss:
        kept = None
        targets = batch.target_out.flatten()
        if batch.tokens < len(targets):  # padding is left out
            kept = (targets != PAD).nonzero()[:, 0]
            targets = targets[kept]
        passes = [
            self._forward_pass(model, batch, kept)
            for _ in range(2 if self.rdrop else 1)
        ]
        features, divergences, penalties = zip(*passes, strict=True)

        output = model.decoder.output
        arguments = (output.weight, output.bias, targets, self.smoothing)
        if self.rdrop:
            first, second = features
            sums = rdrop_cross_entropy(first, second, *arguments, self.rdrop)
        else:
            sums = smoothed_cross_entropy(features[0], *arguments)
        loss = Loss(*sums, batch.tokens)
        if self.doubly_stochastic:
            penalty = self.doubly_stochastic * sum(penalties) / len(penalties)
            loss = loss._replace(smoothed=loss.smoothed + penalty)
        guided = [divergence for divergence in divergences if divergence is not None]
        if batch.links is None or not guided:
            return loss
        return self._add_guided(loss, guided, batch.links)

    def _forward_pass(
        self, model: Model, batch: TrainingBatch, kept: Tensor | None
    ) -> tuple[Float[Tensor, "M D"], Tensor | None, Tensor | int]:
        """Return features at the `kept` target positions (None: all), divergence and penalty.

        The divergence is that of the guided head, the penalty that of doubly stochastic attention.
        """
        with ExitStack() as stack:
            guided: Mapping[str, Tensor] = {}
            cross: Mapping[str, Tensor] = {}
            if self.guide is not None and batch.links is not None:
                layer = model.get_submodule(self.guide.layer)
                guided = stack.enter_context(record_attention(layer, gradients=True))
            if self.doubly_stochastic:
                cross = stack.enter_context(
                    record_attention(model, gradients=True, role="cross")
                )
            source = Batch(batch.source, batch.source_keep)
            features: Tensor = model(source, batch.target_in).flatten(0, 1)
        if kept is not None:
            features = features.index_select(0, kept)

        divergence: Tensor | None = None
        # Nothing was recorded if LayerDrop skipped the layer.
        if self.guide is not None and batch.links is not None and guided:
            divergence = self.guide.loss(guided[""], batch.links)
        penalties = [
            doubly_stochastic_penalty(weights, batch.target_out != PAD)
            for weights in cross.values()
        ]
        return features, divergence, torch.stack(penalties).mean() if penalties else 0

    def _add_guided(self, loss: Loss, divergences: list[Tensor], links: Tensor) -> Loss:
        """Add the guided attention loss, averaged over the passes that computed the layer."""
        assert self.guide is not None, "a divergence comes from a guided head"
        guided = torch.stack(divergences).mean()
        smoothed = loss.smoothed + self.guide.weight * guided
        return loss._replace(
            smoothed=smoothed, guided=guided, linked=links.any(2).sum()
        )


def doubly_stochastic_penalty(
    weights: Float[Tensor, "N H T S"], keep: Bool[Tensor, "N T"]
) -> Tensor:
    """Return the penalty of doubly stochastic attention (Xu et al. 2015, equation 14).

    It is Σ (1 − Σ α)², with the inner sum over target tokens and the outer over source entries,
    summed over all targets and averaged over heads. `keep` marks target tokens. Masked source
    entries, which have no weight at any step, are not counted.
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
    """Return the label-smoothed and the plain cross-entropy, summed over M positions.

    With label smoothing (Szegedy et al. 2016, section 7) the target has 1 − smoothing of the
    probability mass, and all V tokens share the rest. Only the smoothed one has a gradient.
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
    """Return the R-Drop loss of two passes with different dropout, summed over M positions.

    It is the mean smoothed cross-entropy of both passes, plus rdrop / 2 times the mean of the two
    KL divergences between their predictions (Liang et al. 2021, equations 1 to 3, halved). Also
    returns the plain cross-entropy, which is the mean of both passes too.
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
    ) -> tuple[Tensor, Tensor]:
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
                    positions = torch.arange(len(error), device=error.device)
                    probs[positions, targets[rows]] = error.to(low)
                    _accumulate(grads, rows, probs, F, W)
        if needed:
            _subtract_smoothing(grads, F, columns, smoothing / V)
            ctx.save_for_backward(*grads)
            ctx.dtype = features.dtype
        ctx.mark_non_differentiable(cross_entropy)
        return smoothed, cross_entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
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
    ) -> tuple[Tensor, Tensor]:
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
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        first, second, weight, bias = ctx.saved_tensors
        features = [tensor.to(ctx.dtype).mul_(gradient) for tensor in (first, second)]
        return *features, weight.mul_(gradient), bias.mul_(gradient), None, None, None


def _rows_at_once(features: Tensor, vocabulary: int) -> int:
    """Return the number of rows in a slice, which is even."""
    return SLICE if features.is_cpu else max(SLICE, LARGE_SLICE // vocabulary // 2 * 2)


def _interleave(first: Tensor, second: Tensor, count: int) -> Tensor:
    """Alternate slices of `count` rows of the first and of the second tensor."""
    pairs = zip(torch.split(first, count), torch.split(second, count), strict=True)
    return torch.cat([torch.cat(pair) for pair in pairs])


def _log_partition(logits: Tensor, at_target: Tensor, prob: Tensor) -> Tensor:
    """Return the logarithm of the softmax denominator of each row.

    On a CPU it follows from the target's logit and probability, unless that probability underflows.
    """
    if not logits.is_cpu:  # the test for underflow would wait for the device
        return logits.float().logsumexp(1)
    total = at_target - prob.log()
    underflow = prob < torch.finfo(torch.float32).tiny
    if bool(underflow.any()):
        return torch.where(underflow, logits.float().logsumexp(1), total)
    return total


def _accumulate(
    grads: tuple[Tensor, ...],
    rows: slice,
    error: Tensor,
    inputs: Tensor,
    outputs: Tensor,
) -> None:
    """Add the gradients of features, weight and bias, given the gradient `error` of logits."""
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
    """Subtract the gradient of label smoothing, which is equal for all tokens."""
    features, weight, bias = grads
    features.sub_((share * columns).to(features.dtype))
    weight.sub_(share * inputs.float().sum(0))
    bias.sub_(share * len(inputs))


def _product_dtype(features: Tensor) -> torch.dtype:
    """Return the dtype of matrix products: the autocast dtype, if autocast is on."""
    device = features.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return features.dtype
