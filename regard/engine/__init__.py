"""Fast decoding: weights prepared once, sentences that come and go."""

from regard.engine.company import Job, Reader, Room, decode
from regard.engine.engine import Engine, EngineName
from regard.engine.prepared import Prepared, prepare, unprepared
from regard.engine.program import Precision

__all__ = ["Engine", "EngineName", "Job", "Precision", "Prepared", "Reader", "Room", "decode", "prepare", "unprepared"]
