"""Scores and weights of PyTorch's own `nn.MultiheadAttention`, computed after its forward pass."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, TypeGuard

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
"""Callback that takes a module, its weights and its scores, both (N, H, T, S)."""


def is_torch_attention(module: nn.Module) -> TypeGuard[nn.MultiheadAttention]:
    """Return whether a module is PyTorch's own attention and keeps PyTorch's forward pass."""
    return (
        isinstance(module, nn.MultiheadAttention)
        and type(module).forward is nn.MultiheadAttention.forward
    )


@contextmanager
def torch_attention_recorded(
    modules: Collection[nn.Module], record: Record
) -> Iterator[None]:
    """Call `record` for each forward pass of PyTorch's own attention among `modules`.

    A hook on a single module would keep PyTorch from its fused kernels for inference, and so change
    the last bits of outputs; the global hooks used here do not.
    """
    if not any(map(is_torch_attention, modules)):
        yield
        return
    # With the id of the thread, as several threads may run the model.
    called = set[tuple[int, nn.Module]]()

    def before_forward(module: nn.Module, _: object) -> None:
        if _is_encoder_layer(module):
            # An earlier call of the attention by itself must not count as a call by this layer.
            called.discard((get_ident(), module.get_submodule("self_attn")))

    def after_forward(
        module: nn.Module, args: Any, kwargs: dict[str, object], _: object
    ) -> None:
        if is_torch_attention(module) and module in modules:
            called.add((get_ident(), module))
            record(module, *_attention_of(module, *args, **kwargs))
        elif _is_encoder_layer(module):
            attention = module.get_submodule("self_attn")
            # If the layer ran as one fused kernel, its attention was not called.
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


def _is_encoder_layer(
    module: nn.Module,
) -> TypeGuard[nn.TransformerEncoderLayer]:
    is_layer = isinstance(module, nn.TransformerEncoderLayer)
    return is_layer and type(module).forward is nn.TransformerEncoderLayer.forward


def _attention_of_layer(
    layer: nn.TransformerEncoderLayer, *args: object, **kwargs: object
) -> tuple[Tensor, Tensor]:
    """Return the weights and scores of an encoder layer's self-attention, from its arguments."""
    signature = inspect.signature(nn.TransformerEncoderLayer.forward)
    arguments = signature.bind(layer, *args, **kwargs).arguments
    x = arguments["src"]
    padding = arguments.get("src_key_padding_mask")
    if x.is_nested:
        lengths = torch.tensor([len(row) for row in x.unbind()], device=x.device)
        x = x.to_padded_tensor(0.0)
        padding = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
    if layer.norm_first:
        x = layer.norm1(x)
    mask = arguments.get("src_mask")
    return _attention_of(
        layer.self_attn, x, x, x, key_padding_mask=padding, attn_mask=mask
    )


def _attention_of(
    module: nn.MultiheadAttention, *args: object, **kwargs: object
) -> tuple[Float[Tensor, "N H T S"], Float[Tensor, "N H T S"]]:
    """Return the weights (before dropout) and scores of one forward pass, from its arguments.

    Both are computed in float32.
    """
    signature = inspect.signature(nn.MultiheadAttention.forward)
    arguments = signature.bind(module, *args, **kwargs).arguments
    query = arguments["query"]
    key = arguments["key"]
    padding = arguments.get("key_padding_mask")
    if query.dim() == 2:  # a single sentence, without a batch axis
        query = query[None]
        key = key[None]
        padding = None if padding is None else padding[None]
    elif not module.batch_first:
        query = query.transpose(0, 1)
        key = key.transpose(0, 1)

    with torch.autocast(query.device.type, enabled=False):
        q, k = _project(module, query, key)
        scores = q @ k.transpose(-1, -2) / math.sqrt(module.head_dim)
        for mask in _additive_masks(arguments.get("attn_mask"), padding, scores):
            scores = scores + mask
    return scores.softmax(-1), scores


def _project(module: Any, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Project queries and keys to (N, H, T, D) as the module does.

    The keys include the entries that the module appends itself (`add_bias_kv`, `add_zero_attn`).
    """
    if module.in_proj_weight is None:
        query_weight = module.q_proj_weight
        key_weight = module.k_proj_weight
    else:
        query_weight, key_weight, _ = module.in_proj_weight.chunk(3)
    query_bias = None
    key_bias = None
    if module.in_proj_bias is not None:
        query_bias, key_bias, _ = module.in_proj_bias.float().chunk(3)

    q = F.linear(query.float(), query_weight.float(), query_bias)
    k = F.linear(key.float(), key_weight.float(), key_bias)
    if module.bias_k is not None:
        k = torch.cat([k, module.bias_k.float().expand(len(k), 1, -1)], 1)
    if module.add_zero_attn:
        k = F.pad(k, (0, 0, 0, 1))
    heads = (module.num_heads, module.head_dim)
    q = q.view(*q.shape[:2], *heads).transpose(1, 2)
    k = k.view(*k.shape[:2], *heads).transpose(1, 2)
    return q, k


def _additive_masks(
    attn_mask: Tensor | None, padding: Tensor | None, scores: Float[Tensor, "N H T S"]
) -> Iterator[Tensor]:
    """Yield the masks as tensors to add to the scores.

    `attn_mask` is (T, S) or (N·H, T, S), `padding` is (N, S). Entries that the module appended
    itself are visible.
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
