"""Translate one chunk of lines, format the results, and collect the warnings by line number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.common.counting import counted
from regard.common.errors import DataError, LineError, UsageError
from regard.pipeline.bulk.line_parser import PLAIN_TEXT, LineParser
from regard.pipeline.bulk.lines import NAMED, Chunk, Numbering
from regard.pipeline.bulk.output_format import OutputFormat

if TYPE_CHECKING:
    from regard.documents import Document
    from regard.pipeline import Translation, Translator


UNLEARNT = "the translation that follows is doubtful, and probably wrong"


@dataclass(frozen=True)
class ChunkResult:
    """Formatted results and warnings of a chunk, and its numbers of lines in known script, in
    unknown script, doubtful, and broken. `fault`: that of the first broken line, with its place.
    `qualities`: of each line that has one.
    """

    text: str
    notes: tuple[str, ...]
    known: int
    unknown: int
    doubtful: int = 0
    broken: int = 0
    fault: str = ""
    qualities: tuple[LineQuality, ...] = ()


class LineQuality(NamedTuple):
    """Quality of the translation of a line, by its number."""

    quality: float
    number: int


@dataclass(frozen=True)
class ChunkTranslator:
    """Translator of chunks of the file `name`, with the options of `Translator.translate`.

    If `typed`, a person types the lines, and is warned of each line unlike the training data. The
    lines may be those of a `document`, whose texts may have limits. Translations of a quality below
    `least` are refused.
    """

    name: str
    format: OutputFormat | Callable[[int, Translation], str]
    options: Mapping[str, Any]
    parser: LineParser = PLAIN_TEXT
    typed: bool = False
    numbering: Numbering = field(default_factory=Numbering)
    document: Document | None = None
    least: float | None = None

    def __call__(self, translator: Translator, chunk: Chunk) -> ChunkResult:
        """Translate a chunk; the result does not depend on other chunks."""
        texts, constraints = self.parser(chunk)
        try:
            if self.document is None:
                call = translator.begin(texts, constraints=constraints, **self.options)
                translations = call.run()
            else:
                translations = translator.translate_lines_of(
                    self.document,
                    slice(chunk.start - 1, chunk.end),
                    self.parser.constraints,
                    **self.options,
                )
        except LineError as problem:
            raise problem.in_file(self.name, chunk.start) from None

        if self.least is not None:
            pairs = zip(texts, translations, strict=True)
            translations = [self._or_refused(*pair, self.least) for pair in pairs]
        notes = self._notes(translations, chunk.start)
        unknown, note = unknown_script(
            translator, self.name, texts, chunk.start, self.numbering
        )
        text = "".join(
            self.format(number, result)
            for number, result in enumerate(translations, chunk.start)
        )
        known = sum(bool(line.strip()) for line in texts) - unknown
        doubtful = sum(translation.doubtful for translation in translations)
        if self.document is None and (note or (self.typed and doubtful)):
            notes.append(note or UNLEARNT)
        faults = [
            f"{self.name}, {self.numbering.name(number)}: {translation.fault}"
            for number, translation in enumerate(translations, chunk.start)
            if translation.broken
        ]
        qualities = tuple(
            LineQuality(result.quality, number)
            for number, result in enumerate(translations, chunk.start)
            if result.quality is not None
        )
        return ChunkResult(
            text,
            tuple(notes),
            known,
            unknown,
            doubtful,
            len(faults),
            next(iter(faults), ""),
            qualities,
        )

    def _notes(self, translations: Sequence[Translation], start: int) -> list[str]:
        """Return the notes of lines in their order; one that many have is given once."""
        lines = defaultdict[str, list[int]](list)
        for number, translation in enumerate(translations, start):
            for note in translation.notes:
                lines[note].append(number)
        notes = list[tuple[int, str]]()
        for note, numbers in lines.items():
            more = ""
            if len(numbers) > NAMED:
                more = f" and {len(numbers) - 1:,} more"
                numbers = numbers[:1]
            notes += [
                (number, f"{self.name}, {self.numbering.name(number)}{more}: {note}")
                for number in numbers
            ]
        notes.sort(key=itemgetter(0))
        return [note for _, note in notes]

    def _or_refused(self, line: str, result: Translation, least: float) -> Translation:
        """Return a translation, or its line, marked, if its quality is below `least`."""
        if result.text == line.strip() and result.quality is None:
            return result  # nothing was translated, such as an address
        if result.quality is None:
            raise UsageError(
                "--refuse-below: the model is not calibrated for this search, so its translations "
                "have no quality; run regard calibrate, and keep its length penalty"
            )
        if result.quality >= least:
            return result
        fault = f"its quality is {result.quality:.2f}, below {least:g}"
        return replace(
            result,
            text=line.strip(),
            broken=True,
            fault=fault,
            markup=None,
            notes=(*result.notes, f"refused: {fault}"),
        )


def unknown_script(
    translator: Translator,
    name: str,
    lines: Sequence[str],
    start: int = 1,
    numbering: Numbering | None = None,
) -> tuple[int, str | None]:
    """Count the lines in a script that training has not seen, and return a warning that names them.

    Translations of such lines are meaningless. `start` is the number of the first line in the file
    `name`; `numbering` names its lines.
    """
    is_unknown = translator.doubts.is_of_unknown_script
    numbering = numbering or Numbering()
    unknown = [
        number
        for number, line in enumerate(lines, start)
        if any(map(str.isalpha, line)) and is_unknown(line)
    ]
    if not unknown:
        return 0, None

    verb = "mean" if len(unknown) > 1 else "means"
    warning = (
        f"{name}, {numbering.names(unknown)}: most characters were never seen in training, so the "
        f"translation{'s' if len(unknown) > 1 else ''} {verb} nothing; check that this is the "
        "language of the model"
    )
    return len(unknown), warning


def doubt_note(
    name: str,
    doubtful: int,
    lines: int,
    is_calibrated: bool,
    is_document: bool = False,
) -> tuple[str, ...]:
    """Return the warning of doubtful translations; empty if none of `lines` lines has any. If the
    model is not calibrated, it recognises few of them.
    """
    if not doubtful:
        return ()
    verb = "is" if doubtful == 1 else "are"
    remedy = "`report=True` names the least sure"
    if not is_calibrated:
        remedy = "others may be as bad, until `regard calibrate` has measured the model"
    marks = "" if is_document else "JSON lines (`format=jsonl`) mark them, and "
    unit = "sentence" if is_document else "line"
    return (
        f"{name}: {doubtful:,} of {counted(lines, unit)} {verb} doubtful: probably not good, or "
        f"of sentences that the model has not learnt; {marks}{remedy}",
    )


def unknown_script_only(name: str, model: Path) -> DataError:
    """Return the error for a file without any line in a script that was seen in training."""
    return DataError(
        f"{name}: no line is in a script that {model} has seen in training, so no translation can "
        "be right; check that this is the model for these lines"
    )
