"""Attention: a soft dictionary of keys and values that queries read.

- `attention`: multi-head attention, which projects, masks, applies the softmax and averages;
  `head_reshapes` splits and merges the heads.
- `kv_cache`: keys, values and padding mask, which are also the KV cache of a decoder.
- `scores`: one class for each kind of attention; `normalisers` turns scores into weights.
- `positions`: positions that self-attention sees, rotary and linear biases.
- `local` and `unfused`: faster computations of the same result.
- `ablation`: removes a head while a block runs (`ablate`).
- `recorder`: records attention weights from outside the model (`watch`); `torch_attention` does
  the same for PyTorch's own modules.
- `alignment`: turns weights between tokens into weights and links between words;
  `alignment_choice` names the layer and head they are taken from, and `html_table` shows them in a
  notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.lazy import lazy_names

if TYPE_CHECKING:
    from regard.attention.ablation import ablate
    from regard.attention.attention import Attention
    from regard.attention.kv_cache import Memory
    from regard.attention.normalisers import (
        NORMALISERS,
        Normaliser,
        masked_softmax,
        register_normaliser,
    )
    from regard.attention.positions import AttentionPositions
    from regard.attention.recorder import AttentionRecorder, record_attention, watch
    from regard.attention.scores import (
        SCORES,
        NormaliserName,
        Score,
        ScoreContext,
        ScoreName,
        register_score,
    )

__all__ = [
    "NORMALISERS",
    "SCORES",
    "Attention",
    "AttentionPositions",
    "AttentionRecorder",
    "Memory",
    "Normaliser",
    "NormaliserName",
    "Score",
    "ScoreContext",
    "ScoreName",
    "ablate",
    "masked_softmax",
    "record_attention",
    "register_normaliser",
    "register_score",
    "watch",
]

_MODULES = {
    "ablation": ("ablate",),
    "attention": ("Attention",),
    "kv_cache": ("Memory",),
    "normalisers": (
        "NORMALISERS",
        "Normaliser",
        "masked_softmax",
        "register_normaliser",
    ),
    "positions": ("AttentionPositions",),
    "recorder": ("AttentionRecorder", "record_attention", "watch"),
    "scores": (
        "SCORES",
        "NormaliserName",
        "Score",
        "ScoreContext",
        "ScoreName",
        "register_score",
    ),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
