"""Attention, and nothing above it: a soft dictionary of keys and values that queries read.

`memory` holds keys, values and the padding mask (the KV cache of a decoder); `scores` has one class per kind of
attention; `attention` projects, masks, applies the softmax and averages, over `heads`; `local` and `unfused` are faster
ways to the same result; `watch` records attention weights from outside; `alignment` turns the weights between tokens
into weights and links between words, and `html_table` shows those in a notebook.
"""

from regard.attention.attention import Attention
from regard.attention.memory import Memory
from regard.attention.scores import SCORES, Score, ScoreName
from regard.attention.watch import AttentionRecorder, watch

__all__ = ["SCORES", "Attention", "AttentionRecorder", "Memory", "Score", "ScoreName", "watch"]
