"""Material to learn from: worked examples with every number, experiments, the sample data and the demonstration.

Nothing below stands on it. `SoftDictionary` looks keys up exactly or by similarity, which is all that attention does;
`walkthrough` prints every matrix of one multi-head attention, `walkthrough_block` those of a whole Transformer block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.lazy import lazy_names

if TYPE_CHECKING:
    from regard.learn.lessons.block import BlockWalkthrough, walkthrough_block
    from regard.learn.lessons.soft_dictionary import Answer, SoftDictionary
    from regard.learn.lessons.worked_example import Walkthrough, walkthrough

__all__ = ["Answer", "BlockWalkthrough", "SoftDictionary", "Walkthrough", "walkthrough", "walkthrough_block"]

_MODULES = {
    "lessons.block": ("BlockWalkthrough", "walkthrough_block"),
    "lessons.soft_dictionary": ("Answer", "SoftDictionary"),
    "lessons.worked_example": ("Walkthrough", "walkthrough"),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
