"""Known models: those that the library's programs compute exactly as PyTorch would.

A program is written for classes, and for the attributes that `build` gives them. A subclass, a replaced method, a hook,
or an attribute that was changed would be left out of it without a sign, so PyTorch decodes such a model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.rnn import RNNBase
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from regard.attention.recorder import are_watched
from regard.common.monkey_patches import as_defined, find_patch, has_definition
from regard.model_folder import ModelFolder, without_weights
from regard.models import DECODERS, ENCODERS, Model
from regard.runtime.native import checksum_at

_TORCH_CLASSES = (nn.Module, nn.Linear, nn.LayerNorm, nn.Identity, nn.ModuleList, RNNBase, nn.RNN, nn.GRU, nn.LSTM)
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
"""Attributes that hold parameters, modules and hooks; these are compared by themselves."""
_FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_FLAT = "_flat_weight"
"""Beginning of attributes in which PyTorch's recurrent networks list their parameters once more."""


def _is_original(cls: type) -> bool:
    """Return whether the methods by which PyTorch calls a class of its own come from the file that defines it."""
    methods = [vars(cls)[name] for name in ("forward", "__call__") if name in vars(cls)]
    file = sys.modules[cls.__module__].__file__
    return all(getattr(method, "__code__", None) and method.__code__.co_filename == file for method in methods)


for _cls in _TORCH_CLASSES:
    if _is_original(_cls):  # Regard is imported late, after whatever its user does to PyTorch
        as_defined(_cls)


def computed_parts(model: Model, runs_encoder: bool) -> dict[str, nn.Module]:
    """Return the parts that the library computes, by name. `runs_encoder`: the encoder is one of them."""
    parts: dict[str, nn.Module] = {"decoder": model.decoder}
    return {"encoder": model.encoder, **parts} if runs_encoder else parts


def classes_of(parts: Iterable[nn.Module]) -> tuple[type, ...]:
    """Return the classes of all modules, and their bases, whose methods the library stands for."""
    kinds = {type(module) for part in parts for module in part.modules()} | {Model}
    bases = {base: None for kind in sorted(kinds, key=lambda kind: kind.__qualname__) for base in kind.__mro__}
    return tuple(base for base in bases if has_definition(base))


def why_foreign(parts: dict[str, nn.Module]) -> str | None:
    """Return which module of these parts is of a class that the library does not know, or was patched."""
    for name, module in _named_modules(parts):
        if not has_definition(type(module)):
            return f"{name} is a {type(module).__qualname__}, a class that has no program"
    patch = find_patch(classes_of(parts.values()))
    return None if patch is None else f"{patch} was replaced"


def why_changed(model: Model, folder: ModelFolder, runs_encoder: bool) -> str | None:
    """Return in which way a model is no longer what its settings build, in modules, hooks or attributes.

    Weights may differ: they are packed as they are.
    """
    settings, tokenizer = folder.settings.model, folder.tokenizer
    parts = computed_parts(model, runs_encoder)
    built: dict[str, nn.Module] = {}
    with without_weights():
        decoder = DECODERS[type(settings.decoder)]
        built["decoder"] = decoder(settings.decoder, len(tokenizer.target), model.encoder.sizes)
        if runs_encoder:
            built["encoder"] = ENCODERS[type(settings.encoder)](settings.encoder, len(tokenizer.source))
    if difference := _difference("the model", model, Model(model.encoder, model.decoder)):
        return difference
    for name, part in parts.items():
        own_modules = part.named_modules(prefix=name)
        wanted_modules = built[name].named_modules(prefix=name)
        pairs = zip_longest(own_modules, wanted_modules, fillvalue=("", None))
        for (own_name, own), (wanted_name, wanted) in pairs:
            if own_name != wanted_name or own is None or wanted is None:
                return f"{own_name or wanted_name} is not a module that the settings build, or is missing"
            if difference := _difference(own_name, own, wanted) or _weight_difference(own_name, own, wanted):
                return difference
    return None


def _named_modules(parts: dict[str, nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    for name, part in parts.items():
        yield from part.named_modules(prefix=name)


def _difference(name: str, own: nn.Module, wanted: nn.Module) -> str | None:
    """Return how a module differs from one that was built for comparison, its parameters and parts excepted."""
    if type(own) is not type(wanted):
        return f"{name} is a {type(own).__qualname__} instead of a {type(wanted).__qualname__}"
    if any(getattr(own, hooks) for hooks in _FORWARD_HOOKS):
        return f"{name} has a forward hook"
    values, defaults = _attributes(own), _attributes(wanted)
    for attribute in sorted({*values, *defaults}):
        if attribute not in values or attribute not in defaults or not _same(values[attribute], defaults[attribute]):
            return f"{name}.{attribute} was changed"
    return None


def _attributes(module: nn.Module) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(module).items()
        if name not in _OF_EVERY_MODULE and not name.startswith(_FLAT)
    }


def _same(value: Any, default: Any) -> bool:
    """Return whether two attributes are equal. Those that cannot be compared, such as tensors, count as changed."""
    if value is default:
        return True
    return type(value) is type(default) and not isinstance(value, torch.Tensor) and bool(value == default)


def _weight_difference(name: str, own: nn.Module, wanted: nn.Module) -> str | None:
    """Return which parameter or buffer of a module is not what was built: another name, kind, shape, type or device."""
    for tensors in ("_parameters", "_buffers"):
        values, defaults = getattr(own, tensors), getattr(wanted, tensors)
        if values.keys() != defaults.keys():
            return f"{name} has other weights than the settings build"
        for weight, value in values.items():
            default = defaults[weight]
            if type(value) is not type(default) or (value is not None and value.shape != default.shape):
                return f"{name}.{weight} is not the weight that the settings build"
            if value is not None and (value.dtype, value.device.type) != (torch.float32, "cpu"):
                return f"{name}.{weight} is {value.dtype} on {value.device}, and the library reads float32 on the CPU"
    return None


def why_intercepted(model: nn.Module) -> str | None:
    """Return what PyTorch would do besides computing this model: record it, or call a hook or mode of its user."""
    if are_watched(model):
        return "`regard.watch` records it"
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return "a hook of all modules is registered"
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    are_watching = any(not isinstance(mode, DeviceContext) for mode in modes)
    if are_watching or torch._C._len_torch_dispatch_stack():
        return "a mode of PyTorch is active"
    return None


def fingerprint(model: Model, runs_encoder: bool) -> list[int]:
    """Return what changes if the library's copy of a model is outdated.

    A checksum of each parameter and buffer, read whole, since writing to `.data` leaves no other trace, and the
    identity of the encoder.
    """
    checksums = [id(model.encoder)]
    for part in computed_parts(model, runs_encoder).values():
        for tensor in (*part.parameters(), *part.buffers()):
            numbers = tensor.detach().contiguous()
            checksums.append(checksum_at(numbers.data_ptr(), numbers.nbytes))
    return checksums
