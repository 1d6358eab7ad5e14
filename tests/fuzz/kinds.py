"""Kinds of cases by the names of their generators, and when a case is slow."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Generator = TypeVar("Generator", bound=Callable[..., Any])
SLOW = 10.0  # seconds
NOISE = 2.0  # seconds below which growth is not judged


class Kinds(dict[str, Generator], Generic[Generator]):
    """Generators of cases; each is given a random generator first."""

    def __init__(self) -> None:
        super().__init__()
        self.shares: list[float] = []

    def kind(self, share: float) -> Callable[[Generator], Generator]:
        """Register a generator; `share` says how many of its cases are drawn for each one of the
        others.
        """

        def register(generator: Generator) -> Generator:
            self[generator.__name__] = generator
            self.shares.append(share)
            return generator

        return register

    def draw(self, seed: str, *arguments: Any) -> Any:
        """Draw a case, which depends on the seed alone."""
        chance = random.Random(seed)
        (generator,) = chance.choices([*self.values()], self.shares)
        return generator(chance, *arguments)


def grows(seconds: float, twice: float) -> bool:
    """Whether twice the input takes much more than twice the time."""
    return twice > max(NOISE, 4 * seconds)
