"""Files of any length: lines are translated chunk by chunk, by one process or several, into a file that can be resumed."""

from regard.files.chunks import Chunk, Lines, chunks, remaining
from regard.files.output import Mark, Part, Stream
from regard.files.results import Form
from regard.files.work import Done, Work, strangers
from regard.files.workers import Workers

__all__ = [
    "Chunk",
    "Done",
    "Form",
    "Lines",
    "Mark",
    "Part",
    "Stream",
    "Work",
    "Workers",
    "chunks",
    "remaining",
    "strangers",
]
