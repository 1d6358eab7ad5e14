"""Numbers on the command line have bounds: beyond them one sentence, from every option of every
command.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from command import Command

from regard.cli import app

NUMBERS = ["-1", "nan", "inf", "1e308", "1" + "0" * 20, "9" * 5000]
NEEDED = {
    "translate": "nowhere",
    "caption": "nowhere a.png",
    "evaluate": "nowhere",
    "align": "nowhere --source=a --target=b",
    "show": "nowhere",
    "lab": "nowhere",
    "walkthrough": "'I go'",
    "train": "--source=a --target=b --out=out",
}


def numbers() -> Iterator[tuple[str, str]]:
    """Yield command and option of every option that takes a number."""
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        for param in (*command.params, *getattr(command, "search_params", ())):
            kind = str(param.bare_type()).strip("<>'").split("'")[-1]
            if kind in ("int", "float") and param.opts[0].startswith("--"):
                yield name, param.opts[0]


OPTIONS = sorted(numbers())


@pytest.mark.parametrize(
    "each", [1, pytest.param(len(NUMBERS), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("command", sorted({command for command, _ in OPTIONS}))
def test_a_number_beyond_its_bounds_is_refused(
    regard: Command, command: str, each: int
) -> None:
    """Every option has one of the numbers in turn, or all of them."""
    assert ("lab", "--threads") in OPTIONS
    turns = itertools.cycle(NUMBERS)
    for option in (option for name, option in OPTIONS if name == command):
        for number in itertools.islice(turns, each):
            needed = NEEDED.get(command, "")
            done = regard.ended(f"{command} {needed} {option}={number}")
            assert done.status in (1, 2), f"{option}={number[:30]}"
            assert "internal error" not in done.err
            assert "Traceback" not in done.err
            assert len(done.err) < 1000, f"{option}={number[:30]}"
