"""The one read that every model makes: score the query against every key, softmax, answer with the weighted sum."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from regard.attention import heads as side_by_side
from regard.attention import local
from regard.attention.memory import Memory
from regard.attention.scores import SCORES, score
from regard.attention.unfused import attend_unfused
from regard.attention.watch import active_recorders
from regard.shapes import Bool, Float, Tensor

__all__ = ["Attention", "attention_mask", "masked_softmax"]


class Attention(nn.Module):
    """Attention with one or many heads (Vaswani et al. 2017, section 3.2.2).

    `role` says what is read ("encoder", "decoder", "cross") and travels with the readings. Queries have `query_size`,
    entries `entry_size`; both are projected to `size`, cut into `heads`. With `raw_values` (one head) the answer is
    the weighted sum of the entries themselves and nothing is projected after it: the lean read of recurrent decoders.
    With `raw_keys` queries and entries are compared as they are; so one head reads by a score with weights of its own.
    """

    def __init__(
        self,
        role: str,
        query_size: int,
        entry_size: int,
        size: int,
        heads: int = 1,
        score_name: str = "scaled_dot",
        raw_values: bool = False,
        raw_keys: bool = False,
    ) -> None:
        super().__init__()
        assert not raw_values or heads == 1, "raw values are read with one head"
        assert size % heads == 0, f"size {size} cannot be cut into {heads} heads"
        linear = SCORES[score_name].linear
        raw_keys = raw_keys or (linear and heads == 1)
        assert not raw_keys or heads == 1, "raw keys are read with one head"
        asked, answering = (query_size, entry_size) if raw_keys else (size, size)
        self.role, self.heads, self.size = role, heads, size
        self.value_size = entry_size if raw_values else size
        self.score = score(score_name, heads, answering // heads, asked // heads)
        self.query = nn.Identity() if raw_keys else nn.Linear(query_size, size, bias=not linear)
        self.key = nn.Identity() if raw_keys else nn.Linear(entry_size, size, bias=not linear)
        self.value = nn.Identity() if raw_values else nn.Linear(entry_size, size)
        self.output = nn.Identity() if raw_values else nn.Linear(size, query_size)
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
        """Project what will be read, once. Hidden entries become zero: 0 · NaN would leak through every product."""
        return Memory(*self.entries(keys, values, keep), keep)

    def entries(
        self, keys: Float[Tensor, "R S Dk"], values: Float[Tensor, "R S Dv"], keep: Bool[Tensor, "R S"] | None = None
    ) -> tuple[Float[Tensor, "R H S Da"], Float[Tensor, "R H S Dh"]]:
        """The keys and values of what `prepare` makes of them, for each head."""
        if keep is None:
            k, v = self.key(keys), self.value(values)
        else:
            seen, same = keep.unsqueeze(-1), values is keys
            keys = keys.masked_fill(~seen, 0)
            values = keys if same else values.masked_fill(~seen, 0)
            k, v = self.key(keys) * seen, self.value(values) * seen
        return self.score.prepare(side_by_side.split_heads(k, self.heads)), side_by_side.split_heads(v, self.heads)

    def empty(self, rows: int) -> Memory:
        """A memory with nothing in it yet: the start of a cache."""
        like = next(self.parameters())  # that may be split over several processes, which the memory is not
        sizes = self.score.query_size, self.value_size // self.heads
        keys, values = (torch.empty(rows, self.heads, 0, size, dtype=like.dtype, device=like.device) for size in sizes)
        return Memory(keys, values)

    def forward(
        self, query: Float[Tensor, "N T D"], memory: Memory, causal: bool = False, window: int | None = None
    ) -> Float[Tensor, "N T Dv"]:
        """Read `memory` with each query; K = N // R queries in a row share one of its R rows.

        `causal`: query t of T sees the entries up to S − T + t. `window`: and none farther than so many entries away,
        counting those that may be read.
        """
        result: Tensor = self.output(self.attend(self.query(query), memory, causal, window))
        return result

    def attend(
        self, asked: Float[Tensor, "N T D"], memory: Memory, causal: bool = False, window: int | None = None
    ) -> Float[Tensor, "N T Dv"]:
        """The same between the projections: `asked` is the query after its own, and none comes after the answer."""
        N, T, _ = asked.shape
        assert not causal or memory.rows == N, "a causal read is of one's own past: a memory for each query row"
        q = side_by_side.fold_beams(side_by_side.split_heads(asked.to(memory.keys.dtype), self.heads), memory.rows)
        watching, own = active_recorders(self), memory.rows == N and memory.entries == T
        if window is not None and own and local.blocks_pay_off(T, window) and local.is_contiguous(memory.keep):
            keep = attention_mask(memory, T, causal, window) if watching else None
            blocks, _ = self._attend(*local.to_blocks(q, memory, causal, window))
            answer, weights = local.from_blocks(blocks, N, T), None
        else:
            keep = attention_mask(memory, T, causal, window)
            if keep is not None and keep.shape[2] > 1 and memory.rows < N:
                keep = keep.repeat(1, 1, N // memory.rows, 1)  # each of the queries that share a row has its own T
            answer, weights = self._attend(q, memory, keep)
        if watching:
            if weights is None:
                with torch.autocast(q.device.type, enabled=False):
                    weights = masked_softmax(self.score(q.float(), memory.keys.float()), keep)
            for watched in watching:
                watched.record(self, side_by_side.unfold_beams(weights, N))
        return side_by_side.merge_heads(side_by_side.unfold_beams(answer, N))

    def _attend(self, q: Tensor, memory: Memory, keep: Tensor | None) -> tuple[Tensor, Tensor | None]:
        keys, values, dot = memory.keys, memory.values, self.score.as_dot(q)
        cpu = q.device.type == "cpu"
        low = q.dtype == keys.dtype == values.dtype == torch.bfloat16
        if dot is not None and cpu and low:
            return attend_unfused(dot[0], keys, values, keep, dot[1]), None
        if cpu and not low and keys.dtype != torch.float64:
            keys, values = keys.float(), values.float()
        # Elsewhere autocast goes on where it was asked for, and never begins here: by itself it would read in float16.
        with torch.autocast(q.device.type, enabled=not cpu and torch.is_autocast_enabled(q.device.type)):
            if dot is None:
                weights = masked_softmax(self.score(q.to(keys.dtype), keys).float(), keep)
                return torch.matmul(weights.to(values.dtype), values), weights
            query, scale = dot
            return F.scaled_dot_product_attention(query.to(keys.dtype), keys, values, attn_mask=keep, scale=scale), None


def attention_mask(memory: Memory, T: int, causal: bool, window: int | None = None) -> Bool[Tensor, "_ 1 _ S"] | None:
    """Which entries each of T queries may read, or None for all. The newest query stands at the newest entry."""
    keep = None if memory.keep is None else memory.keep[:, None, None, :]  # (R, 1, 1, S)
    if (not causal or T == 1) and window is None:
        return keep
    S, device = memory.entries, memory.keys.device
    ahead = torch.arange(S, device=device) - torch.arange(S - T, S, device=device)[:, None]  # (T, S)
    seen = (ahead <= 0 if causal else torch.ones_like(ahead, dtype=torch.bool))[None, None]
    if window is not None:
        if memory.keep is not None and S:  # what may not be read stands between nobody
            places = memory.keep.cumsum(1)
            ahead = (places[:, None, :] - places[:, S - T :, None]).unsqueeze(1)  # (R, 1, T, S)
        seen = seen & (ahead.abs() <= window)
    return seen if keep is None else keep & seen


def masked_softmax(
    scores: Float[Tensor, "R H T S"], keep: Bool[Tensor, "#R 1 #T S"] | None
) -> Float[Tensor, "R H T S"]:
    """Scores into weights that sum to one over the entries that may be read; a row with none of them gets zeros."""
    if keep is None:
        return scores.softmax(-1)
    hidden = ~keep
    return scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(hidden, 0)
