"""Attention as one soft dictionary: `Memory` is what can be read, `Score` how a key answers, `Read` the reading."""

from regard.attention.attention import Attention
from regard.attention.memory import Memory
from regard.attention.scores import SCORES, Score, ScoreName
from regard.attention.watch import AttentionRecorder, watch
from regard.lessons.soft_dictionary import Answer, SoftDictionary
from regard.lessons.worked_example import Walkthrough, walkthrough

__all__ = [
    "SCORES",
    "Answer",
    "Attention",
    "AttentionRecorder",
    "Memory",
    "Score",
    "ScoreName",
    "SoftDictionary",
    "Walkthrough",
    "walkthrough",
    "watch",
]
