"""Lines in a script that a model has never met: nothing it says of them means anything, so the user is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.cli.app import say

if TYPE_CHECKING:
    from regard.pipeline import Translator

__all__ = ["warn_of_strangers"]


def warn_of_strangers(translator: Translator, where: str, lines: list[str], start: int = 1) -> int:
    """Warn of lines of which most characters were never seen in training; how many there are."""
    unknown = translator.tokenizer.source.unknown
    strange = [str(number) for number, line in enumerate(lines, start) if line.strip() and unknown(line) > 0.5]
    if strange:
        many = len(strange) > 1
        named = ", ".join(strange[:5]) + (f" and {len(strange) - 5} more" if len(strange) > 5 else "")
        say(
            f"warning: {where}, line{'s' if many else ''} {named}: most characters were never seen in training, so "
            f"the translation{'s mean' if many else ' means'} nothing; check that this is the language of the model"
        )
    return len(strange)
