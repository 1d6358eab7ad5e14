"""`nn.ModuleList`, whose type names the class of its modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    M = TypeVar("M", bound=nn.Module)

    class ModuleList(nn.Module, Generic[M]):
        """List of modules of one class."""

        def __init__(self, modules: Iterable[M]) -> None: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[M]: ...
        def __getitem__(self, index: int) -> M: ...

else:
    ModuleList = nn.ModuleList
