"""Checks of annotations by jaxtyping and beartype, for the import hook of the tests.

A function is checked in the first call of each form. A form is all that annotations speak of: the
types of the arguments and of the result, the shapes and types of their tensors, and their texts.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Hashable
from functools import partial, wraps
from types import CodeType, FunctionType
from typing import Any, runtime_checkable

import jaxtyping
import numpy as np
import torch
from beartype import beartype
from beartype.roar import BeartypeDecorHintPep3119Exception

UNCHECKED = {
    # Returns mappings, whose contents beartype inspects.
    "regard.attention.recorder.active_recorders",
    # Returns what stands for a pattern.
    "regard.common.lazy.lazy_pattern",
}
ALWAYS_CHECKED = jaxtyping.jaxtyped
Forms = defaultdict[Hashable, set[Hashable]]
PASSED: defaultdict[CodeType, Forms] = defaultdict(lambda: defaultdict(set))
"""The forms of results that passed, by the form of the arguments; for each function, which may be
defined again in each call of another one.
"""


def checked(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `call` so that beartype checks its annotations.

    Protocols are written for mypy; they are made checkable at run time only here, where beartype
    asks for instances.
    """
    if f"{call.__module__}.{call.__qualname__}" in UNCHECKED:
        return call

    try:
        return beartype(call)
    except BeartypeDecorHintPep3119Exception:
        for value in vars(sys.modules[call.__module__]).values():
            if getattr(value, "_is_protocol", False):
                runtime_checkable(value)
        return beartype(call)


def form(value: Any) -> Hashable:
    """Return all of `value` that an annotation speaks of."""
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        return kind, value.dtype, None if value.is_nested else value.shape
    if issubclass(kind, np.ndarray):
        return kind, value.dtype, value.shape
    if kind is tuple:
        return kind, *map(form, value)
    if kind in (list, set, frozenset):
        return kind, frozenset(map(form, value))
    if kind is dict:
        return kind, form(tuple(value)), form(tuple(value.values()))
    if kind is str or issubclass(kind, type):
        return value  # type: ignore[no-any-return]
    return kind


def checked_once(call: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """Check as `jaxtyping.jaxtyped` does, but functions only in the first call of each form."""
    if call is None:
        return partial(checked_once, typechecker=typechecker)
    if not isinstance(call, FunctionType):
        return ALWAYS_CHECKED(call, typechecker=typechecker)

    passed = PASSED[call.__code__]
    checked_calls = list[Callable[..., Any]]()

    @wraps(call)
    def called(*args: Any, **kwargs: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable:
            return call(*args, **kwargs)
        arguments = form((args, kwargs))
        if arguments not in passed:
            if not checked_calls:  # most functions are never checked
                checked_calls.append(ALWAYS_CHECKED(call, typechecker=typechecker))
            result = checked_calls[0](*args, **kwargs)
            passed[arguments].add(form(result))
            return result
        result = call(*args, **kwargs)
        result_form = form(result)
        if result_form not in passed[arguments]:
            check = ALWAYS_CHECKED(_recalled(call, result), typechecker=typechecker)
            check(*args, **kwargs)
            passed[arguments].add(result_form)
        return result

    return called


def _recalled(call: FunctionType, result: object) -> FunctionType:
    """Return a function with the annotations of `call`, and its names, that returns `result`."""

    def recalled(*_: Any, **__: Any) -> object:
        return result

    in_its_module = FunctionType(
        recalled.__code__, call.__globals__, closure=recalled.__closure__
    )
    return wraps(call)(in_its_module)  # type: ignore[return-value]


def install(modules: list[str]) -> None:
    """Check the annotations of modules that are imported from now on."""
    jaxtyping.jaxtyped = checked_once  # type: ignore[assignment]
    jaxtyping._decorator.jaxtyped = checked_once  # type: ignore[assignment]
    jaxtyping.install_import_hook(modules, f"{__name__}.{checked.__name__}")
