"""Known models: those that the library's programs compute exactly as PyTorch would.

A program is written for classes, and for the attributes that `build` gives them. A subclass, a
replaced method, a hook, or an attribute that was changed would be left out of it without a sign, so
PyTorch decodes such a model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as torch_module
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from regard.attention.recorder import are_watched
from regard.common.monkey_patches import are_as_defined, find_patch, has_definition
from regard.model_folder import ModelFolder, without_weights
from regard.models import DECODERS, ENCODERS, EncoderSizes, Model
from regard.runtime.native import checksum_at

_METHODS = ("forward", "__call__", "_call_impl", "_wrapped_call_impl", "__getattr__")
"""Methods of PyTorch's modules that a forward pass calls. Other packages add further ones, which
change nothing.
"""
_methods = attrgetter(*_METHODS)
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
"""Attributes that hold parameters, modules and hooks; these are compared by themselves."""
_FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_FLAT = "_flat_weight"
"""Beginning of attributes in which PyTorch's recurrent networks list their parameters once more."""


def _is_original(cls: type) -> bool:
    """Return whether the methods of a class of PyTorch's come from the file that defines it."""
    methods = [vars(cls)[name] for name in _METHODS if name in vars(cls)]
    file = sys.modules[cls.__module__].__file__
    return all(
        getattr(method, "__code__", None) and method.__code__.co_filename == file
        for method in methods
    )


# Regard is imported late, after whatever its user does to PyTorch.
_OF_TORCH: dict[type, tuple[Any, ...]] = {
    cls: _methods(cls)
    for cls in (
        nn.Module,
        nn.Linear,
        nn.LayerNorm,
        nn.Identity,
        nn.ModuleList,
        nn.RNN,
        nn.GRU,
        nn.LSTM,
    )
    if _is_original(cls)
}
"""Classes of PyTorch that models are made of, with the methods that they had when this module was
imported.
"""

_functions = attrgetter(
    *(
        "linear",
        "embedding",
        "layer_norm",
        "scaled_dot_product_attention",
        "relu",
        "gelu",
        "silu",
        "glu",
        "normalize",
    )
)
_FUNCTIONS = _functions(F)
"""Functions of PyTorch that modules of Regard call, as they were when this module was imported."""


class Classes(NamedTuple):
    """The classes of the modules that the library computes, and their bases: Regard's own, and
    PyTorch's.
    """

    own: tuple[type, ...]
    of_torch: tuple[type, ...]

    @classmethod
    def of(cls, parts: Iterable[nn.Module]) -> Classes:
        """Return the classes of all modules of some parts of a model."""
        kinds = {type(module) for part in parts for module in part.modules()} | {Model}
        bases = {base for kind in kinds for base in kind.__mro__}
        ordered = sorted(bases, key=lambda base: base.__qualname__)
        return cls(
            tuple(filter(has_definition, ordered)),
            tuple(base for base in ordered if base in _OF_TORCH),
        )

    def are_as_defined(self) -> bool:
        """Return whether no method that the library stands for was replaced."""
        of_torch = [*map(_methods, self.of_torch)] == [
            *map(_OF_TORCH.__getitem__, self.of_torch)
        ]
        return of_torch and are_as_defined(self.own) and _functions(F) == _FUNCTIONS

    def find_patch(self) -> str | None:
        """Return the name of a method that was replaced."""
        if (patch := find_patch(self.own)) is not None:
            return patch
        patched = [
            f"a method of {cls.__name__}"
            for cls in self.of_torch
            if _methods(cls) != _OF_TORCH[cls]
        ]
        if _functions(F) != _FUNCTIONS:
            patched.append("a function of torch.nn.functional")
        return patched[0] if patched else None


def computed_parts(model: Model, runs_encoder: bool) -> dict[str, nn.Module]:
    """Return the parts that the library computes, by name. `runs_encoder`: the encoder is one of
    them.
    """
    parts: dict[str, nn.Module] = {"decoder": model.decoder}
    return {"encoder": model.encoder, **parts} if runs_encoder else parts


def why_foreign(parts: dict[str, nn.Module]) -> str | None:
    """Return which module of these parts is of a class that the library does not know, or was
    patched.
    """
    for name, module in _named_modules(parts):
        if not has_definition(type(module)) and type(module) not in _OF_TORCH:
            return f"{name} is a {type(module).__qualname__}, a class that only PyTorch can run"
    patch = Classes.of(parts.values()).find_patch()
    return None if patch is None else f"{patch} was replaced"


def own_classes(model: Model) -> list[str]:
    """Return which part of a model is of a class of its user's, which no other toolkit has, if one
    is.
    """
    reason = why_foreign(computed_parts(model, runs_encoder=True))
    return [] if reason is None else [reason]


def build_parts(
    folder: ModelFolder, sizes: EncoderSizes, runs_encoder: bool
) -> dict[str, nn.Module]:
    """Build the computed parts of a model from its settings, without weights, for `why_changed`.

    `sizes`: those of the encoder that the model has.
    """
    settings = folder.settings.model
    tokenizer = folder.tokenizer
    with without_weights():
        parts: dict[str, nn.Module] = {
            "decoder": DECODERS[type(settings.decoder)](
                settings.decoder, len(tokenizer.target), sizes
            )
        }
        if runs_encoder:
            parts["encoder"] = ENCODERS[type(settings.encoder)](
                settings.encoder, len(tokenizer.source)
            )
    return parts


def why_changed(model: Model, built: dict[str, nn.Module]) -> str | None:
    """Return in which way a model is no longer what its settings build, in modules, hooks or
    attributes.

    Weights may differ: they are packed as they are. `built`: parts that `build_parts` returns.
    """
    if difference := _difference(
        "the model", model, Model(model.encoder, model.decoder)
    ):
        return difference
    for name, wanted_part in built.items():
        own_modules = getattr(model, name).named_modules(prefix=name)
        wanted_modules = wanted_part.named_modules(prefix=name)
        pairs = zip_longest(own_modules, wanted_modules, fillvalue=("", None))
        for (own_name, own), (wanted_name, wanted) in pairs:
            if own_name != wanted_name or own is None or wanted is None:
                return (
                    f"{own_name or wanted_name} is not a module that the settings build, or is "
                    "missing"
                )
            if difference := _difference(own_name, own, wanted) or _weight_difference(
                own_name, own, wanted
            ):
                return difference
    return None


def _named_modules(parts: dict[str, nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    for name, part in parts.items():
        yield from part.named_modules(prefix=name)


def _difference(name: str, own: nn.Module, wanted: nn.Module) -> str | None:
    """Return how a module differs from one that was built for comparison, its parameters and parts
    excepted.
    """
    if type(own) is not type(wanted):
        return f"{name} is a {type(own).__qualname__} instead of a {type(wanted).__qualname__}"
    if any(getattr(own, hooks) for hooks in _FORWARD_HOOKS):
        return f"{name} has a forward hook"
    values = _attributes(own)
    defaults = _attributes(wanted)
    for attribute in sorted({*values, *defaults}):
        if (
            attribute not in values
            or attribute not in defaults
            or not _same(values[attribute], defaults[attribute])
        ):
            return f"{name}.{attribute} was changed"
    return None


def _attributes(module: nn.Module) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(module).items()
        if name not in _OF_EVERY_MODULE and not name.startswith(_FLAT)
    }


def _same(value: Any, default: Any) -> bool:
    """Return whether two attributes are equal. Those that cannot be compared, such as tensors,
    count as changed.
    """
    if value is default:
        return True
    return (
        type(value) is type(default)
        and not isinstance(value, torch.Tensor)
        and bool(value == default)
    )


def _weight_difference(name: str, own: nn.Module, wanted: nn.Module) -> str | None:
    """Return which parameter or buffer of a module is not what was built: another name, kind,
    shape, type or device.
    """
    for tensors in ("_parameters", "_buffers"):
        values = getattr(own, tensors)
        defaults = getattr(wanted, tensors)
        if values.keys() != defaults.keys():
            return f"{name} has other weights than the settings build"
        for weight, value in values.items():
            default = defaults[weight]
            if type(value) is not type(default) or (
                value is not None and value.shape != default.shape
            ):
                return f"{name}.{weight} is not the weight that the settings build"
            if value is not None and (value.dtype, value.device.type) != (
                torch.float32,
                "cpu",
            ):
                return (
                    f"{name}.{weight} is {value.dtype} on {value.device}, and the library reads "
                    "float32 on the CPU"
                )
    return None


def why_intercepted(model: nn.Module) -> str | None:
    """Return what PyTorch would do besides computing this model: record it, or call a hook or mode
    of its user.
    """
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

    A checksum of each parameter and buffer, read whole, since writing to `.data` leaves no other
    trace, and the identity of the encoder.
    """
    checksums = [id(model.encoder)]
    for part in computed_parts(model, runs_encoder).values():
        for tensor in (*part.parameters(), *part.buffers()):
            numbers = tensor.detach().contiguous()
            checksums.append(checksum_at(numbers.data_ptr(), numbers.nbytes))
    return checksums
