"""PyTorch's own attention, `nn.MultiheadAttention`: its scores and weights, computed beside its
forward pass.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from regard.common.errors import UsageError
from regard.common.shapes import Float, Tensor

Record = Callable[[nn.Module, Tensor, Tensor], None]
"""Called with the module, its weights and its scores, both (N, H, T, S)."""


def is_torch_attention(module: nn.Module) -> bool:
    """Return whether a module is PyTorch's own attention, with PyTorch's own forward pass."""
    return (
        isinstance(module, nn.MultiheadAttention)
        and type(module).forward is nn.MultiheadAttention.forward
    )


@contextmanager
def torch_attention_recorded(
    modules: Collection[nn.Module], record: Record
) -> Iterator[None]:
    """Call `record` for each forward pass of PyTorch's own attention among `modules`.

    A hook on one of them would keep PyTorch from its fused kernels for inference, and change the
    last bits of outputs; one for all modules of the process does not.
    """
    if not any(map(is_torch_attention, modules)):
        yield
        return
    called = set[tuple[int, nn.Module]]()  # by thread, as several may run the model

    def before_forward(module: nn.Module, _: Any) -> None:
        if _is_encoder_layer(module):
            # Which may have been called by itself, before.
            called.discard((get_ident(), module.get_submodule("self_attn")))

    def after_forward(
        module: nn.Module, args: Any, kwargs: dict[str, Any], _: Any
    ) -> None:
        if is_torch_attention(module) and module in modules:
            called.add((get_ident(), module))
            record(module, *_attention_of(module, *args, **kwargs))
        elif _is_encoder_layer(module):
            attention = module.get_submodule("self_attn")
            # The whole layer was one fused kernel.
            if attention in modules and (get_ident(), attention) not in called:
                record(attention, *_attention_of_layer(module, *args, **kwargs))

    try:
        handle = register_module_forward_hook(after_forward, with_kwargs=True)
    except TypeError:
        raise UsageError(
            "watch: this PyTorch cannot record its own nn.MultiheadAttention; install 2.13"
        ) from None
    before = register_module_forward_pre_hook(before_forward)
    try:
        yield
    finally:
        handle.remove()
        before.remove()


def _is_encoder_layer(module: nn.Module) -> bool:
    is_layer = isinstance(module, nn.TransformerEncoderLayer)
    return is_layer and type(module).forward is nn.TransformerEncoderLayer.forward


def _attention_of_layer(layer: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Return the weights and scores of the self-attention of an encoder layer, from what the layer
    was called with.
    """
    given = (
        inspect.signature(nn.TransformerEncoderLayer.forward)
        .bind(layer, *args, **kwargs)
        .arguments
    )
    x = given["src"]
    padding = given.get("src_key_padding_mask")
    if x.is_nested:
        lengths = torch.tensor([len(row) for row in x.unbind()], device=x.device)
        x = x.to_padded_tensor(0.0)
        padding = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
    if layer.norm_first:
        x = layer.norm1(x)
    mask = given.get("src_mask")
    return _attention_of(
        layer.self_attn, x, x, x, key_padding_mask=padding, attn_mask=mask
    )


def _attention_of(
    module: Any, *args: Any, **kwargs: Any
) -> tuple[Float[Tensor, "N H T S"], Float[Tensor, "N H T S"]]:
    """Return the weights and scores of one forward pass from its arguments: before dropout, in
    float32.
    """
    given = (
        inspect.signature(nn.MultiheadAttention.forward)
        .bind(module, *args, **kwargs)
        .arguments
    )
    query = given["query"]
    key = given["key"]
    padding = given.get("key_padding_mask")
    if query.dim() == 2:
        query = query[None]
        key = key[None]
        padding = None if padding is None else padding[None]
    elif not module.batch_first:
        query = query.transpose(0, 1)
        key = key.transpose(0, 1)
    with torch.autocast(query.device.type, enabled=False):
        q, k = _projected(module, query, key)
        scores = q @ k.transpose(-1, -2) / math.sqrt(module.head_dim)
        for mask in _masks(given.get("attn_mask"), padding, scores):
            scores = scores + mask
    return scores.softmax(-1), scores


def _projected(module: Any, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Return queries and keys (N, H, T, D) as the module projects them, with the entries that it
    adds itself.
    """
    if module.in_proj_weight is None:
        weights = module.q_proj_weight, module.k_proj_weight
    else:
        weights = module.in_proj_weight.chunk(3)[:2]
    biases = (
        (None, None)
        if module.in_proj_bias is None
        else module.in_proj_bias.float().chunk(3)[:2]
    )
    q = F.linear(query.float(), weights[0].float(), biases[0])
    k = F.linear(key.float(), weights[1].float(), biases[1])
    if module.bias_k is not None:
        k = torch.cat([k, module.bias_k.float().expand(len(k), 1, -1)], 1)
    if module.add_zero_attn:
        k = F.pad(k, (0, 0, 0, 1))
    heads = [
        x.view(*x.shape[:2], module.num_heads, module.head_dim).transpose(1, 2)
        for x in (q, k)
    ]
    return heads[0], heads[1]


def _masks(
    attn_mask: Tensor | None, padding: Tensor | None, scores: Float[Tensor, "N H T S"]
) -> Iterator[Tensor]:
    """Yield masks to be added to the scores: (T, S) or (N·H, T, S), and (N, S); entries that were
    added are seen.
    """
    N, H, T, S = scores.shape
    for mask, is_padding in ((attn_mask, False), (padding, True)):
        if mask is None:
            continue
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(
                mask, -torch.inf
            )
        mask = F.pad(mask.to(scores.dtype), (0, S - mask.shape[-1]))
        if is_padding:
            mask = mask[:, None, None]
        elif mask.dim() == 3:
            mask = mask.view(N, H, T, S)
        yield mask
