"""Made to write given targets: what a model looks at meanwhile, and how likely it finds each piece.

One pass of teacher forcing over the very pieces, so that what is read is right whatever search found them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.attention import Attention, watch
from regard.data.batch import pad
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Ensemble, Model, SourceInput, source_length

__all__ = ["ForcedDecoding", "force_decode"]

MOST = 2**14  # entries of a batch, sources times targets: what is read of them is held at once


@dataclass(frozen=True, eq=False)
class ForcedDecoding:
    """What a model did while it was made to write one target: T pieces, end of sentence last."""

    likely: npt.NDArray[np.float32]  # (T,) the log-probability of each piece
    weights: dict[str, npt.NDArray[np.float32]]  # (H, T, S), by layer; encoder: (H, S, S), decoder: (H, T, T)
    roles: dict[str, str]  # of these layers: "encoder", "decoder", "cross"
    grid: tuple[int, int] | None = None  # the rows and columns that S cells of a picture stand in


def force_decode(
    model: Model | Ensemble,
    sources: Sequence[SourceInput],
    targets: Sequence[Sequence[int]],
    watched: bool = True,
    role: str | None = None,
) -> list[ForcedDecoding]:
    """Make a model write each target (without end of sentence) after its source (with it); in their order.

    Sentences of like lengths go together, and pictures of one size; `watched` says whether what is looked at is wanted,
    `role` that of which reads only ("encoder", "decoder" or "cross").
    """
    order = sorted(range(len(sources)), key=lambda i: (_shape(sources[i]), len(targets[i]), source_length(sources[i])))
    found: dict[int, ForcedDecoding] = {}
    model.eval()
    for rows in _batches(order, sources, targets):
        some = _batch(model, [sources[i] for i in rows], [targets[i] for i in rows], watched, role)
        found |= zip(rows, some, strict=True)
    return [found[i] for i in range(len(sources))]


def _shape(source: SourceInput) -> tuple[int, ...]:
    """What those that go together have in common."""
    return tuple(source.shape) if isinstance(source, torch.Tensor) else ()


def _batches(
    order: Sequence[int], sources: Sequence[SourceInput], targets: Sequence[Sequence[int]]
) -> Iterator[list[int]]:
    """Neighbours together, as many as keep within MOST."""
    rows: list[int] = []
    S = T = 0
    for i in order:
        S, T = max(S, source_length(sources[i])), max(T, len(targets[i]) + 1)
        other = bool(rows) and _shape(sources[i]) != _shape(sources[rows[0]])
        if rows and (other or (len(rows) + 1) * max(S, T) ** 2 > MOST):
            yield rows
            rows, S, T = [], source_length(sources[i]), len(targets[i]) + 1
        rows.append(i)
    if rows:
        yield rows


@torch.inference_mode()
def _batch(
    model: Model | Ensemble,
    sources: Sequence[SourceInput],
    targets: Sequence[Sequence[int]],
    watched: bool,
    role: str | None,
) -> list[ForcedDecoding]:
    verbs: Any = model
    device = model.device
    target_in, target_out = pad([[BOS, *ids] for ids in targets])[0], pad([[*ids, EOS] for ids in targets])[0]
    with ExitStack() as stack:
        heard: Mapping[str, torch.Tensor] = stack.enter_context(watch(model, role=role)) if watched else {}
        source = verbs.encode(Batch.of(sources, device))
        features, _ = verbs.step(target_in.to(device), verbs.begin(source), source)
    likely = verbs.project(features).float().log_softmax(-1).gather(2, target_out.to(device)[..., None])[..., 0]
    roles = {
        name: module.role for name, module in model.named_modules() if isinstance(module, Attention) and name in heard
    }
    weights = {name: heard[name].float().cpu().numpy() for name in roles}
    grid = source.grid
    lengths = [len(some) if grid is None else grid[0] * grid[1] for some in sources]
    return [
        ForcedDecoding(
            likely[row, :T].cpu().numpy(),
            {name: _own(weights[name][row], roles[name], S, T) for name in roles},
            roles,
            grid,
        )
        for row, (S, T) in enumerate(zip(lengths, (len(target) + 1 for target in targets), strict=True))
    ]


def _own(weights: npt.NDArray[np.float32], role: str, S: int, T: int) -> npt.NDArray[np.float32]:
    """One sentence's own rows and columns, without what its company made room for."""
    rows, columns = {"encoder": (S, S), "decoder": (T, T)}.get(role, (T, S))
    return weights[:, :rows, :columns].copy()
