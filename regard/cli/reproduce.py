"""regard reproduce: train a run again, and compare the two."""

from __future__ import annotations

import typer

from regard.cli.app import app
from regard.cli.progress import TrainReporter
from regard.common.errors import TrainingError
from regard.common.requests import call_with
from regard.requests.reproduce_request import ReproduceCommand


@app.command(request=ReproduceCommand, sets=("threads",))
def reproduce(command: ReproduceCommand) -> None:
    """Train a run again, from its recipe and the data with the recorded hashes, and compare weights
    and scores.

    On the same machine, with the same versions and threads, the weights have the same bytes, or the
    exit status is 1. A table says what is the same and what differs.
    """
    from regard import reproduction

    with TrainReporter() as report:
        again = call_with(reproduction.reproduce, command, report=report)
    for line in again.lines():
        typer.echo(line)
    if again.has_same_conditions and not again.is_identical:
        raise TrainingError(
            f"{again.folder}: was trained under the same conditions as {command.run}, and has "
            "other weights; keep both folders, and report it"
        )
