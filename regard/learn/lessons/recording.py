"""Record the inputs and the output of every module of a model in one forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.common.shapes import Tensor


@dataclass(frozen=True)
class Call:
    """Arguments and result of the last call of a module."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    output: Any

    @property
    def input(self) -> Tensor:
        """First positional argument."""
        tensor: Tensor = self.args[0]
        return tensor


Calls = Mapping[nn.Module, Call]


@contextmanager
def record_calls(model: nn.Module) -> Iterator[dict[nn.Module, Call]]:
    """Record the last call of each module while the `with` block runs.

    Modules that are not called have no entry.
    """
    calls: dict[nn.Module, Call] = {}

    def record(
        module: nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        output: object,
    ) -> None:
        calls[module] = Call(args, kwargs, output)

    handles = [
        module.register_forward_hook(record, with_kwargs=True)
        for module in model.modules()
    ]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()
