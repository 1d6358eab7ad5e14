"""What a search is asked for, what it gives back, what it asks of a model, and the settings that steer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pydantic
import torch
from pydantic import Field

from regard.settings import Settings
from regard.shapes import Float, Int, Tensor

__all__ = ["BannedPhrase", "DecodingModel", "Hypothesis", "SearchSettings", "Task", "Term"]


class SearchSettings(Settings):
    """How a translation is looked for."""

    beam: int = Field(5, ge=1, description="hypotheses kept side by side, or samples drawn; 1 is greedy search")
    length_penalty: float = Field(1.0, ge=0, description="α of the GNMT length penalty; 0 compares raw probabilities")
    coverage_penalty: float = Field(
        0.0, ge=0, description="β of the GNMT coverage penalty: hypotheses that leave source pieces unread come later"
    )
    max_ratio: float = Field(2.0, gt=0, description="a target has at most this many pieces for each source entry …")
    max_extra: int = Field(20, ge=1, description="… plus so many")
    min_length: int = Field(0, ge=0, description="pieces that a target has at least, its end not counted")
    max_length: int | None = Field(None, ge=1, description="pieces that a target has at most, its end not counted")
    no_repeat_ngram: int = Field(
        0, ge=0, description="no run of so many pieces is written twice; 0: anything may come again"
    )
    sample: bool = Field(False, description="draw each piece by its probability instead of searching")
    temperature: float = Field(1.0, gt=0, description="of sampling: below 1 likely pieces become likelier")
    top_k: int | None = Field(None, ge=1, description="draw only from so many likeliest pieces")
    top_p: float | None = Field(
        None, gt=0, le=1, description="draw only from the likeliest pieces that have this share"
    )
    seed: int = Field(0, ge=0, description="of what is drawn; a sentence's samples depend on this and on its own text")
    groups: int = Field(1, ge=1, description="groups of beams that avoid each other's pieces (diverse beam search)")
    diversity: float = Field(
        0.5, ge=0, description="log-probability that a piece loses for each beam of an earlier group that wrote it"
    )
    mbr: bool = Field(
        False, description="of all hypotheses take the one most like the others (chrF), not the likeliest"
    )
    longest_source: int | None = Field(
        None, ge=1, description="pieces of the longest source in training; longer texts are cut at sentence ends"
    )

    @pydantic.model_validator(mode="after")
    def _can_be_meant(self) -> SearchSettings:
        told = {"temperature": self.temperature != 1, "top_k": self.top_k is not None, "top_p": self.top_p is not None}
        drawn = [name for name, is_told in told.items() if is_told and not self.sample]
        problems = [f"{', '.join(drawn)}: only sampling looks at it; set sample too, or leave it out"] if drawn else []
        if self.beam % self.groups:
            problems.append(f"a beam of {self.beam} cannot be cut into {self.groups} groups; take a multiple of them")
        if self.sample and self.groups > 1:
            problems.append("sample and groups: samples differ by themselves; leave one out")
        if self.max_length is not None and self.min_length > self.max_length:
            problems.append(f"min_length {self.min_length} is more than max_length {self.max_length}; lower it")
        if self.mbr and self.coverage_penalty:
            problems.append("mbr and coverage_penalty: both say which hypothesis comes first; leave one out")
        if self.mbr and self.beam == 1:
            problems.append("mbr compares hypotheses, and a beam of 1 holds one; widen the beam")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def longest(self, entries: int, limit: int | None, asked: int = 0) -> int:
        """The most pieces, end of sentence included, that a target of a source with so many entries may have.

        `asked` pieces are written because someone wants them there.
        """
        most = max(int(self.max_ratio * entries) + self.max_extra + asked, self.min_length + 1)
        return min(n for n in (most, limit, self.max_length and self.max_length + 1) if n is not None)


@dataclass(frozen=True, eq=False)
class Term:
    """Pieces that must be written one after another: one of the `forms`, or of the `opening` ones at the very start.

    `after` says which pieces may follow, so that the last word is a whole one; None: any.
    """

    forms: tuple[tuple[int, ...], ...]
    opening: tuple[tuple[int, ...], ...] = ()
    after: npt.NDArray[np.bool_] | None = None  # (V,)


@dataclass(frozen=True, eq=False)
class BannedPhrase:
    """A word or phrase that must not be written: the pieces that would complete it, by the bytes that stand before.

    `surfaces`: what each piece of the vocabulary stands for. `endings`: the bytes before, the piece, and whether no
    letter may stand before those bytes (else the word begins inside the piece, after what is no letter).
    """

    surfaces: Sequence[bytes] = field(repr=False)
    endings: tuple[tuple[bytes, int, bool], ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Task:
    """One sentence to write.

    `name` is the caller's own for it. A target has at most `longest` pieces, end of sentence included; it begins with
    the pieces of `prefix`, holds every one of `terms` and none of `without`. What is drawn for it depends on `key`.
    """

    name: int
    longest: int
    prefix: tuple[int, ...] = ()
    terms: tuple[Term, ...] = ()
    banned: tuple[BannedPhrase, ...] = ()
    key: int = 0


class DecodingModel(Protocol):
    """All that a search knows of a model: a `Model`, or an `Ensemble`, whose sources, states and features are many."""

    @property
    def device(self) -> torch.device: ...
    @property
    def max_target(self) -> int | None: ...
    def begin(self, source: Any) -> Any: ...
    def step(self, tokens: Int[Tensor, "N T"], state: Any, source: Any) -> tuple[Any, Any]: ...
    def project(self, features: Any) -> Float[Tensor, "N T V"]: ...
    def top_tokens(self, features: Any, k: int, suppressed: Sequence[int] = ()) -> tuple[Tensor, Tensor, Tensor]: ...


@dataclass(frozen=True)
class Hypothesis:
    """A finished target: its pieces without end of sentence, their log-probability with it, and the score it won by.

    `complete`: it holds every term that was asked for; one that does not comes after those that do.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float
    complete: bool = True
