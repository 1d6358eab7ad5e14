"""Lines in a script that a model has never met: nothing it says of them means anything, so the user is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.cli.app import say

if TYPE_CHECKING:
    from regard.pipeline import Translator

__all__ = ["warn_of_strangers"]


def warn_of_strangers(translator: Translator, where: str, lines: list[str]) -> None:
    """Warn of lines of which most characters were never seen in training."""
    from regard.bulk import unknown_script

    _, said = unknown_script(translator, where, lines)
    if said:
        say(f"warning: {said}")
