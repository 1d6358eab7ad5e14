"""The options of `regard caption`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from pydantic.dataclasses import dataclass

from regard.common.requests import COMMAND, Option
from regard.requests.shared_fields import (
    Device,
    Forbid,
    Format,
    NBest,
    Precision,
    Prefix,
    Run,
    Seed,
    With,
    with_seed,
)


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class CaptionCommand:
    """A call of `regard caption`."""

    run: Run
    images: Annotated[
        tuple[Path, ...],
        Option(
            "Images, or folders of them.",
            is_argument=True,
            is_local=True,
            is_repeated=True,
        ),
    ]
    nbest: NBest = 1
    format: Format = "text"
    regions: Annotated[
        bool,
        Option(
            "With jsonl: the region of the image that each word attends to most.",
        ),
    ] = False
    prefix: Prefix = ""
    forbid: Forbid = ()
    with_: With = ()
    precision: Precision = "float32"
    device: Device = "auto"
    seed: Seed = None
    search: Mapping[str, Any] = field(default_factory=dict)

    @property
    def runs(self) -> list[Path]:
        """The model folders of the ensemble."""
        return [self.run, *self.with_]

    @property
    def settings(self) -> dict[str, Any]:
        """The search options that are set, and the seed."""
        return with_seed(self.search, self.seed)
