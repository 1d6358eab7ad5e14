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


def translate_around_spans(
    lines: Sequence[str], translate: TranslateLines, keep: bool, copies: str = ""
) -> list[Translation]:
    """Translate lines; with `keep` those with spans around these. Warn of spans that are lost or invented.

    `copies`: the characters of the model's copy tokens, by which it places the spans itself.
    """
    results = _around_spans(lines, translate, copies) if keep else translate(lines, range(len(lines)), False)
    for index, (line, result) in enumerate(zip(lines, results, strict=True)):
        if (note := spans_note(line, result.text)) is not None:
            warnings.warn(LineWarning(index, note), stacklevel=3)
    return results


def _around_spans(lines: Sequence[str], translate: TranslateLines, copies: str) -> list[Translation]:
    """Translate lines; of those with spans, the parts around them, with word links by which the spans are put back."""
    protected = [_protect(line, copies) for line in lines]
    results = dict[int, Translation]()
    for links in (False, True):
        chosen = [n for n, part in enumerate(protected) if links == (part is not None and part.needs_links)]
        parts = [(n, text) for n in chosen for text in _parts(lines[n], protected[n])]
        translated = iter(translate([text for _, text in parts], [n for n, _ in parts], links) if parts else ())
        for n in chosen:
            part, own = protected[n], list(islice(translated, len(_parts(lines[n], protected[n]))))
            results[n] = own[0] if part is None else _join(part, own)
    return [results[index] for index in range(len(lines))]


def _parts(line: str, protected: ProtectedLine | None) -> Sequence[str]:
    return (line,) if protected is None else protected.lines


def _protect(line: str, copies: str) -> ProtectedLine | None:
    """Take the spans out of a line, unless its language code would be missing in all parts but one."""
    protected = protect_line(line, sentences=False, copies=copies)
    return None if protected is not None and len(protected.lines) > 1 and _CODED.match(line) else protected


def _join(protected: ProtectedLine, parts: Sequence[Translation]) -> Translation:
    text = protected.render([AlignedLine(part.text, part.alignments) for part in parts]).strip()
    if not parts:
        return Translation(text, (), 0.0, parts=(TranslatedPart(text, text, 0.0),))
    joined, restore = join_parts(parts, [f"{source} " for source in protected.lines], False), protected.restore
    inner = (part for translation in parts for part in translation.parts)
    restored = tuple(replace(part, source=restore(part.source), text=restore(part.text)) for part in inner)
    tokens = tuple(map(restore, joined.tokens))
    return replace(joined, text=text, tokens=tokens, parts=restored, doubtful=any(part.doubtful for part in restored))
