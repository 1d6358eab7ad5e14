"""How well attention aligns words: the layer and head that do it best, and how often they are right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from regard.attention.alignment import Link, Readings, strongest
from regard.pipeline import AlignmentChoice, Translator

__all__ = ["best_choice", "read_all", "share_on_gold"]

Gold = Sequence[frozenset[Link]]


def read_all(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[Readings]:
    """What the model looks at while it is made to write the given targets."""
    encode = translator.tokenizer.target.encode
    return [translator.readings(source, encode(target)) for source, target in zip(sources, targets, strict=True)]


def best_choice(readings: Sequence[Readings], gold: Gold) -> tuple[AlignmentChoice, float]:
    """The layer, head (or mean of heads) and row whose strongest source word is most often a gold link."""
    found = [(share_on_gold(readings, gold, choice), choice) for choice in _choices(readings[0])]
    share, choice = max(found, key=lambda pair: pair[0])
    return choice, share


def share_on_gold(readings: Iterable[Readings], gold: Gold, choice: AlignmentChoice) -> float:
    """The share of target words whose strongest source word is a gold link (source word, target word)."""
    right = total = 0
    for reading, links in zip(readings, gold, strict=True):
        found = strongest(reading.words(choice.layer, choice.head, choice.consumed).weights)
        right += sum(link in links for link in found)
        total += len(found)
    return right / max(total, 1)


def _choices(reading: Readings) -> Iterable[AlignmentChoice]:
    for layer in reading.layers("cross"):
        heads = reading.weights[layer].shape[0]
        for head in [*range(heads), *([None] if heads > 1 else [])]:
            for consumed in (False, True):
                yield AlignmentChoice(layer, head, consumed)
