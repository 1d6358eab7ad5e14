"""The request of `regard.learn.lab.run_experiment` and of `regard lab`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from regard.common.arguments import (
    FUNCTION,
    MAX_THREADS,
    FlagField,
    PathField,
    TextField,
    WholeField,
)
from regard.common.requests import COMMAND, REQUEST, Option
from regard.requests.shared_fields import MAX_SEED

SEEDS = 3
"""Seeds of an experiment with `full`: the first one and those after it."""


def _say_nothing(_: str) -> None:
    pass


@dataclass(frozen=True, config=REQUEST, kw_only=True)
class ExperimentRequest:
    """An experiment: its name, its folder and its effort."""

    name: Annotated[
        TextField,
        Option("An experiment; without one, the list of all.", is_argument=True),
    ] = field(kw_only=False)
    out: Annotated[
        PathField | None,
        Option("Folder to write; lab/NAME-quick or -full if left out.", is_local=True),
    ] = field(default=None, kw_only=False)
    full: Annotated[FlagField, Option("Some 10 minutes, three seeds.")] = False
    language: Literal["en", "ko"] = "en"
    seed: Annotated[
        WholeField, Option("The first seed.", least=0, most=MAX_SEED - SEEDS)
    ] = 1
    workers: Annotated[
        WholeField | None,
        Option(
            "Models trained at once, a thread each; one per core, at most four.",
            "--threads",
            least=1,
            most=MAX_THREADS,
        ),
    ] = None
    say: Annotated[Callable[[str], None], FUNCTION] = _say_nothing


@dataclass(frozen=True, config=COMMAND, kw_only=True)
class LabCommand(ExperimentRequest):
    """A call of `regard lab`: an experiment, or the list of all."""

    name: Annotated[
        TextField,
        Option("An experiment; without one, the list of all.", is_argument=True),
    ] = field(default="", kw_only=False)
    quick: Annotated[FlagField, Option("Meant for 3 minutes, one seed (default).")] = (
        False
    )
    korean: Annotated[FlagField, Option("In Korean.")] = False
