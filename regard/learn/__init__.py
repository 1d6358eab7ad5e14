"""Material to learn from: worked examples with every number, experiments, the sample data and the
demonstration.

Nothing below stands on it. `SoftDictionary` looks keys up exactly or by similarity, which is all
that attention does; `walkthrough_block` goes through a whole Transformer block with every number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.lazy import lazy_names

if TYPE_CHECKING:
    from regard.learn.lessons.block import BlockWalkthrough, walkthrough_block
    from regard.learn.lessons.soft_dictionary import Answer, SoftDictionary

__all__ = ["Answer", "BlockWalkthrough", "SoftDictionary", "walkthrough_block"]

_MODULES = {
    "lessons.block": ("BlockWalkthrough", "walkthrough_block"),
    "lessons.soft_dictionary": ("Answer", "SoftDictionary"),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
