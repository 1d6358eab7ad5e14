"""Attention, and nothing above it: a soft dictionary of keys and values that queries read.

`memory` holds keys, values and the padding mask (the KV cache of a decoder); `scores` has one class
per kind of attention; `attention` projects, masks, applies the softmax and averages, over `heads`;
`local` and `unfused` are faster ways to the same result; `recorder` records attention weights from
outside (`watch`), those of PyTorch's own modules by `torch_attention`; `alignment` turns the
weights between tokens into weights and links between words, and `html_table` shows those in a
notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.lazy import lazy_names

if TYPE_CHECKING:
    from regard.attention.attention import Attention
    from regard.attention.kv_cache import Memory
    from regard.attention.recorder import AttentionRecorder, record_attention, watch
    from regard.attention.scores import SCORES, Score, ScoreName

__all__ = [
    "SCORES",
    "Attention",
    "AttentionRecorder",
    "Memory",
    "Score",
    "ScoreName",
    "record_attention",
    "watch",
]

_MODULES = {
    "attention": ("Attention",),
    "kv_cache": ("Memory",),
    "recorder": ("AttentionRecorder", "record_attention", "watch"),
    "scores": ("SCORES", "Score", "ScoreName"),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
