"""Annotations of fields that several requests and commands share.

Those that bodies of HTTP have, too, are described by pydantic's `Field`, the others by an `Option`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.common.arguments import MAX_THREADS, TextField, ThreadsField, WholeField
from regard.common.requests import Option

MAX_SEED = 2**63 - 1

Run = Annotated[
    Path,
    Option("A model folder or run folder.", is_argument=True, is_local=True),
]
TranslatorFile = Annotated[
    Path,
    Option(
        "A model folder, run folder or runtime file.", is_argument=True, is_local=True
    ),
]
Device = Annotated[TextField, Option("Device to compute on: auto, cpu, cuda or mps.")]
ThreadCount = Annotated[
    ThreadsField | None,
    Option("CPU threads; one per core if left out.", least=1, most=MAX_THREADS),
]
Seed = Annotated[
    WholeField | None, Option("Seed of all random numbers.", least=0, most=MAX_SEED)
]
Columns = Annotated[
    str,
    Option(
        "Columns of --pairs, as English,hsb or 2,3; by names and content if left out."
    ),
]
DecodingPrecision = Literal["float32", "bfloat16", "int8"]
Precision = Annotated[
    DecodingPrecision,
    Option(
        "Precision of the weights in decoding; int8 is the fastest for text on a CPU."
    ),
]
Format = Annotated[
    Literal["text", "jsonl"],
    Option("Output: plain lines, or one JSON object per line."),
]
NBest = Annotated[
    int, Field(ge=1, le=1000, description="number of hypotheses of each input")
]
Alignments = Annotated[
    bool,
    Field(description="add word links, each the numbers of a source and a target word"),
]
Prefix = Annotated[str, Option("Text that every output begins with.")]
Forbid = Annotated[
    tuple[str, ...],
    Option("A word that must not appear; may be repeated.", is_repeated=True),
]
Keep = Annotated[
    tuple[str, ...],
    Option(
        "A pattern (RE2), or a file of patterns: keep what it matches, too; may be repeated.",
        is_repeated=True,
    ),
]
With = Annotated[
    tuple[Path, ...],
    Option(
        "Another model with the same vocabulary, for an ensemble; may be repeated.",
        is_local=True,
        is_repeated=True,
    ),
]


def with_seed(search: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """Return the search options that are set, and the seed if there is one."""
    return dict(search) if seed is None else {**search, "seed": seed}
