"""Bulk translation of files of any length, in chunks, into a resumable output.

`Lines` (a file or standard input) → `chunks` → `LineParser` (texts and constraints) →
`ChunkTranslator` → `OutputFormat` (text or JSON lines) → `ResumableOutput`, whose `OutputMark`
records the progress; `remaining` skips the chunks that are done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.lazy import lazy_names

if TYPE_CHECKING:
    from regard.pipeline.bulk.chunk_translator import (
        ChunkResult,
        ChunkTranslator,
        unknown_script,
    )
    from regard.pipeline.bulk.document_lines import DocumentLines
    from regard.pipeline.bulk.line_parser import LineParser
    from regard.pipeline.bulk.lines import Chunk, Lines, chunks, remaining
    from regard.pipeline.bulk.output_format import OutputFormat
    from regard.pipeline.bulk.resumable_output import (
        OutputMark,
        ResumableOutput,
        StreamedOutput,
    )

__all__ = [
    "Chunk",
    "ChunkResult",
    "ChunkTranslator",
    "DocumentLines",
    "LineParser",
    "Lines",
    "OutputFormat",
    "OutputMark",
    "ResumableOutput",
    "StreamedOutput",
    "chunks",
    "remaining",
    "unknown_script",
]

_MODULES = {
    "chunk_translator": ("ChunkResult", "ChunkTranslator", "unknown_script"),
    "document_lines": ("DocumentLines",),
    "line_parser": ("LineParser",),
    "lines": ("Chunk", "Lines", "chunks", "remaining"),
    "resumable_output": ("OutputMark", "ResumableOutput", "StreamedOutput"),
    "output_format": ("OutputFormat",),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
