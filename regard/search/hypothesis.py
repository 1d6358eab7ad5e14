"""What a search is asked for, what it gives back, what it asks of a model, and the settings that steer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from pydantic import Field

from regard.models import Source, State
from regard.settings import Settings
from regard.shapes import Float, Int, Tensor

__all__ = ["Hypothesis", "SearchSettings", "Task", "Verbs"]


class SearchSettings(Settings):
    """How a translation is looked for."""

    beam: int = Field(5, ge=1, description="hypotheses kept side by side; 1 is greedy search")
    length_penalty: float = Field(1.0, ge=0, description="α of the GNMT length penalty; 0 compares raw probabilities")
    max_ratio: float = Field(2.0, gt=0, description="a target has at most this many pieces for each source entry …")
    max_extra: int = Field(20, ge=1, description="… plus so many")
    longest_source: int | None = Field(
        None, ge=1, description="pieces of the longest source in training; longer texts are cut at sentence ends"
    )

    def longest(self, entries: int, limit: int | None) -> int:
        """The most pieces, end of sentence included, that a target of a source with so many entries may have."""
        most = int(self.max_ratio * entries) + self.max_extra
        return most if limit is None else min(most, limit)


@dataclass(frozen=True)
class Task:
    """One sentence to write.

    `name` is the caller's own for it. A target has at most `longest` pieces, end of sentence included.
    """

    name: int
    longest: int


class Verbs(Protocol):
    """All that a search knows of a model."""

    @property
    def device(self) -> torch.device: ...
    @property
    def limit(self) -> int | None: ...
    def begin(self, source: Source) -> State: ...
    def step(self, tokens: Int[Tensor, "N T"], state: State, source: Source) -> tuple[Tensor, State]: ...
    def project(self, features: Float[Tensor, "N T D"]) -> Float[Tensor, "N T V"]: ...
    def best(
        self, features: Float[Tensor, "N T D"], k: int, never: Sequence[int] = ()
    ) -> tuple[Tensor, Tensor, Tensor]: ...


@dataclass(frozen=True)
class Hypothesis:
    """A finished target: its pieces without end of sentence, their log-probability with it, and the score it won by."""

    ids: tuple[int, ...]
    log_probability: float
    score: float
