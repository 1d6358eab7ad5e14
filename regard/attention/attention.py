"""Multi-head attention: score each query against every key, mask, normalise, and average the
values.

Padding masks enter here: `Attention.prepare` takes `keep` (True = may be attended to) with the keys
and values, and `attention_mask` combines it with the causal mask and the window. To add a kind of
attention, add a score in `scores`.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention import local
from regard.attention.ablation import without_ablated
from regard.attention.head_reshapes import (
    fold_beams,
    merge_heads,
    split_heads,
    unfold_beams,
)
from regard.attention.kv_cache import Memory
from regard.attention.positions import AttentionPositions, entry_positions
from regard.attention.recorder import active_recorders
from regard.attention.scores import SCORES, Score, ScoreContext, build_score
from regard.attention.unfused import attend_unfused
from regard.common.errors import ConfigurationError, PluginError
from regard.common.monkey_patches import as_defined
from regard.common.plugins import plugin_of, plugin_problem
from regard.common.shapes import Bool, Float, Tensor

TOLERANCE = 0.01
"""Difference of a sum of weights from one that counts as rounding."""
_WARNED: dict[str, object] = {}
"""Problems that a warning has named."""
# cuDNN's kernel is left out: it compiles for each new shape, which takes longer than the training
# itself if batches have many lengths.
GPU_KERNELS = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


@as_defined
class Attention(nn.Module):
    """Multi-head attention with any score (Vaswani et al. 2017, section 3.2.2).

    `role` ("encoder", "decoder" or "cross") is recorded with the weights. Queries of `query_size`
    and entries of `entry_size` are projected to `size` and split into `heads`.

    Two projections can be left out if there is one head, as in the attention of recurrent decoders.
    Without `project_values` the result is the weighted sum of the entries themselves, without an
    output projection. Without `project_keys` the score compares queries and entries unprojected; a
    score with a matrix of its own (`Score.linear`) always does so with one head.

    `positions` are those of self-attention, if queries, keys or scores depend on them.

    Raises ConfigurationError if `heads` does not divide `size`.
    """

    is_recorded = True  # `watch` records its weights

    def __init__(  # noqa: PLR0913 - sizes and switches of one layer
        self,
        role: str,
        query_size: int,
        entry_size: int,
        size: int,
        heads: int = 1,
        score_name: str = "scaled_dot",
        project_keys: bool = True,
        project_values: bool = True,
        normaliser: str = "softmax",
        positions: type[AttentionPositions] | None = None,
    ) -> None:
        super().__init__()
        _check_heads(size, heads, project_keys, project_values)
        linear = SCORES[score_name].linear
        project_keys = project_keys and not (linear and heads == 1)
        score_query_size = size if project_keys else query_size
        score_key_size = size if project_keys else entry_size

        self.role = role
        self.heads = heads
        self.size = size
        self.value_size = size if project_values else entry_size
        self.score = build_score(
            score_name,
            heads,
            score_key_size // heads,
            score_query_size // heads,
            normaliser,
        )
        self.positions = None if positions is None else positions(heads, size // heads)
        parts = (type(self.score), self.score.normaliser, positions)
        # Known once, so that a step without plug-ins checks nothing.
        self._has_plugin = any(part and plugin_of(part) for part in parts)
        self.query = _projection(project_keys, query_size, size, bias=not linear)
        self.key = _projection(project_keys, entry_size, size, bias=not linear)
        self.value = _projection(project_values, entry_size, size)
        self.output = _projection(project_values, size, query_size)
        for layer in (self.query, self.key, self.value, self.output):
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def prepare(
        self,
        keys: Float[Tensor, "R S Dk"],
        values: Float[Tensor, "R S Dv"],
        keep: Bool[Tensor, "R S"] | None = None,
    ) -> Memory:
        """Project keys and values once, for all queries to come.

        Hidden entries become zero, because a NaN in them would survive the product with weight 0.
        """
        return Memory(*self.keys_and_values(keys, values, keep), keep)

    def keys_and_values(
        self,
        keys: Float[Tensor, "R S Dk"],
        values: Float[Tensor, "R S Dv"],
        keep: Bool[Tensor, "R S"] | None = None,
    ) -> tuple[Float[Tensor, "R H S Da"], Float[Tensor, "R H S Dh"]]:
        """Return the projected keys and values per head, as `prepare` puts them into a memory."""
        if keep is None:
            k = self.key(keys)
            v = self.value(values)
        else:
            visible = keep.unsqueeze(-1)
            values_are_keys = values is keys
            keys = keys.masked_fill(~visible, 0)
            values = keys if values_are_keys else values.masked_fill(~visible, 0)
            k = self.key(keys) * visible
            v = self.value(values) * visible
        prepared_keys = self.score.prepare(split_heads(k, self.heads))
        return prepared_keys, split_heads(v, self.heads)

    def empty(self, rows: int) -> Memory:
        """Return a memory without entries: the start of a KV cache."""
        # Not `parameter.new_empty`: for a sharded parameter that would be sharded, as memories are
        # not. Attention without projections may have no parameter at all.
        parameter = next(self.parameters(), None)
        dtype = None if parameter is None else parameter.dtype
        device = None if parameter is None else parameter.device
        sizes = self.score.query_size, self.value_size // self.heads
        keys, values = (
            torch.empty(rows, self.heads, 0, size, dtype=dtype, device=device)
            for size in sizes
        )
        return Memory(keys, values)

    def forward(
        self,
        query: Float[Tensor, "N T D"],
        memory: Memory,
        causal: bool = False,
        window: int | None = None,
        is_projected: bool = False,
    ) -> Float[Tensor, "N T Dv"]:
        """Attend to `memory` with each query; its projection is left out if `is_projected`.

        K = N // R consecutive query rows (the beams of a sentence) share one of its R rows. If
        `causal`, query t of T sees the entries up to S − T + t. If there is a `window`, a query
        sees no entry farther away than this; only visible entries count as distance.
        """
        if not is_projected:
            query = self.query(query)
        result: Tensor = self.output(self.attend(query, memory, causal, window))
        return result

    def attend(
        self,
        query: Float[Tensor, "N T D"],
        memory: Memory,
        causal: bool = False,
        window: int | None = None,
    ) -> Float[Tensor, "N T Dv"]:
        """Attend with queries that are projected already; the result is not projected."""
        N, T, _ = query.shape
        assert not causal or memory.rows == N, (
            "causal attention needs a memory row for each query row"
        )
        recorders = active_recorders(self)
        on_path = bool(recorders) and _is_on_path(self)
        if on_path:
            memory = _row_for_each(memory, N)
        q = self._folded(query, memory)
        is_self_attention = memory.rows == N and memory.entries == T
        if self.positions is not None:
            positions = entry_positions(memory)
            q = self._rotated(q, positions[:, memory.entries - T :])
            keys = self._rotated(memory.keys, positions)
            memory = Memory(keys, memory.values, memory.keep)
        weights = None
        if (
            window is not None
            and is_self_attention
            and self._is_plain
            and not on_path
            and local.blocks_pay_off(T, window)
            and local.is_contiguous(memory.keep)
        ):
            keep = attention_mask(memory, T, causal, window) if recorders else None
            blocks, *_ = self._attend(*local.to_blocks(q, memory, causal, window))
            context = local.from_blocks(blocks, N, T)
            scores = None
        else:
            keep = attention_mask(memory, T, causal, window)
            if keep is not None and keep.shape[2] > 1 and memory.rows < N:
                # (R, 1, K·T, S), like the folded queries
                keep = keep.repeat(1, 1, N // memory.rows, 1)
            context, scores, weights = self._attend(q, memory, keep, on_path=on_path)

        if recorders:
            if scores is None:
                with torch.autocast(q.device.type, enabled=False):
                    scores = self.score(q.float(), memory.keys.float())
            if weights is None:
                weights = self.score.normalise(scores, keep)
            self._record(weights, scores, keep, N)
        return self._merged(q, context, N)

    def attend_covered(
        self,
        query: Float[Tensor, "N T D"],
        memory: Memory,
        coverage: Float[Tensor, "N H S"],
    ) -> tuple[Float[Tensor, "N T Dv"], Float[Tensor, "N H S"]]:
        """Attend like `attend`, one query after another, with a score that has coverage.

        Returns the coverage after the last query, too.
        """
        N = len(query)
        on_path = _is_on_path(self)
        if on_path:
            memory = _row_for_each(memory, N)
        keep = attention_mask(memory, 1, causal=False)
        seen = fold_beams(coverage.unsqueeze(2), memory.rows)
        contexts = []
        for step in torch.split(query, 1, 1):
            q = self._folded(step, memory)
            context, scores, weights = self._attend(q, memory, keep, seen, on_path)
            assert scores is not None, "no kernel has coverage"
            assert weights is not None, "no kernel has coverage"
            seen = self.score.next_coverage(seen, weights.to(seen.dtype))
            self._record(weights, scores, keep, N)
            contexts.append(self._merged(q, context, N))
        return torch.cat(contexts, 1), unfold_beams(seen, N).squeeze(2)

    def _folded(
        self, query: Float[Tensor, "N T D"], memory: Memory
    ) -> Float[Tensor, "R H KT E"]:
        """Split projected queries into heads, and put those of one memory row side by side."""
        heads = split_heads(query.to(memory.keys.dtype), self.heads)
        return fold_beams(heads, memory.rows)

    def _merged(self, q: Tensor, context: Tensor, rows: int) -> Float[Tensor, "N T Dv"]:
        """Gate the weighted sums of folded queries, and put their heads side by side."""
        gated = self.score.gate(q, context)
        if self._has_plugin:
            self._checked(gated, type(self.score), "gated sums", context.shape)
        contexts = unfold_beams(gated, rows)
        return merge_heads(without_ablated(self, contexts))

    def _rotated(self, vectors: Tensor, positions: Tensor) -> Tensor:
        """Transform queries or keys by their positions."""
        assert self.positions is not None
        rotated = self.positions.rotate(vectors, positions)
        return self._checked(
            rotated, type(self.positions), "rotated vectors", vectors.shape
        )

    @property
    def _is_plain(self) -> bool:
        """True if queries and keys alone give the scores, and the softmax of these the weights."""
        has_bias = self.positions is not None and self.positions.has_bias
        return self.score.is_plain and not has_bias

    def _record(
        self, weights: Tensor, scores: Tensor, keep: Tensor | None, rows: int
    ) -> None:
        """Record weights and scores of folded queries; hidden scores are −∞."""
        if not _is_on_path(self):
            scores = _without_hidden(scores, keep, -torch.inf)
        for recorder in active_recorders(self):
            recorder.record(
                self, unfold_beams(weights, rows), unfold_beams(scores, rows)
            )

    def _attend(
        self,
        q: Tensor,
        memory: Memory,
        keep: Tensor | None,
        coverage: Tensor | None = None,
        on_path: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the weighted sums of the values, and scores and weights unless a kernel hides
        them.

        If `on_path`, no kernel does, and the scores have −∞ for hidden entries already.
        """
        keys = memory.keys
        values = memory.values
        dot = self.score.as_dot(q) if self._is_plain and not on_path else None
        on_cpu = q.device.type == "cpu"
        all_bfloat16 = q.dtype == keys.dtype == values.dtype == torch.bfloat16
        if dot is not None:
            if self._has_plugin:
                self._checked(dot[0], type(self.score), "queries", q.shape)
            if on_cpu and all_bfloat16:
                context = attend_unfused(dot[0], keys, values, keep, dot[1])
                return context, None, None

        if on_cpu and not all_bfloat16 and keys.dtype != torch.float64:
            keys = keys.float()
            values = values.float()
        # Autocast is off on a CPU. Elsewhere it stays on if the caller enabled it, but is never
        # enabled here, as its default dtype is float16.
        autocast = not on_cpu and torch.is_autocast_enabled(q.device.type)
        with torch.autocast(q.device.type, enabled=autocast):
            if dot is None:
                scores = self._scores(q.to(keys.dtype), keys, memory, coverage).float()
                visible = scores
                if on_path:
                    scores = _without_hidden(scores, keep, -torch.inf)
                    visible = _without_hidden(scores, keep, 0.0)
                weights = self._normalised(visible, keep)
                return torch.matmul(weights.to(values.dtype), values), scores, weights
            query, scale = dot
            with nullcontext() if on_cpu else sdpa_kernel(GPU_KERNELS):
                context = F.scaled_dot_product_attention(
                    query.to(keys.dtype), keys, values, attn_mask=keep, scale=scale
                )
            return context, None, None

    def _scores(
        self, q: Tensor, keys: Tensor, memory: Memory, coverage: Tensor | None
    ) -> Float[Tensor, "R H T S"]:
        """Score queries against keys, with all that score and positions may know."""
        shape = (*q.shape[:3], keys.shape[2])
        if self._is_plain:
            return self._checked(self.score(q, keys), type(self.score), "scores", shape)
        entries = entry_positions(memory)
        is_cross = self.role == "cross"
        queries = entries[:, memory.entries - q.shape[2] :]
        context = ScoreContext(
            self.role, entries, None if is_cross else queries, coverage
        )
        scores = self.score.in_context(q, keys, context)
        self._checked(scores, type(self.score), "scores", shape)
        if self.positions is None or not self.positions.has_bias:
            return scores
        biases = self.positions.bias(queries, entries)
        shapes = {shape, (1, *shape[1:])}
        return scores + self._checked(biases, type(self.positions), "biases", *shapes)

    def _normalised(self, scores: Tensor, keep: Tensor | None) -> Tensor:
        """Turn scores into weights, and check those of a plug-in."""
        weights = self.score.normalise(scores, keep)
        if not self._has_plugin:
            return weights
        is_own = type(self.score).normalise is not Score.normalise
        maker = type(self.score) if is_own else self.score.normaliser
        self._checked(weights, maker, "weights", scores.shape)
        if plugin_of(maker) is not None and not weights.is_meta:
            visible = torch.ones_like(weights) if keep is None else keep.float()
            sums = (weights * visible).sum(-1)
            if not sums.allclose(visible.amax(-1).expand_as(sums), atol=TOLERANCE):
                _warn_once(
                    plugin_problem(
                        maker,
                        "its weights do not sum to one over the visible entries",
                    )
                )
        return weights

    def _checked(
        self, values: Any, maker: object, what: str, *shapes: tuple[int, ...]
    ) -> Tensor:
        """Return what a score, normaliser or class of positions computed.

        Raises PluginError if it is a plug-in's, and is no tensor of one of the shapes, or has NaN.
        """
        checked: Tensor = values
        if not self._has_plugin or plugin_of(maker) is None:
            return checked
        shape = tuple(values.shape) if isinstance(values, Tensor) else repr(values)[:80]
        problem = ""
        if shape not in shapes:
            wanted = " or ".join(map(str, map(tuple, shapes)))
            problem = f"wanted {what} of the shape {wanted}, got {shape}"
        elif not values.is_meta and bool(values.isnan().any()):
            problem = f"some of its {what} are NaN"
        if problem:
            raise PluginError(plugin_problem(maker, problem))
        return checked


def _is_on_path(attention: Attention) -> bool:
    """Return whether outputs are to be computed from what is recorded."""
    return any(recorder.on_path for recorder in active_recorders(attention))


def _row_for_each(memory: Memory, N: int) -> Memory:
    """Give each of N queries a memory row of its own, as recorders have it."""
    rows = torch.arange(memory.rows, device=memory.keys.device)
    return memory.select(rows.repeat_interleave(N // memory.rows))


def _without_hidden(scores: Tensor, keep: Tensor | None, value: float) -> Tensor:
    return scores if keep is None else scores.masked_fill(~keep, value)


def _warn_once(problem: str) -> None:
    # In one operation, as threads compute shares of a batch.
    first = object()
    if _WARNED.setdefault(problem, first) is first:
        warnings.warn(problem, stacklevel=2)


def _projection(
    projected: bool, inputs: int, outputs: int, bias: bool = True
) -> nn.Module:
    """Create a linear projection, or the identity if `projected` is false."""
    return nn.Linear(inputs, outputs, bias=bias) if projected else nn.Identity()


def _check_heads(
    size: int, heads: int, project_keys: bool, project_values: bool
) -> None:
    causes = []
    if size % heads:
        causes.append(
            f"attention of size {size} cannot be split into {heads} heads: choose a multiple of "
            f"{heads}"
        )
    options = {"project_keys": project_keys, "project_values": project_values}
    for name, projected in options.items():
        if heads > 1 and not projected:
            causes.append(f"attention without {name} takes one head, got {heads}")
    ConfigurationError.raise_all(causes)


def attention_mask(
    memory: Memory, T: int, causal: bool, window: int | None = None
) -> Bool[Tensor, "_ 1 _ S"] | None:
    """Combine padding mask, causal mask and window for T queries (True = visible).

    Returns None if every query sees all entries. The last query stands at the last entry, so that a
    causal mask fits a KV cache longer than T.
    """
    # (R, 1, 1, S)
    keep = None if memory.keep is None else memory.keep[:, None, None, :]
    if (not causal or T == 1) and window is None:
        return keep

    S = memory.entries
    device = memory.keys.device
    entries = torch.arange(S, device=device)
    queries = torch.arange(S - T, S, device=device)
    # (T, S)
    offset = entries - queries[:, None]
    visible = offset <= 0 if causal else torch.ones_like(offset, dtype=torch.bool)
    visible = visible[None, None]
    if window is not None:
        if memory.keep is not None and S:  # hidden entries do not count as distance
            positions = memory.keep.cumsum(1)
            # (R, 1, T, S)
            offset = (positions[:, None, :] - positions[:, S - T :, None]).unsqueeze(1)
        visible = visible & (offset.abs() <= window)
    return visible if keep is None else keep & visible
