"""Lines with placeholders, addresses, code or emoji: what stands around these is translated, and they are put back."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from regard.common.errors import LineWarning, UsageError
from regard.data.casing import Encode, KnownCase, in_known_case
from regard.data.spans import own_pattern, spans_note
from regard.documents.markup import AlignedLine
from regard.documents.protected_line import ProtectedLine, protect_line
from regard.pipeline.translation import TranslatedPart, Translation, join_parts

TranslateLines = Callable[[Sequence[str], Sequence[int], bool], list[Translation]]
"""Translates lines, given their numbers for messages; if asked, with word links, where a model has any."""
Keep = bool | Sequence[str]
"""True: spans that are not language are kept; false: nothing; patterns: what these match is kept, too."""
_CODED = re.compile(r"\s*>>\w+<<")


def checked_keep(keep: Keep, is_plain: bool) -> Keep:
    """Return what is kept: nothing if more is asked for than a translation. Raises UsageError for patterns then."""
    if not (is_plain or isinstance(keep, bool)):
        raise UsageError("patterns of what to keep go with the best translation alone: leave nbest and the like out")
    return is_plain and keep


def translate_around_spans(
    lines: Sequence[str], translate: TranslateLines, keep: Keep, copies: str, encode: Encode
) -> list[Translation]:
    """Translate lines; with `keep` those with spans around these. Warn of spans that are lost or invented.

    `keep`: true, or what else to keep. `copies`: the characters of the model's copy tokens, by which it places the
    spans itself. With `keep`, lines in capitals are read in the letters that the model knows, too, by its `encode`.
    """

    def cased(chosen: Sequence[str], owners: Sequence[int], links: bool) -> list[Translation]:
        known = [in_known_case(line, encode) for line in chosen]
        translated = translate([case.line for case in known], owners, links)
        return [_restored(*item) for item in zip(translated, known, chosen, strict=True)]

    if keep:
        own = None if keep is True else own_pattern((keep,) if isinstance(keep, str) else tuple(keep))
        results, notes = _around_spans(lines, cased, copies, own)
    else:
        results = translate(lines, range(len(lines)), False)
        notes = [spans_note(line, result.text) for line, result in zip(lines, results, strict=True)]
    for index, note in enumerate(notes):
        if note is not None:
            warnings.warn(LineWarning(index, note), stacklevel=3)
    return results


def _around_spans(
    lines: Sequence[str], translate: TranslateLines, copies: str, own: Any
) -> tuple[list[Translation], list[str | None]]:
    """Translate lines, those with copy tokens as they are, of others with spans the parts around them; with notes.

    With these come word links, by which the spans are put back; so it is done, too, where the model has left copy
    tokens out until nothing else was to be said, or spans differ, by an invention of the model or its punctuation.
    """
    protected = [_protect(line, copies, own) for line in lines]
    results, notes = dict[int, Translation](), dict[int, str | None]()
    for links in (False, True):
        chosen = [n for n, part in enumerate(protected) if links == (part is not None and part.needs_links)]
        parts = [(n, text) for n in chosen for text in _parts(lines[n], protected[n])]
        translated = iter(translate([text for _, text in parts], [n for n, _ in parts], links) if parts else ())
        for n in chosen:
            part, results_of_parts = protected[n], list(islice(translated, len(_parts(lines[n], protected[n]))))
            results[n] = results_of_parts[0] if part is None else _join(part, results_of_parts)
            notes[n] = spans_note(lines[n], results[n].text, own)
            is_whole = all(one.is_complete for one in results_of_parts) and notes[n] is None
            if part is not None and not links and not is_whole:
                protected[n] = _protect(lines[n], "", own) or part
    return [results[index] for index in range(len(lines))], [notes[index] for index in range(len(lines))]


def _restored(result: Translation, known: KnownCase, line: str) -> Translation:
    """Return a translation in the letters of its line, which was read in those that are known."""
    if known.line == line:
        return result
    sources = [line.strip()] if len(result.parts) == 1 else [known.restore(part.source) for part in result.parts]
    pairs = zip(result.parts, sources, strict=True)
    parts = tuple(replace(part, source=source, text=known.restore(part.text)) for part, source in pairs)
    tokens = tuple(map(known.restore, result.tokens))
    return replace(result, text=known.restore(result.text), tokens=tokens, parts=parts)


def _parts(line: str, protected: ProtectedLine | None) -> Sequence[str]:
    return (line,) if protected is None else protected.lines


def _protect(line: str, copies: str, own: Any) -> ProtectedLine | None:
    """Take the spans out of a line, unless its language code would be missing in all parts but one."""
    protected = protect_line(line, sentences=False, copies=copies, own=own)
    return None if protected is not None and len(protected.lines) > 1 and _CODED.match(line) else protected


def _join(protected: ProtectedLine, parts: Sequence[Translation]) -> Translation:
    text = protected.render([AlignedLine(part.text, part.alignments) for part in parts]).strip()
    if not parts:
        return Translation(text, (), 0.0, parts=(TranslatedPart(text, text, 0.0),))
    joined, restore = join_parts(parts, [f"{source} " for source in protected.lines], False), protected.copied.restore
    inner = (part for translation in parts for part in translation.parts)
    restored = tuple(replace(part, source=restore(part.source), text=restore(part.text)) for part in inner)
    tokens = tuple(map(restore, joined.tokens))
    return replace(joined, text=text, tokens=tokens, parts=restored, doubtful=any(part.doubtful for part in restored))
