"""Import packages, and compile regular expressions, when they are first used.

Thus PyTorch is loaded only if it is needed, and a line without markup compiles no pattern of
markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, cast

from regard.common.errors import MissingExtra

TRAINING_PACKAGES = (
    "torch",
    "sentencepiece",
    "safetensors",
    "jaxtyping",
    "sacrebleu",
    "PIL",
    "fontTools",
    "tomli_w",
    "jinja2",
)
"""Packages of the extra `train`, by their import names."""
_METHODS = (
    "search",
    "match",
    "fullmatch",
    "finditer",
    "findall",
    "split",
    "sub",
    "subn",
)
"""Methods of a regular expression."""


def lazy_names(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package with the names that each module defines.

    A module whose name begins with `regard.` belongs to another package; one without names is a
    name itself.
    """
    modules = {
        name: module
        for module, module_names in names.items()
        for name in module_names or (module,)
    }

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}; it has {', '.join(sorted(modules))}"
            )
        module = modules[name]
        if not names[module]:
            return import_module(f"{package}.{module}")
        if not module.startswith("regard."):
            module = f"{package}.{module}"
        return getattr(import_module(module), name)

    return get, lambda: sorted(modules)


class _LazyPattern:
    """Placeholder of a regular expression, which compiles it and copies its methods at the first
    use.
    """

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self._source, self._flags)
        self.__dict__ |= {method: getattr(compiled, method) for method in _METHODS}
        return getattr(compiled, name)


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled at its first use, for constants of modules.

    Compilation takes up to ten milliseconds, and few lines need any of them. Call its methods:
    functions such as `re.sub` do not accept it.
    """
    return cast("re.Pattern[str]", _LazyPattern(source, flags))


def has_pytorch() -> bool:
    """Return whether PyTorch is installed."""
    with suppress(ModuleNotFoundError):
        import torch

        return bool(torch.__version__)
    return False


@contextmanager
def needs_extra(
    extra: str, purpose: str, packages: Collection[str] = TRAINING_PACKAGES
) -> Iterator[None]:
    """Raise MissingExtra, with the purpose, if an import in the block lacks a package of the
    extra.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        if problem.name is None or problem.name.partition(".")[0] not in packages:
            raise
        raise MissingExtra(problem.name, extra, purpose) from None
