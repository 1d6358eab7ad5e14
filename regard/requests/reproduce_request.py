"""The request of `regard.reproduce` and of `regard reproduce`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from pydantic.dataclasses import dataclass

from regard.common.arguments import FUNCTION, PATH, PathField, Report, TextField
from regard.common.requests import COMMAND, REQUEST, Option
from regard.requests.shared_fields import ThreadCount
from regard.requests.train_request import CALLBACKS


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class ReproduceCommand:
    """A call of `regard reproduce`: a run that is trained again."""

    run: Annotated[
        Annotated[str | Path, PATH],
        Option("The folder of a run that has ended.", is_argument=True, is_local=True),
    ] = field(kw_only=False)
    out: Annotated[
        PathField | None,
        Option("The run folder to write; RUN-reproduced if left out.", is_local=True),
    ] = None
    device: Annotated[
        TextField | None,
        Option("Device to compute on; that of the run if left out."),
    ] = None
    threads: ThreadCount = None


@dataclass(frozen=True, config=REQUEST, kw_only=True)
class ReproduceRequest(ReproduceCommand):
    """A run that is trained again, and what Python alone can give."""

    report: Report | None = None
    objective: Annotated[Callable[[Any, Any], Any], FUNCTION] | None = None
    callbacks: Annotated[Sequence[Any], CALLBACKS] = ()
