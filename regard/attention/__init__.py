"""Attention as one soft dictionary: `Memory` is what can be read, `Score` how a key answers, `Read` the reading."""

from regard.attention.dictionary import Answer, SoftDictionary
from regard.attention.memory import Memory
from regard.attention.read import Read
from regard.attention.scores import SCORES, Score, ScoreName
from regard.attention.watch import Watched, watch
from regard.attention.worked import Explanation, explain

__all__ = [
    "SCORES",
    "Answer",
    "Explanation",
    "Memory",
    "Read",
    "Score",
    "ScoreName",
    "SoftDictionary",
    "Watched",
    "explain",
    "watch",
]
