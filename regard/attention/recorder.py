"""Record attention weights from outside a model; nothing is computed unless a recorder is
active.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import nn

from regard.attention.torch_attention import (
    is_torch_attention,
    torch_attention_recorded,
)
from regard.common.arguments import describe
from regard.common.errors import UsageError
from regard.common.shapes import Float, Tensor

ROLES = ("encoder", "decoder", "cross")
_SHOWN = 3  # classes of attention that nothing here records
_RECORDERS: ContextVar[tuple[AttentionRecorder, ...]] = ContextVar(
    "recorders", default=()
)


class AttentionRecorder(Mapping[str, Tensor]):
    """Recorded attention weights, or scores: layer name → (N, H, T, S), in the order in which the
    layers first ran.

    Successive steps are concatenated on the T axis; if the memory grew meanwhile (a decoder's KV
    cache), earlier steps are padded with the weight of entries that did not exist yet, 0, or with
    their score, −∞.
    """

    def __init__(
        self, names: dict[nn.Module, str], gradients: bool = False, scores: bool = False
    ) -> None:
        self._names = names
        self._gradients = gradients
        self._scores = scores
        self._recorded: dict[str, list[Tensor]] = {}

    def watches(self, module: nn.Module) -> bool:
        """True if the module belongs to the watched model, and has the wanted role."""
        return module in self._names

    def record(
        self,
        module: nn.Module,
        weights: Float[Tensor, "N H T S"],
        scores: Float[Tensor, "N H T S"],
    ) -> None:
        """Record the weights of one forward pass of `module`, or their scores."""
        part = scores if self._scores else weights
        self._recorded.setdefault(self._names[module], []).append(
            part if self._gradients else part.detach()
        )

    def __getitem__(self, name: str) -> Tensor:
        parts = self._recorded[name]
        rows = sorted({len(part) for part in parts})
        if len(rows) > 1:
            raise UsageError(
                f"{name}: its passes had {', '.join(map(str, rows))} rows, as in a search with a "
                f"beam, and cannot stand one after another; take `readings.passes({name!r})`, one "
                "tensor for each"
            )
        longest = max(part.shape[-1] for part in parts)
        missing = -torch.inf if self._scores else 0.0
        return torch.cat(
            [
                F.pad(part, (0, longest - part.shape[-1]), value=missing)
                for part in parts
            ],
            2,
        )

    def passes(self, name: str) -> list[Tensor]:
        """Return what was recorded of each forward pass of a layer, (N, H, T, S), in order."""
        return list(self._recorded[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._recorded)

    def __len__(self) -> int:
        return len(self._recorded)


@contextmanager
def watch(
    model: nn.Module,
    gradients: bool = False,
    role: str | None = None,
    scores: bool = False,
) -> Iterator[AttentionRecorder]:
    """Record all attention weights of `model` while the block runs: `with watch(model) as readings:
    …`.

    The weights are computed beside the same kernel, so the outputs are unchanged to the bit.
    `model` may be part of a model, such as a single `Attention`, and any model of PyTorch's own
    `nn.MultiheadAttention`, as in `nn.Transformer`. With `gradients` the weights stay in the
    autograd graph. `role` restricts the recording to the attentions of that role ("encoder",
    "decoder" or "cross"), which those of PyTorch do not have. `scores`: record what softmax makes
    the weights of instead; −∞: what a query does not see.

    Raises UsageError for a model without such attention; warns if the block recorded nothing.
    """
    _check_module(model)
    check_role(role)
    if not any(map(_is_recorded, model.modules())):
        subject = f"watch: {type(model).__name__} has no attention that can be recorded"
        raise UsageError(subject + _other_attention(model))
    with record_attention(model, gradients, role, scores) as recorder:
        yield recorder
    if not recorder:
        warnings.warn(_why_nothing(model, role), stacklevel=3)


def check_role(role: object) -> None:
    """Raise UsageError for what is no role of attention, nor None."""
    if not (role is None or (isinstance(role, str) and role in ROLES)):
        raise UsageError(
            f"`role=`: wanted {', '.join(ROLES)} or None, got {describe(role)}"
        )


def _check_module(model: object) -> None:
    """Raise UsageError for what is no module of PyTorch."""
    if not isinstance(model, nn.Module):
        # No getter is run.
        has_model = hasattr(type(model), "model") or "model" in getattr(
            model, "__dict__", {}
        )
        remedy = "; give its `.model`" if has_model else ""
        raise UsageError(
            f"watch: wanted a module of PyTorch, got {describe(model)}{remedy}"
        )


def _is_recorded(module: nn.Module) -> bool:
    return getattr(module, "is_recorded", False) is True or is_torch_attention(module)


def _other_attention(model: nn.Module) -> str:
    """Return the end of a message: what is recorded, and the classes in a model that call
    themselves attention.
    """
    wanted = ": wanted Regard's Attention or PyTorch's nn.MultiheadAttention"
    others = dict.fromkeys(
        type(m).__name__
        for m in model.modules()
        if "attention" in type(m).__name__.lower()
    )
    if not others:
        return wanted
    return (
        f"{wanted}, got {', '.join([*others][:_SHOWN])}; ask such a model for its weights itself "
        '(those of Hugging Face: attn_implementation="eager" when it is loaded, '
        "output_attentions=True when it is called)"
    )


def _why_nothing(model: nn.Module, role: str | None) -> str:
    """Return why a block may have recorded nothing."""
    modules = [module for module in model.modules() if _is_recorded(module)]
    if role is not None and not any(
        getattr(module, "role", None) == role for module in modules
    ):
        return f"watch recorded nothing: {type(model).__name__} has no attention of the role {role}"
    return (
        f"watch recorded nothing: no forward pass of {type(model).__name__} called its attention "
        "in this thread while the block ran; call the model in the block"
    )


@contextmanager
def record_attention(
    model: nn.Module,
    gradients: bool = False,
    role: str | None = None,
    scores: bool = False,
) -> Iterator[AttentionRecorder]:
    """Record as `watch` does, whether the model has attention or not."""
    modules = {module: name for name, module in model.named_modules()}
    if role is not None:
        modules = {
            module: name
            for module, name in modules.items()
            if getattr(module, "role", None) == role
        }
    recorder = AttentionRecorder(modules, gradients, scores)
    token = _RECORDERS.set((*_RECORDERS.get(), recorder))

    def record(module: nn.Module, weights: Tensor, scores: Tensor) -> None:
        if recorder in active_recorders(module):  # not in another thread
            recorder.record(module, weights, scores)

    try:
        with torch_attention_recorded(modules, record):
            yield recorder
    finally:
        _RECORDERS.reset(token)


def are_watched(model: nn.Module) -> bool:
    """Return whether a recorder of this thread or task watches any module of a model."""
    recorders = _RECORDERS.get()
    return bool(recorders) and any(
        recorder.watches(module) for recorder in recorders for module in model.modules()
    )


def active_recorders(module: nn.Module) -> tuple[AttentionRecorder, ...]:
    """Return the recorders that watch this module in this thread or task; `watch` blocks may be
    nested.
    """
    return tuple(recorder for recorder in _RECORDERS.get() if recorder.watches(module))
