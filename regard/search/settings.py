"""Search settings: beam size, length and coverage penalties, sampling, diverse beam search, MBR."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import pydantic
from pydantic import Field

from regard.common.settings import (
    COUNT,
    FACTOR,
    LENGTH,
    MAX_COMPARED,
    MAX_SAMPLES,
    TOKENS,
    Settings,
)
from regard.data.text import MAX_LINE

SEVERAL = 1.5
"""Mean sentences of a training line from which on a model translates whole lines."""

# Settings that a body of HTTP may have, too: it is annotated with these names.
Beam = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_SAMPLES,
        description=f"beam size, up to {MAX_COMPARED}, or number of samples drawn; 1 is greedy "
        "search",
    ),
]
LengthPenalty = Annotated[
    float,
    Field(
        ge=0,
        le=10,
        description="α of the GNMT length penalty; 0 compares plain log-probabilities",
    ),
]
MaxLength = Annotated[
    int | None,
    Field(
        ge=1,
        le=COUNT,
        description="most tokens of a target, end of sentence not counted",
    ),
]
NoRepeatNgram = Annotated[
    int,
    Field(
        ge=0,
        le=LENGTH,
        description="size of the token n-grams that may not occur twice in a target; 0: any may",
    ),
]


class SearchSettings(Settings):
    """Decoding options of a model: beam search, sampling and the order of the results."""

    beam: Beam = 5
    length_penalty: LengthPenalty = 1.0
    coverage_penalty: float = Field(
        0.0,
        ge=0,
        le=FACTOR,
        description="β of the GNMT coverage penalty: hypotheses that leave source tokens unread "
        "rank lower",
    )
    max_ratio: float = Field(
        2.0,
        gt=0,
        le=100,
        description="a target has at most this many tokens for each source token …",
    )
    max_extra: int = Field(20, ge=1, le=TOKENS, description="… plus this many")
    min_length: int = Field(
        0,
        ge=0,
        le=TOKENS,
        description="fewest tokens of a target, end of sentence not counted",
    )
    max_length: MaxLength = None
    no_repeat_ngram: NoRepeatNgram = 0
    sample: bool = Field(
        False, description="draw each token by its probability instead of searching"
    )
    temperature: float = Field(
        1.0,
        gt=0,
        le=FACTOR,
        description="of sampling: below 1 likely tokens become likelier",
    )
    top_k: int | None = Field(
        None, ge=1, le=COUNT, description="sample only from this many likeliest tokens"
    )
    top_p: float | None = Field(
        None,
        gt=0,
        le=1,
        description="nucleus sampling: only from the likeliest tokens that have this probability",
    )
    seed: int = Field(
        0,
        ge=0,
        lt=2**63,
        description="of sampling; a sentence's samples depend on this and on its own text",
    )
    groups: int = Field(
        1,
        ge=1,
        le=50,
        description="groups of beams that avoid each other's tokens (diverse beam search)",
    )
    diversity: float = Field(
        0.5,
        ge=0,
        le=FACTOR,
        description="log-probability that a token loses for each beam of an earlier group that "
        "took it",
    )
    mbr: bool = Field(
        False,
        description="minimum Bayes risk: rank hypotheses by likeness to the others (chrF), not by "
        "probability",
    )
    longest_source: int | None = Field(
        None,
        ge=1,
        le=COUNT,
        description="tokens of the longest source in training; longer texts are split at sentence "
        "ends",
    )
    split: Literal["auto", "on", "off"] = Field(
        "auto",
        description="translate each sentence of a line by itself; auto: unless the lines of the "
        "training data hold several sentences each",
    )
    line_sentences: float | None = Field(
        None,
        ge=0,
        le=COUNT,
        description="sentences of a line of the training data, on average",
    )
    line_clauses: int | None = Field(
        None,
        ge=1,
        le=COUNT // 2,
        description="clauses, between spaces, of a line of the training data in Thai, Lao or "
        "Khmer: 99 of 100 lines have at most as many; with 1, spaces part sentences",
    )
    score_threshold: float | None = Field(
        None,
        ge=-COUNT,
        le=0,
        description="score below which a translation is doubtful if the folder has no quality; "
        "learnt from validation data",
    )
    max_line: int = Field(
        MAX_LINE,
        ge=1,
        le=COUNT,
        description="most characters of a line; a longer one is refused",
    )
    max_whole: int = Field(
        500,
        ge=1,
        le=COUNT,
        description="most tokens of a line that cannot be split, because it has required terms or "
        "the model does not know its longest source",
    )
    max_required: int = Field(
        200,
        ge=1,
        le=COUNT,
        description="most tokens that the prefix and the terms of a line may require",
    )
    max_forbidden: int = Field(
        10_000,
        ge=1,
        le=COUNT,
        description="most words and phrases that may be forbidden in a line",
    )

    @pydantic.model_validator(mode="after")
    def _check_combinations(self) -> SearchSettings:
        is_set = {
            "temperature": self.temperature != 1,
            "top_k": self.top_k is not None,
            "top_p": self.top_p is not None,
        }
        unused = [name for name, value in is_set.items() if value and not self.sample]
        problems = []
        if unused:
            problems.append(
                f"{', '.join(unused)}: used by sampling only; set sample too, or leave it out"
            )
        if self.beam % self.groups:
            problems.append(
                f"a beam of {self.beam} cannot be divided into {self.groups} groups; take a "
                f"multiple of {self.groups}"
            )
        if self.sample and self.groups > 1:
            problems.append(
                "sample and groups: samples differ by themselves; leave one out"
            )
        if self.max_length is not None and self.min_length > self.max_length:
            problems.append(
                f"min_length {self.min_length} is more than max_length {self.max_length}; lower it"
            )
        if self.mbr and self.coverage_penalty:
            problems.append(
                "mbr and coverage_penalty: both reorder the hypotheses; leave one out"
            )
        if self.beam > MAX_COMPARED and (self.mbr or not self.sample):
            problems.append(
                f"a beam of {self.beam:,} takes time with its square; take at most "
                f"{MAX_COMPARED:,}, or sample without mbr"
            )
        if self.mbr and self.beam == 1:
            problems.append(
                "mbr compares hypotheses, and a beam of 1 holds one; widen the beam"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def scores_as(self, other: SearchSettings) -> bool:
        """Return whether scores of this search can be compared with those of another."""
        return (self.length_penalty, self.sample) == (
            other.length_penalty,
            other.sample,
        )

    @property
    def splits_sentences(self) -> bool:
        """True if each sentence of a line is translated by itself.

        With `auto` that is so unless the training lines are known to hold several sentences.
        """
        if self.split == "auto":
            return self.line_sentences is None or self.line_sentences < SEVERAL
        return self.split == "on"

    def max_steps(
        self, source_length: int, max_target: int | None, required: int = 0
    ) -> int:
        """Return the most tokens, end of sentence included, of a target for this source length.

        `max_target` is the model's own limit; the `required` tokens of prefix and terms are added
        to the limit by the ratio.
        """
        by_ratio = int(self.max_ratio * source_length) + self.max_extra + required
        limit = max(by_ratio, self.min_length + 1)
        if max_target is not None:
            limit = min(limit, max_target)
        if self.max_length is not None:
            limit = min(limit, self.max_length + 1)
        return limit


class SearchOptions(TypedDict, total=False):
    """The fields of `SearchSettings` as optional keyword arguments.

    For a field that is None or absent, the value of the model folder holds.
    """

    beam: int | None
    length_penalty: float | None
    coverage_penalty: float | None
    max_ratio: float | None
    max_extra: int | None
    min_length: int | None
    max_length: int | None
    no_repeat_ngram: int | None
    sample: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    groups: int | None
    diversity: float | None
    mbr: bool | None
    longest_source: int | None
    split: Literal["auto", "on", "off"] | None
    line_sentences: float | None
    line_clauses: int | None
    score_threshold: float | None
    max_line: int | None
    max_whole: int | None
    max_required: int | None
    max_forbidden: int | None
