"""Attention as one soft dictionary: `Memory` is what can be read, `Score` how a key answers, `Read` the reading."""

from regard.attention.memory import Memory
from regard.attention.read import Read
from regard.attention.scores import SCORES, Score, ScoreName
from regard.attention.watch import Watched, watch

__all__ = ["SCORES", "Memory", "Read", "Score", "ScoreName", "Watched", "watch"]
