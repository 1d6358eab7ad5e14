"""Recognise the models that the library's programs compute exactly as PyTorch would.

A program is written for certain classes, and for the attributes that `build` gives their instances.
It would silently ignore a subclass, a replaced method, a hook or a changed attribute, so PyTorch
decodes a model that has one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from operator import attrgetter
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as torch_module
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from regard.attention.ablation import is_ablated
from regard.attention.recorder import are_watched
from regard.common.monkey_patches import are_as_defined, find_patch, has_definition
from regard.model_folder import ModelFolder, without_weights
from regard.models import DECODERS, ENCODERS, EncoderSizes, Model
from regard.runtime.native import checksum_at

_METHODS = ("forward", "__call__", "_call_impl", "_wrapped_call_impl", "__getattr__")
"""Methods of PyTorch's modules that a forward pass calls. Methods that other packages add are
harmless.
"""
_forward_methods = attrgetter(*_METHODS)
_MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))
"""Attributes that hold parameters, modules and hooks, which are compared separately."""
_FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_FLAT_WEIGHT_PREFIX = "_flat_weight"
"""Prefix of the attributes in which PyTorch's recurrent networks list their parameters a second
time.
"""


def _is_original(cls: type) -> bool:
    """Return whether the methods of a PyTorch class come from the file that defines the class."""
    methods = [vars(cls)[name] for name in _METHODS if name in vars(cls)]
    file = sys.modules[cls.__module__].__file__
    return all(
        getattr(method, "__code__", None) and method.__code__.co_filename == file
        for method in methods
    )


# A user may have patched PyTorch before importing Regard; such a class is left out.
_TORCH_METHODS: dict[type, tuple[object, ...]] = {
    cls: _forward_methods(cls)
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
"""Classes of PyTorch that models consist of, each with the methods that it had at import."""

_torch_functions = attrgetter(
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
_TORCH_FUNCTIONS = _torch_functions(F)
"""Functions of PyTorch that modules of Regard call, as they were at import."""


class Classes(NamedTuple):
    """The classes of the modules that the library computes, with their bases.

    `of_regard` are defined by Regard, `of_torch` by PyTorch.
    """

    of_regard: tuple[type, ...]
    of_torch: tuple[type, ...]

    @classmethod
    def of(cls, parts: Iterable[nn.Module]) -> Classes:
        """Return the classes of all modules in some parts of a model."""
        module_classes = {type(module) for part in parts for module in part.modules()}
        module_classes.add(Model)
        bases = {base for module in module_classes for base in module.__mro__}
        ordered = sorted(bases, key=lambda base: base.__qualname__)
        return cls(
            tuple(filter(has_definition, ordered)),
            tuple(base for base in ordered if base in _TORCH_METHODS),
        )

    def are_as_defined(self) -> bool:
        """Return whether every method that the library replaces is the original one."""
        has_original_torch = all(
            _forward_methods(cls) == _TORCH_METHODS[cls] for cls in self.of_torch
        )
        return (
            has_original_torch
            and are_as_defined(self.of_regard)
            and _torch_functions(F) == _TORCH_FUNCTIONS
        )

    def find_patch(self) -> str | None:
        """Return the name of a method that was replaced; None if there is none."""
        patch = find_patch(self.of_regard)
        if patch is not None:
            return patch
        for cls in self.of_torch:
            if _forward_methods(cls) != _TORCH_METHODS[cls]:
                return f"a method of {cls.__name__}"
        if _torch_functions(F) != _TORCH_FUNCTIONS:
            return "a function of torch.nn.functional"
        return None


def computed_parts(model: Model, runs_encoder: bool) -> dict[str, nn.Module]:
    """Return the parts of a model that the library computes, by name.

    The encoder is one of them if `runs_encoder`.
    """
    if runs_encoder:
        return {"encoder": model.encoder, "decoder": model.decoder}
    return {"decoder": model.decoder}


def why_foreign(parts: dict[str, nn.Module]) -> str | None:
    """Return which module has a class that the library does not know or that was patched; None if
    none.
    """
    for name, module in _named_modules(parts):
        if not has_definition(type(module)) and type(module) not in _TORCH_METHODS:
            return f"{name} is a {type(module).__qualname__}, a class that only PyTorch can run"
    patch = Classes.of(parts.values()).find_patch()
    return None if patch is None else f"{patch} was replaced"


def own_classes(model: Model) -> list[str]:
    """Return the reason why a part of the model has a user-defined class; empty if no part has.

    No other toolkit can run such a class.
    """
    reason = why_foreign(computed_parts(model, runs_encoder=True))
    return [] if reason is None else [reason]


def build_parts(
    folder: ModelFolder, sizes: EncoderSizes, runs_encoder: bool
) -> dict[str, nn.Module]:
    """Build the computed parts of a model from its settings, without weights, for `why_changed`.

    `sizes`: sizes of the model's actual encoder.
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
    """Return how a model differs from what its settings build, in modules, hooks or attributes.

    `built` holds the parts that `build_parts` returns. The values of weights may differ. Returns
    None if there is no other difference.
    """
    fresh_model = Model(model.encoder, model.decoder)
    if difference := _difference("the model", model, fresh_model):
        return difference
    for part_name, built_part in built.items():
        modules = getattr(model, part_name).named_modules(prefix=part_name)
        built_modules = built_part.named_modules(prefix=part_name)
        pairs = zip_longest(modules, built_modules, fillvalue=("", None))
        for (name, module), (built_name, expected) in pairs:
            if name != built_name or module is None or expected is None:
                return (
                    f"{name or built_name} is not a module that the settings build, or is "
                    "missing"
                )
            difference = _difference(name, module, expected)
            difference = difference or _weight_difference(name, module, expected)
            if difference:
                return difference
    return None


def _named_modules(parts: dict[str, nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    for name, part in parts.items():
        yield from part.named_modules(prefix=name)


def _difference(name: str, module: nn.Module, expected: nn.Module) -> str | None:
    """Return how a module differs from a newly built one in class, hooks or attributes.

    Parameters and submodules are not compared here.
    """
    if type(module) is not type(expected):
        return (
            f"{name} is a {type(module).__qualname__} instead of a "
            f"{type(expected).__qualname__}"
        )
    if any(getattr(module, hooks) for hooks in _FORWARD_HOOKS):
        return f"{name} has a forward hook"
    values = _attributes(module)
    defaults = _attributes(expected)
    for attribute in sorted({*values, *defaults}):
        is_shared = attribute in values and attribute in defaults
        if not is_shared or not _are_equal(values[attribute], defaults[attribute]):
            return f"{name}.{attribute} was changed"
    return None


def _attributes(module: nn.Module) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(module).items()
        if name not in _MODULE_ATTRIBUTES and not name.startswith(_FLAT_WEIGHT_PREFIX)
    }


def _are_equal(value: object, default: object) -> bool:
    """Return whether two attributes are equal.

    Values that cannot be compared, such as tensors, count as different.
    """
    if value is default:
        return True
    return (
        type(value) is type(default)
        and not isinstance(value, torch.Tensor)
        and bool(value == default)
    )


def _weight_difference(name: str, module: nn.Module, expected: nn.Module) -> str | None:
    """Return which parameter or buffer has another name, class, shape, dtype or device than the
    newly built one; None if there is none.
    """
    for tensors in ("_parameters", "_buffers"):
        values = getattr(module, tensors)
        defaults = getattr(expected, tensors)
        if values.keys() != defaults.keys():
            return f"{name} has other weights than the settings build"
        for weight, value in values.items():
            default = defaults[weight]
            if type(value) is not type(default):
                return f"{name}.{weight} is not the weight that the settings build"
            if value is None:
                continue
            if value.shape != default.shape:
                return f"{name}.{weight} is not the weight that the settings build"
            if value.dtype != torch.float32 or value.device.type != "cpu":
                return (
                    f"{name}.{weight} is {value.dtype} on {value.device}, and the library reads "
                    "float32 on the CPU"
                )
    return None


def why_intercepted(model: nn.Module) -> str | None:
    """Return what PyTorch would do besides computing this model: record it, ablate a head, or
    call a user's hook or mode.

    None if nothing intercepts the forward pass.
    """
    if are_watched(model):
        return "`regard.watch` records it"
    if is_ablated(model):
        return "`regard.ablate` changes it"
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return "a hook of all modules is registered"
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    are_watching = any(not isinstance(mode, DeviceContext) for mode in modes)
    if are_watching or torch._C._len_torch_dispatch_stack():
        return "a mode of PyTorch is active"
    return None


def fingerprint(model: Model, runs_encoder: bool) -> list[int]:
    """Return numbers that change if the library's copy of a model is outdated.

    They are the identity of the encoder, and a checksum of each parameter and buffer. Every weight
    is read in full, since writing to `.data` leaves no other trace.
    """
    numbers = [id(model.encoder)]
    for part in computed_parts(model, runs_encoder).values():
        for tensor in (*part.parameters(), *part.buffers()):
            values = tensor.detach().contiguous()
            numbers.append(checksum_at(values.data_ptr(), values.nbytes))
    return numbers
