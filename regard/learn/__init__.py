"""Learning material: lessons with every number, experiments, sample data and demonstrations.

No other package depends on it, except the command line. `SoftDictionary` looks keys up exactly or
by similarity, as attention does; `walkthrough_block` shows every number of a Transformer block.
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
