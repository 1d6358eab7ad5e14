"""Forced decoding (teacher forcing): attention weights and log-probabilities of given targets.

It is one forward pass over the token ids of the target, so the result does not depend on the search
that found them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from regard.attention import Attention, record_attention
from regard.common.shapes import Array, Tensor
from regard.data.batch import pad
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Ensemble, Model, SourceInput, source_length
from regard.search.loop import DecodingModel

MAX_ENTRIES = 2**14
"""Maximum number of attention entries of a batch, rows · max(S, T)²; their weights are in memory
together.
"""


@dataclass(frozen=True, eq=False)
class ForcedDecoding:
    """Attention and log-probabilities of one forced target of T tokens, end of sentence last."""

    log_probs: Array  # (T,)
    # By layer: (H, T, S) for cross-attention, (H, S, S) in encoders, (H, T, T) in decoders.
    weights: dict[str, Array]
    scores: dict[str, Array]  # attention scores before the softmax, by layer
    roles: dict[str, str]  # "encoder", "decoder" or "cross", by layer
    grid: tuple[int, int] | None = None  # rows and columns of the S cells of an image


def force_decode(
    model: Model | Ensemble,
    sources: Sequence[SourceInput],
    targets: Sequence[Sequence[int]],
    with_attention: bool = True,
    role: str | None = None,
) -> list[ForcedDecoding]:
    """Force a model to produce each target from its source.

    Targets are ids without end of sentence; sources are ids with it, or images. Sentences of
    similar lengths, and images of one size, share a batch; results are in the order of the sources.
    `role` limits the recorded attention to one of "encoder", "decoder" and "cross".
    """

    def sort_key(i: int) -> tuple[tuple[int, ...], int, int]:
        return _shape(sources[i]), len(targets[i]), source_length(sources[i])

    order = sorted(range(len(sources)), key=sort_key)
    results: dict[int, ForcedDecoding] = {}
    model.eval()
    for rows in _batches(order, sources, targets):
        batch_sources = [sources[i] for i in rows]
        batch_targets = [targets[i] for i in rows]
        batch = _decode_batch(model, batch_sources, batch_targets, with_attention, role)
        results.update(zip(rows, batch, strict=True))
    return [results[i] for i in range(len(sources))]


def _shape(source: SourceInput) -> tuple[int, ...]:
    """Return the shape of an image, or () for a sentence; one batch has sources of one shape."""
    return tuple(source.shape) if isinstance(source, torch.Tensor) else ()


def _batches(
    order: Sequence[int],
    sources: Sequence[SourceInput],
    targets: Sequence[Sequence[int]],
) -> Iterator[list[int]]:
    """Group neighbours in `order` into batches of at most MAX_ENTRIES attention entries."""
    rows: list[int] = []
    S = T = 0
    for i in order:
        S = max(S, source_length(sources[i]))
        T = max(T, len(targets[i]) + 1)
        differs = bool(rows) and _shape(sources[i]) != _shape(sources[rows[0]])
        if rows and (differs or (len(rows) + 1) * max(S, T) ** 2 > MAX_ENTRIES):
            yield rows
            rows = []
            S = source_length(sources[i])
            T = len(targets[i]) + 1
        rows.append(i)
    if rows:
        yield rows


@torch.inference_mode()
def _decode_batch(
    model: Model | Ensemble,
    sources: Sequence[SourceInput],
    targets: Sequence[Sequence[int]],
    with_attention: bool,
    role: str | None,
) -> list[ForcedDecoding]:
    decoder: DecodingModel = model
    device = model.device
    target_in = pad([[BOS, *ids] for ids in targets])[0]
    target_out = pad([[*ids, EOS] for ids in targets])[0]
    record_weights: AbstractContextManager[Mapping[str, Tensor]] = nullcontext({})
    record_scores: AbstractContextManager[Mapping[str, Tensor]] = nullcontext({})
    if with_attention:
        record_weights = record_attention(model, role=role)
        record_scores = record_attention(model, role=role, scores=True)
    with record_weights as weights, record_scores as scores:
        source = decoder.encode(Batch.of(sources, device))
        features, _ = decoder.step(target_in.to(device), decoder.begin(source), source)
    log_probs = decoder.project(features).float().log_softmax(-1)
    log_probs = log_probs.gather(2, target_out.to(device)[..., None])[..., 0]

    roles = {
        name: module.role
        for name, module in model.named_modules()
        if isinstance(module, Attention) and name in weights
    }
    weight_arrays = {name: weights[name].float().cpu().numpy() for name in roles}
    score_arrays = {name: scores[name].float().cpu().numpy() for name in roles}
    grid = source.grid
    results = []
    for row, (ids, target) in enumerate(zip(sources, targets, strict=True)):
        S = len(ids) if grid is None else grid[0] * grid[1]
        T = len(target) + 1
        results.append(
            ForcedDecoding(
                log_probs[row, :T].cpu().numpy(),
                _unpadded(weight_arrays, roles, row, S, T),
                _unpadded(score_arrays, roles, row, S, T),
                roles,
                grid,
            )
        )
    return results


def _unpadded(
    recorded: dict[str, Array], roles: dict[str, str], row: int, S: int, T: int
) -> dict[str, Array]:
    """Return the weights or scores of one sentence of a batch in each layer, without padding."""
    sizes = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
    shapes = {name: sizes[role] for name, role in roles.items()}
    return {
        name: recorded[name][row, :, :rows, :columns].copy()
        for name, (rows, columns) in shapes.items()
    }
