"""Scores with their signatures, as `regard evaluate` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from regard.evaluation.text_metrics import MetricScore


def scores_as_values(scores: list[MetricScore]) -> dict[str, Any]:
    """Return scores as `--format json` has them."""
    return {
        score.name: {"score": score.value, "signature": score.signature}
        for score in scores
    }


def print_scores(scores: list[MetricScore], beam: int, width: int) -> None:
    """Print a line for each score, its name in so many columns."""
    for score in scores:
        typer.echo(
            f"{score.name:{width}} {score.value:6.2f}   {score.signature}|beam:{beam}"
        )
