"""The request of `regard.publish` and of `regard publish`."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from regard.common.arguments import FlagField, PathField, TextField
from regard.common.requests import REQUEST, Option


@dataclass(frozen=True, config=REQUEST, kw_only=True)
class PublishRequest:
    """A model to publish, the folder to write, and what its card says."""

    run: Annotated[
        PathField,
        Option("A model folder or run folder.", is_argument=True, is_local=True),
    ] = field(kw_only=False)
    out: Annotated[
        PathField,
        Option(
            "Folder to write: a new one, or one that this command wrote before.",
            is_argument=True,
            is_local=True,
        ),
    ] = field(kw_only=False)
    reverse: Annotated[
        PathField | None,
        Option("A model of the reverse direction, to publish with it.", is_local=True),
    ] = None
    licence: Annotated[
        TextField | None,
        Option(
            "Licence of the model, such as CC-BY-4.0 (SPDX); that of the run if left out."
        ),
    ] = None
    author: Annotated[
        TextField | None,
        Option("Who trained the model; as in the run if left out."),
    ] = None
    source_of_data: Annotated[
        TextField | None,
        Option("Where the data are from; as in the run if left out."),
    ] = None
    languages: Annotated[
        TextField | None,
        Option("Of source and target, such as ko,en, instead of the model's."),
    ] = None
    precision: Annotated[
        Literal["int8", "float32", "bfloat16"],
        Option("Precision of the runtime file; a page has int8 weights."),
    ] = "int8"
    source: Annotated[
        PathField | None,
        Option(
            "Sentences to compare by, and to propose on the page; those of the run if left out.",
            is_local=True,
        ),
    ] = None
    page: Annotated[
        FlagField,
        Option("A page that translates in the browser; else one that only describes."),
    ] = True

    @property
    def folders(self) -> list[Path]:
        """The model folders, one for each direction."""
        paths = [self.run] if self.reverse is None else [self.run, self.reverse]
        return [Path(path) for path in paths]
