"""Files of any length: translated chunk by chunk, by one process or several, into a file that can be gone on with."""

from regard.bulk.chunk_translator import ChunkResult, ChunkTranslator, unknown_script
from regard.bulk.chunks import Chunk, Lines, chunks, remaining
from regard.bulk.line_parser import LineParser
from regard.bulk.output import OutputMark, ResumableOutput, StreamedOutput
from regard.bulk.output_format import OutputFormat
from regard.bulk.workers import InProcess, Workers

__all__ = [
    "Chunk",
    "ChunkResult",
    "ChunkTranslator",
    "InProcess",
    "LineParser",
    "Lines",
    "OutputFormat",
    "OutputMark",
    "ResumableOutput",
    "StreamedOutput",
    "Workers",
    "chunks",
    "remaining",
    "unknown_script",
]
