"""Files of any length: translated chunk by chunk, by one process or several, into a file that can be gone on with."""

from regard.files.asking import Asked
from regard.files.chunks import Chunk, Lines, chunks, remaining
from regard.files.output import Mark, Part, Stream
from regard.files.results import Form
from regard.files.work import Done, Work, strangers
from regard.files.workers import Alone, Workers

__all__ = [
    "Alone",
    "Asked",
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
