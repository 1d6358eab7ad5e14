"""What is done with a chunk: its lines are translated, the results written down, the warnings told by line number."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.bulk.chunks import Chunk
from regard.bulk.line_parser import PLAINLY, LineParser
from regard.bulk.output_format import OutputFormat
from regard.errors import LineWarning
from regard.pipeline import Translator

__all__ = ["ChunkResult", "ChunkTranslator", "unknown_script"]


@dataclass(frozen=True)
class ChunkResult:
    """A chunk's results, ready to be written, and what the user should know of it."""

    text: str
    notes: tuple[str, ...]
    known: int  # lines with words in a script that the model has seen
    strange: int  # lines in any other


@dataclass(frozen=True)
class ChunkTranslator:
    """The same for every chunk: what its file is called, how results look, the options of `Translator.translate`, and
    what the lines ask for.
    """

    name: str
    form: OutputFormat
    options: Mapping[str, Any]
    parser: LineParser = PLAINLY

    def __call__(self, translator: Translator, chunk: Chunk) -> ChunkResult:
        """Translate a chunk. What comes out depends on nothing that came before it."""
        texts, wishes = self.parser(chunk)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", LineWarning)
            found = translator.translate(texts, constraints=wishes, **self.options)
        notes = [self._note(each.message, chunk) for each in heard]
        strange, said = unknown_script(translator, self.name, texts, chunk.start)
        text = "".join(self.form(number, translation) for number, translation in enumerate(found, chunk.start))
        known = sum(map(bool, map(str.strip, texts))) - strange
        return ChunkResult(text, (*notes, *([said] if said else [])), known, strange)

    def _note(self, warning: Warning | str, chunk: Chunk) -> str:
        line = f"{self.name}, line {chunk.start + warning.index}: " if isinstance(warning, LineWarning) else ""
        return f"{line}{warning}"


def unknown_script(translator: Translator, name: str, lines: Sequence[str], start: int = 1) -> tuple[int, str | None]:
    """How many lines have mostly characters that were never seen in training, and a sentence that names them: nothing
    the model says of them means anything.
    """
    unknown = translator.tokenizer.source.unknown_share
    strange = [f"{number}" for number, line in enumerate(lines, start) if line.strip() and unknown(line) > 0.5]
    if not strange:
        return 0, None
    many = len(strange) > 1
    named = ", ".join(strange[:5]) + (f" and {len(strange) - 5} more" if len(strange) > 5 else "")
    return len(strange), (
        f"{name}, line{'s' if many else ''} {named}: most characters were never seen in training, so the "
        f"translation{'s mean' if many else ' means'} nothing; check that this is the language of the model"
    )
