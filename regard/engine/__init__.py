"""Fast decoding: weights prepared once, sentences that come and go."""

from regard.engine.prepared import Prepared, prepare, unprepared
from regard.engine.program import Precision

__all__ = ["Precision", "Prepared", "prepare", "unprepared"]
