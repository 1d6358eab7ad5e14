"""Multi-head attention: score each query against every key, mask, softmax, and average the values.

Padding masks enter here: `Attention.prepare` takes `keep` (True = may be attended to) with the keys
and values, and `attention_mask` combines it with the causal mask and the window. A new kind of
attention is a new score: `scores`.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention import local
from regard.attention.head_reshapes import (
    fold_beams,
    merge_heads,
    split_heads,
    unfold_beams,
)
from regard.attention.kv_cache import Memory
from regard.attention.recorder import active_recorders
from regard.attention.scores import SCORES, build_score
from regard.attention.unfused import attend_unfused
from regard.common.errors import ConfigurationError
from regard.common.monkey_patches import as_defined
from regard.common.shapes import Bool, Float, Tensor

# Without cuDNN's, which compiles for each new shape: with batches of all lengths that takes longer
# than the training.
GPU_KERNELS = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


@as_defined
class Attention(nn.Module):
    """Multi-head attention with any score (Vaswani et al. 2017, section 3.2.2); with one head, any
    earlier kind too.

    `role` ("encoder", "decoder" or "cross") travels with the recorded weights. Queries have
    `query_size`, entries `entry_size`; both are projected to `size` and split into `heads`. Two
    options need a single head. Without `project_values` the result is the weighted sum of the
    entries themselves, with no output projection, as in recurrent decoders. Without `project_keys`
    the score compares queries and entries without projections; so does, with one head, a score that
    has a matrix between them. Raises ConfigurationError if the heads do not divide the size.
    """

    is_recorded = True  # by `watch`

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
    ) -> None:
        super().__init__()
        _check_heads(size, heads, project_keys, project_values)
        linear = SCORES[score_name].linear
        project_keys = project_keys and not (linear and heads == 1)
        score_query_size, score_key_size = (
            (size, size) if project_keys else (query_size, entry_size)
        )
        self.role = role
        self.heads = heads
        self.size = size
        self.value_size = size if project_values else entry_size
        self.score = build_score(
            score_name, heads, score_key_size // heads, score_query_size // heads
        )
        self.query = (
            nn.Linear(query_size, size, bias=not linear)
            if project_keys
            else nn.Identity()
        )
        self.key = (
            nn.Linear(entry_size, size, bias=not linear)
            if project_keys
            else nn.Identity()
        )
        self.value = nn.Linear(entry_size, size) if project_values else nn.Identity()
        self.output = nn.Linear(size, query_size) if project_values else nn.Identity()
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
        """Project keys and values, once. Hidden entries become zero: 0 · NaN would leak through
        every product.
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
            same = values is keys
            keys = keys.masked_fill(~visible, 0)
            values = keys if same else values.masked_fill(~visible, 0)
            k = self.key(keys) * visible
            v = self.value(values) * visible
        return self.score.prepare(split_heads(k, self.heads)), split_heads(
            v, self.heads
        )

    def empty(self, rows: int) -> Memory:
        """Return a memory without entries: the start of a KV cache."""
        # `new_empty` of a sharded parameter would be sharded, which memories are not; unprojected,
        # there may be none
        like = next(self.parameters(), None)
        dtype, device = (None, None) if like is None else (like.dtype, like.device)
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
    ) -> Float[Tensor, "N T Dv"]:
        """Attend to `memory` with each query; K = N // R consecutive queries share one of its R
        rows.

        `causal`: query t of T sees the entries up to S − T + t. `window`: it sees no entry farther
        away than this, counting visible entries only.
        """
        result: Tensor = self.output(
            self.attend(self.query(query), memory, causal, window)
        )
        return result

    def attend(
        self,
        query: Float[Tensor, "N T D"],
        memory: Memory,
        causal: bool = False,
        window: int | None = None,
    ) -> Float[Tensor, "N T Dv"]:
        """Attend without projections: the query is projected already, and the result has yet to
        be.
        """
        N, T, _ = query.shape
        assert not causal or memory.rows == N, (
            "causal attention needs a memory row for each query row"
        )
        q = fold_beams(
            split_heads(query.to(memory.keys.dtype), self.heads), memory.rows
        )
        recorders = active_recorders(self)
        is_self = memory.rows == N and memory.entries == T
        if (
            window is not None
            and is_self
            and local.blocks_pay_off(T, window)
            and local.is_contiguous(memory.keep)
        ):
            keep = attention_mask(memory, T, causal, window) if recorders else None
            blocks, _ = self._attend(*local.to_blocks(q, memory, causal, window))
            context = local.from_blocks(blocks, N, T)
            scores = None
        else:
            keep = attention_mask(memory, T, causal, window)
            if keep is not None and keep.shape[2] > 1 and memory.rows < N:
                # (R, 1, K·T, S), as the folded queries.
                keep = keep.repeat(1, 1, N // memory.rows, 1)
            context, scores = self._attend(q, memory, keep)
        if recorders:
            if scores is None:
                with torch.autocast(q.device.type, enabled=False):
                    scores = self.score(q.float(), memory.keys.float())
            weights = unfold_beams(masked_softmax(scores, keep), N)
            scores = unfold_beams(
                scores if keep is None else scores.masked_fill(~keep, -torch.inf), N
            )
            for recorder in recorders:
                recorder.record(self, weights, scores)
        return merge_heads(unfold_beams(context, N))

    def _attend(
        self, q: Tensor, memory: Memory, keep: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the weighted values, and the scores if the kernel formed them."""
        keys = memory.keys
        values = memory.values
        dot = self.score.as_dot(q)
        cpu = q.device.type == "cpu"
        low = q.dtype == keys.dtype == values.dtype == torch.bfloat16
        if dot is not None and cpu and low:
            return attend_unfused(dot[0], keys, values, keep, dot[1]), None
        if cpu and not low and keys.dtype != torch.float64:
            keys = keys.float()
            values = values.float()
        # Off the CPU autocast stays on if the caller enabled it, and is never enabled here: its
        # default is float16.
        with torch.autocast(
            q.device.type, enabled=not cpu and torch.is_autocast_enabled(q.device.type)
        ):
            if dot is None:
                scores = self.score(q.to(keys.dtype), keys).float()
                return torch.matmul(
                    masked_softmax(scores, keep).to(values.dtype), values
                ), scores
            query, scale = dot
            with nullcontext() if cpu else sdpa_kernel(GPU_KERNELS):
                context = F.scaled_dot_product_attention(
                    query.to(keys.dtype), keys, values, attn_mask=keep, scale=scale
                )
            return context, None


def _check_heads(
    size: int, heads: int, project_keys: bool, project_values: bool
) -> None:
    causes = []
    if size % heads:
        causes.append(
            f"attention of size {size} cannot be split into {heads} heads: choose a multiple of "
            f"{heads}"
        )
    causes += [
        f"attention without {name} takes one head, got {heads}"
        for name, projected in (
            ("project_keys", project_keys),
            ("project_values", project_values),
        )
        if heads > 1 and not projected
    ]
    ConfigurationError.raise_all(causes)


def attention_mask(
    memory: Memory, T: int, causal: bool, window: int | None = None
) -> Bool[Tensor, "_ 1 _ S"] | None:
    """Combine padding mask, causal mask and window for T queries (True = visible), or None if all
    entries are.

    The last query stands at the last entry, so that a causal mask fits a KV cache longer than T.
    """
    # (R, 1, 1, S)
    keep = None if memory.keep is None else memory.keep[:, None, None, :]
    if (not causal or T == 1) and window is None:
        return keep
    S = memory.entries
    device = memory.keys.device
    # (T, S)
    offset = (
        torch.arange(S, device=device) - torch.arange(S - T, S, device=device)[:, None]
    )
    visible = (offset <= 0 if causal else torch.ones_like(offset, dtype=torch.bool))[
        None, None
    ]
    if window is not None:
        if memory.keep is not None and S:  # hidden entries do not count as distance
            positions = memory.keep.cumsum(1)
            # (R, 1, T, S)
            offset = (positions[:, None, :] - positions[:, S - T :, None]).unsqueeze(1)
        visible = visible & (offset.abs() <= window)
    return visible if keep is None else keep & visible


def masked_softmax(
    scores: Float[Tensor, "R H T S"], keep: Bool[Tensor, "#R 1 #T S"] | None
) -> Float[Tensor, "R H T S"]:
    """Turn scores into attention weights that sum to one over the visible entries; zeros in a row
    without any.
    """
    if keep is None:
        return scores.softmax(-1)
    hidden = ~keep
    return (
        scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        .softmax(-1)
        .masked_fill(hidden, 0)
    )
