"""Lessons: attention explained with small numbers, on top of everything else; nothing below imports them.

`SoftDictionary` looks keys up exactly or by similarity, which is all that attention does; `walkthrough` prints every
matrix of one multi-head attention, `walkthrough_block` those of a whole Transformer block, also as a page; `bars` draws
for the first.
"""

from regard.lessons.block import BlockWalkthrough, walkthrough_block
from regard.lessons.soft_dictionary import Answer, SoftDictionary
from regard.lessons.worked_example import Walkthrough, walkthrough

__all__ = ["Answer", "BlockWalkthrough", "SoftDictionary", "Walkthrough", "walkthrough", "walkthrough_block"]
