"""Forced decoding (teacher forcing) of given targets: attention weights, and the log-probability of
each token.

One pass over the very token ids, so that the weights are those of the target however a search found
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from regard.attention import Attention, record_attention
from regard.common.shapes import Array
from regard.data.batch import pad
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Ensemble, Model, SourceInput, source_length
from regard.search.loop import DecodingModel

MAX_ENTRIES = 2**14
"""Most attention entries of a batch, rows · max(S, T)²: its recorded weights are held at once."""


@dataclass(frozen=True, eq=False)
class ForcedDecoding:
    """Attention and log-probabilities of one forced target of T tokens, end of sentence last."""

    log_probs: Array  # (T,)
    # By layer: cross (H, T, S), encoder (H, S, S), decoder (H, T, T)
    weights: dict[str, Array]
    scores: dict[str, Array]  # that softmax makes them of
    roles: dict[str, str]  # of these layers: "encoder", "decoder", "cross"
    grid: tuple[int, int] | None = None  # rows and columns of the S cells of an image


def force_decode(
    model: Model | Ensemble,
    sources: Sequence[SourceInput],
    targets: Sequence[Sequence[int]],
    with_attention: bool = True,
    role: str | None = None,
) -> list[ForcedDecoding]:
    """Force a model to write each target (ids without end of sentence) after its source (ids with
    it, or an image).

    Sentences of similar lengths, and images of one size, share a batch. `role` limits the recorded
    attention to one of "encoder", "decoder" and "cross". Results are in the order of the sources.
    """
    order = sorted(
        range(len(sources)),
        key=lambda i: (_shape(sources[i]), len(targets[i]), source_length(sources[i])),
    )
    results: dict[int, ForcedDecoding] = {}
    model.eval()
    for rows in _batches(order, sources, targets):
        batch = _decode_batch(
            model,
            [sources[i] for i in rows],
            [targets[i] for i in rows],
            with_attention,
            role,
        )
        results |= zip(rows, batch, strict=True)
    return [results[i] for i in range(len(sources))]


def _shape(source: SourceInput) -> tuple[int, ...]:
    """Return the shape of an image; sources of one batch have the same."""
    return tuple(source.shape) if isinstance(source, torch.Tensor) else ()


def _batches(
    order: Sequence[int],
    sources: Sequence[SourceInput],
    targets: Sequence[Sequence[int]],
) -> Iterator[list[int]]:
    """Group neighbours into batches of at most MAX_ENTRIES."""
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
    records: list[Any] = [nullcontext({})] * 2
    if with_attention:
        records = [
            record_attention(model, role=role, scores=wants_scores)
            for wants_scores in (False, True)
        ]
    with records[0] as weights, records[1] as scores:
        source = decoder.encode(Batch.of(sources, device))
        features, _ = decoder.step(target_in.to(device), decoder.begin(source), source)
    log_probs = (
        decoder.project(features)
        .float()
        .log_softmax(-1)
        .gather(2, target_out.to(device)[..., None])[..., 0]
    )
    modules = model.named_modules()
    roles = {
        name: module.role
        for name, module in modules
        if isinstance(module, Attention) and name in weights
    }
    recorded = [
        {name: part[name].float().cpu().numpy() for name in roles}
        for part in (weights, scores)
    ]
    grid = source.grid
    lengths = [len(ids) if grid is None else grid[0] * grid[1] for ids in sources]
    return [
        ForcedDecoding(
            log_probs[row, :T].cpu().numpy(),
            _unpadded(recorded[0], roles, row, S, T),
            _unpadded(recorded[1], roles, row, S, T),
            roles,
            grid,
        )
        for row, (S, T) in enumerate(
            zip(lengths, (len(target) + 1 for target in targets), strict=True)
        )
    ]


def _unpadded(
    recorded: dict[str, Array], roles: dict[str, str], row: int, S: int, T: int
) -> dict[str, Array]:
    """Cut the weights or scores of a sentence of a batch to its own rows and columns, in each
    layer.
    """
    sizes = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
    shapes = {name: sizes[role] for name, role in roles.items()}
    return {
        name: recorded[name][row, :, :rows, :columns].copy()
        for name, (rows, columns) in shapes.items()
    }
