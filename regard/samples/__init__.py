"""Data that ships with Regard: a Korean–English corpus made by a grammar, and the tasks of copying and reversing."""

from __future__ import annotations

from regard.samples.corpus import korean_english
from regard.samples.pairs import AlignedPair, Sample
from regard.samples.tasks import copy_task, reverse_task

__all__ = ["AlignedPair", "Sample", "copy_task", "korean_english", "reverse_task"]
