"""Lines with placeholders, addresses, code or emoji: what stands around these is translated, and they are put back."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from regard.common.errors import LineWarning
from regard.data.spans import spans_note
from regard.documents.markup import AlignedLine
from regard.documents.protected_line import ProtectedLine, protect_line
from regard.pipeline.translation import TranslatedPart, Translation, join_parts

TranslateLines = Callable[[Sequence[str], Sequence[int], bool], list[Translation]]
"""Translates lines, given their numbers for messages; if asked, with word links, where a model has any."""
_CODED = re.compile(r"\s*>>\w+<<")


def translate_around_spans(lines: Sequence[str], translate: TranslateLines, keep: bool) -> list[Translation]:
    """Translate lines; with `keep` those with spans around these. Warn of spans that are lost or invented."""
    results = _around_spans(lines, translate) if keep else translate(lines, range(len(lines)), False)
    for index, (line, result) in enumerate(zip(lines, results, strict=True)):
        if (note := spans_note(line, result.text)) is not None:
            warnings.warn(LineWarning(index, note), stacklevel=3)
    return results


def _around_spans(lines: Sequence[str], translate: TranslateLines) -> list[Translation]:
    """Translate lines; of those with spans, the parts around them, with word links by which the spans are put back."""
    protected = [_protect(line) for line in lines]
    plain = [index for index, part in enumerate(protected) if part is None]
    results = dict(zip(plain, translate([lines[index] for index in plain], plain, False), strict=True)) if plain else {}
    if len(plain) < len(lines):
        parts = [(index, line) for index, part in enumerate(protected) if part for line in part.lines]
        translated = iter(translate([line for _, line in parts], [index for index, _ in parts], True))
        for index, part in enumerate(protected):
            if part is not None:
                results[index] = _join(part, list(islice(translated, len(part.lines))))
    return [results[index] for index in range(len(lines))]


def _protect(line: str) -> ProtectedLine | None:
    """Take the spans out of a line, unless its language code would be missing in all parts but one."""
    protected = protect_line(line, sentences=False)
    return None if protected is not None and len(protected.lines) > 1 and _CODED.match(line) else protected


def _join(protected: ProtectedLine, parts: Sequence[Translation]) -> Translation:
    text = protected.render([AlignedLine(part.text, part.alignments) for part in parts]).strip()
    if not parts:
        return Translation(text, (), 0.0, parts=(TranslatedPart(text, text, 0.0),))
    joined = join_parts(parts, [f"{source} " for source in protected.lines], False)
    inner = tuple(part for translation in parts for part in translation.parts)
    return replace(joined, text=text, parts=inner, doubtful=any(part.doubtful for part in inner))
