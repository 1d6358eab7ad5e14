"""Coverage: what the earlier steps of cross-attention attended to, as a part of the decoder state.

Only scores with `has_coverage` see it; the state of a decoder with others has no such tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from regard.attention import Attention, Memory
from regard.common.shapes import Float, Tensor
from regard.models.interface import Source, State


def coverage_name(layer: int) -> str:
    """Return the name of the tensor that has the coverage of a layer."""
    return f"coverage.{layer}"


def with_coverage(
    state: State, attentions: Iterable[Attention], source: Source
) -> State:
    """Add a coverage of zeros (B, H, S) for each cross-attention whose score has one."""
    tensors = dict(state.tensors)
    axes = dict(state.source_axes)
    for i, (attention, memory) in enumerate(
        zip(attentions, source.memories, strict=True)
    ):
        if attention.score.has_coverage:
            name = coverage_name(i)
            shape = (memory.rows, attention.heads, memory.entries)
            tensors[name] = source.summary.new_zeros(shape)
            axes[name] = 2
    return replace(state, tensors=tensors, source_axes=axes)


def attend_to_source(
    attention: Attention,
    query: Float[Tensor, "N T D"],
    memory: Memory,
    tensors: dict[str, Tensor],
    layer: int = 0,
) -> Float[Tensor, "N T Dv"]:
    """Attend with a projected query; if the tensors have a coverage of the layer, replace it."""
    name = coverage_name(layer)
    if name not in tensors:
        # Not `attend`, which would run no hook of the attention.
        context: Tensor = attention(query, memory, is_projected=True)
    else:
        context, tensors[name] = attention.attend_covered(query, memory, tensors[name])
        context = attention.output(context)
    return context
