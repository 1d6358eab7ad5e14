"""Record attention weights from outside a model.

Attention modules compute their weights for recording only while a recorder is active.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
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
_MAX_CLASSES = 3  # class names listed in an error message
_RECORDERS: ContextVar[tuple[AttentionRecorder, ...]] = ContextVar(
    "recorders", default=()
)


class AttentionRecorder(Mapping[str, Tensor]):
    """Recorded attention weights, or scores: a mapping from layer names to tensors (N, H, T, S).

    Layers are in the order in which they first ran. Successive steps are concatenated on the T
    axis. If a KV cache grew between them, the earlier steps are padded for the entries that did not
    exist yet: with the weight 0, or the score −∞.
    """

    def __init__(
        self,
        names: dict[nn.Module, str],
        gradients: bool = False,
        scores: bool = False,
        on_path: bool = False,
    ) -> None:
        self.on_path = on_path  # outputs are computed from what is recorded
        self._names = names
        self._gradients = gradients
        self._scores = scores
        self._recorded: dict[str, list[Tensor]] = {}

    def watches(self, module: nn.Module) -> bool:
        """Return whether the module belongs to the watched model and has the wanted role."""
        return module in self._names

    def record(
        self,
        module: nn.Module,
        weights: Float[Tensor, "N H T S"],
        scores: Float[Tensor, "N H T S"],
    ) -> None:
        """Record the weights, or the scores, of one forward pass of `module`."""
        recorded = scores if self._scores else weights
        if not self._gradients:
            recorded = recorded.detach()
        self._recorded.setdefault(self._names[module], []).append(recorded)

    def __repr__(self) -> str:
        return "\n".join(f"{name} {tuple(self[name].shape)}" for name in self)

    def __getitem__(self, name: str) -> Tensor:
        value = -torch.inf if self._scores else 0.0
        return self._joined(name, self._recorded[name], value)

    def gradient(self, loss: Float[Tensor, ""], name: str) -> Tensor:
        """Return the gradient of a loss by the weights, or scores, of a layer: (N, H, T, S).

        Needs `watch(model, gradients=True)`. Raises UsageError if the loss was not computed from
        what was recorded.
        """
        passes = self._recorded[name]
        gradients: Sequence[Tensor | None] = ()
        if self.on_path and loss.requires_grad:
            gradients = torch.autograd.grad(
                loss, passes, retain_graph=True, allow_unused=True
            )
        if all(gradient is None for gradient in gradients):
            raise UsageError(
                f"{name}: wanted a loss that was computed from what was recorded, got another; use "
                "watch(model, gradients=True), and compute the loss from the model's outputs in "
                "its block, with Regard's attention (PyTorch's own is recorded beside its kernels)"
            )
        known = [
            torch.zeros_like(recorded) if gradient is None else gradient
            for recorded, gradient in zip(passes, gradients, strict=True)
        ]
        return self._joined(name, known, 0.0)

    def _joined(self, name: str, passes: Sequence[Tensor], value: float) -> Tensor:
        """Concatenate passes on the T axis, those with fewer entries padded with a value."""
        rows = sorted({len(recorded) for recorded in passes})
        if len(rows) > 1:
            raise UsageError(
                f"{name}: its passes had {', '.join(map(str, rows))} rows, as in a search with a "
                f"beam, and cannot stand one after another; take `readings.passes({name!r})`, one "
                "tensor for each"
            )
        longest = max(recorded.shape[-1] for recorded in passes)
        padded = [
            F.pad(recorded, (0, longest - recorded.shape[-1]), value=value)
            for recorded in passes
        ]
        return torch.cat(padded, 2)

    def passes(self, name: str) -> list[Tensor]:
        """Return one tensor (N, H, T, S) for each forward pass of a layer, in order."""
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
    """Record all attention weights while a block runs: `with watch(model) as readings: …`.

    The weights are computed in addition to the usual kernel, so the outputs are unchanged to the
    bit. `model` may be a part of a model, such as a single `Attention`, or any model with PyTorch's
    own `nn.MultiheadAttention`, such as `nn.Transformer`.

    With `gradients` Regard's attention computes its output from the recorded tensors, of which
    `readings.gradient(loss, layer)` then gives the gradient; the last bits of outputs may differ.
    Weights of PyTorch's own modules stay in the autograd graph, beside the computation.
    `role` restricts the recording to attention of one role ("encoder", "decoder" or "cross");
    PyTorch's own modules have no role. With `scores` the scores before the softmax are recorded
    instead; masked ones are −∞.

    Raises UsageError for a model without such attention; warns if the block recorded nothing.
    """
    check_module(model, "watch")
    check_role(role)
    if not any(map(_is_recorded, model.modules())):
        subject = f"watch: {type(model).__name__} has no attention that can be recorded"
        raise UsageError(subject + _other_attention(model))
    with record_attention(model, gradients, role, scores, gradients) as recorder:
        yield recorder
    if not recorder:
        warnings.warn(_why_nothing(model, role), stacklevel=3)


def check_role(role: object) -> None:
    """Raise UsageError if `role` is neither a role of attention nor None."""
    if not (role is None or (isinstance(role, str) and role in ROLES)):
        raise UsageError(
            f"`role=`: wanted {', '.join(ROLES)} or None, got {describe(role)}"
        )


def check_module(model: object, function: str) -> None:
    """Raise UsageError if the `model` of a function is not a module of PyTorch."""
    if not isinstance(model, nn.Module):
        # Looking the attribute up in this way runs no property.
        attributes = getattr(model, "__dict__", {})
        has_model = hasattr(type(model), "model") or "model" in attributes
        remedy = "; give its `.model`" if has_model else ""
        raise UsageError(
            f"{function}: wanted a module of PyTorch, got {describe(model)}{remedy}"
        )


def _is_recorded(module: nn.Module) -> bool:
    return getattr(module, "is_recorded", False) is True or is_torch_attention(module)


def _other_attention(model: nn.Module) -> str:
    """Return the end of a message: the supported classes, and the model's own attention classes."""
    wanted = ": wanted Regard's Attention or PyTorch's nn.MultiheadAttention"
    class_names = dict.fromkeys(type(module).__name__ for module in model.modules())
    others = [name for name in class_names if "attention" in name.lower()]
    if not others:
        return wanted
    listed = ", ".join(others[:_MAX_CLASSES])
    return (
        f"{wanted}, got {listed}; ask such a model for its weights itself "
        '(those of Hugging Face: attn_implementation="eager" when it is loaded, '
        "output_attentions=True when it is called)"
    )


def _why_nothing(model: nn.Module, role: str | None) -> str:
    """Return why a block may have recorded nothing."""
    modules = [module for module in model.modules() if _is_recorded(module)]
    roles = {getattr(module, "role", None) for module in modules}
    if role is not None and role not in roles:
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
    on_path: bool = False,
) -> Iterator[AttentionRecorder]:
    """Record like `watch`, but accept a model without attention.

    `gradients` alone change no bit of an output; `on_path` computes it from what is recorded.
    """
    modules = {
        module: name
        for name, module in model.named_modules()
        if role is None or getattr(module, "role", None) == role
    }
    recorder = AttentionRecorder(modules, gradients, scores, on_path)
    token = _RECORDERS.set((*_RECORDERS.get(), recorder))

    def record(module: nn.Module, weights: Tensor, scores: Tensor) -> None:
        # Hooks also run in other threads, in which this recorder is not active.
        if recorder in active_recorders(module):
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
    """Return the recorders that watch this module in this thread or task.

    There are several if `watch` blocks are nested.
    """
    recorders = _RECORDERS.get()
    return recorders and tuple(
        recorder for recorder in recorders if recorder.watches(module)
    )
