"""Ablation of attention heads from outside a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import nn

from regard.attention.recorder import check_module
from regard.common.arguments import describe
from regard.common.errors import UsageError
from regard.common.shapes import Float, Tensor

_ABLATED: ContextVar[tuple[tuple[nn.Module, int], ...]] = ContextVar(
    "ablated", default=()
)


@contextmanager
def ablate(model: nn.Module, layer: str, head: int) -> Iterator[None]:
    """Remove one attention head while a block runs: its output is zero for every query.

    `layer` is a name of `watch`, such as "decoder.layers.0.cross_attention", and heads are counted
    from 0. Nested blocks remove several. Weights and scores are recorded as usual. Only forward
    passes of this thread change; the C library, which cannot do this, leaves decoding to PyTorch or
    refuses.

    Raises UsageError for a layer or head that the model lacks.
    """
    check_module(model, "ablate")
    # The only class that is recorded and has a number of heads is Regard's.
    heads = {
        name: module.heads
        for name, module in model.named_modules()
        if getattr(module, "is_recorded", False) is True
    }
    if layer not in heads:
        raise UsageError(
            f"ablate: wanted a layer of {', '.join(heads) or 'a model with attention'}, got "
            f"{describe(layer)}"
        )
    if type(head) is not int or not 0 <= head < heads[layer]:
        raise UsageError(
            f"ablate: wanted a head of {layer} from 0 to {heads[layer] - 1}, got {describe(head)}"
        )
    token = _ABLATED.set((*_ABLATED.get(), (model.get_submodule(layer), head)))
    try:
        yield
    finally:
        _ABLATED.reset(token)


def without_ablated(
    attention: nn.Module, contexts: Float[Tensor, "N H T E"]
) -> Float[Tensor, "N H T E"]:
    """Set the outputs of the ablated heads of an attention to zero."""
    ablated = _ABLATED.get()
    heads = ablated and [head for module, head in ablated if module is attention]
    if not heads:
        return contexts
    return contexts.index_fill(1, torch.tensor(heads, device=contexts.device), 0)


def is_ablated(model: nn.Module) -> bool:
    """Return whether this thread ablates a head of a model."""
    ablated = _ABLATED.get()
    return bool(ablated) and any(
        module is attention for module in model.modules() for attention, _ in ablated
    )
