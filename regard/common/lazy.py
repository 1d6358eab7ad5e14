"""Packages that are imported, and regular expressions that are compiled, when first used.

So PyTorch is loaded only where it is needed, and a line without markup compiles no pattern of
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
"""Packages of the extra `train`, by the names they are imported by."""
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
    """Return the `__getattr__` and `__dir__` of a package that has these names of each of its
    modules.

    A module whose name begins with `regard.` is one of another package.
    """
    modules = {name: module for module, own in names.items() for name in own}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}; it has {', '.join(sorted(modules))}"
            )
        module = modules[name]
        return getattr(
            import_module(
                module if module.startswith("regard.") else f"{package}.{module}"
            ),
            name,
        )

    return get, lambda: sorted(modules)


class _LazyPattern:
    """Stands for a regular expression until one of its attributes is asked for; then has them
    itself.
    """

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self._source, self._flags)
        self.__dict__ |= {method: getattr(compiled, method) for method in _METHODS}
        return getattr(compiled, name)


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled when first used, for constants of modules.

    Compiling takes up to ten milliseconds, and few lines need any of them. Functions such as
    `re.sub` do not take it: call its methods.
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
    """Raise MissingExtra, for this purpose, if an import in the block lacks one of these packages
    of an extra.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        if problem.name is None or problem.name.partition(".")[0] not in packages:
            raise
        raise MissingExtra(problem.name, extra, purpose) from None
