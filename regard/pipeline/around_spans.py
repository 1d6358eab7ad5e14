"""Lines with placeholders, addresses, code or emoji: what stands around these is translated, and they are put back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from regard.common.arguments import describe
from regard.common.errors import LineWarning, UsageError, repetition_note
from regard.data.casing import LANGUAGE_CODE, CaseReader, KnownCase
from regard.data.letter_case import LetterCase
from regard.data.mnemonics import insert_mnemonic, strip_mnemonic
from regard.data.spans import KEPT, KEPT_ON_RETRY, differing_spans, own_pattern, spans_note
from regard.documents.markup import AlignedLine
from regard.documents.protected_line import ProtectedLine, protect_line
from regard.pipeline.translation import TranslatedPart, Translation, join_parts

TranslateLines = Callable[[Sequence[str], Sequence[int], bool], list[Translation]]
"""Translates lines, given their numbers for messages; if asked, with word links, where a model has any."""
Keep = bool | Sequence[str]
"""True: spans that are not language are kept; false: nothing; patterns: what these match is kept, too."""


class _Outcome(NamedTuple):
    """A translation, the note on its spans, and how far these differ, or are in doubt."""

    result: Translation
    note: str | None
    faults: int


def checked_keep(keep: Keep, is_plain: bool, free: Sequence[bool]) -> Keep:
    """Return what is kept in lines that are free of constraints: nothing if more is asked for than a translation.

    Raises UsageError for patterns then, for patterns of lines with constraints, and for what are no patterns.
    """
    is_list = isinstance(keep, Sequence) and not isinstance(keep, (str, bytes))
    if not (isinstance(keep, bool) or (is_list and all(isinstance(pattern, str) for pattern in keep))):
        raise UsageError(f"`keep=`: wanted True, False, or a list of patterns, got {describe(keep)}")
    if not ((is_plain and all(free)) or isinstance(keep, bool)):
        raise UsageError("patterns of what to keep go with the best translation alone: leave nbest and the like out")
    return keep if is_plain else False


def translate_around_spans(
    lines: Sequence[str], translate: TranslateLines, keep: Keep, free: Sequence[bool], copies: str, reader: CaseReader
) -> list[Translation]:
    """Translate lines; with `keep` those with spans around these. Warn of spans that are lost or invented.

    `keep`: true, or what else to keep, in lines that are `free` of constraints. `copies`: the characters of the model's
    copy tokens, by which it places the spans itself. With `keep` capitals are read by `reader`, too.
    """

    def cased(chosen: Sequence[str], owners: Sequence[int], links: bool) -> list[Translation]:
        known = [reader.read(line) for line in chosen]
        translated = translate([case.line for case in known], owners, links)
        return [_restored(*item) for item in zip(translated, known, chosen, strict=True)]

    own = None if isinstance(keep, bool) else own_pattern(tuple(keep))
    labels = {n: strip_mnemonic(line, reader.encode) for n, line in enumerate(lines) if keep and free[n]}
    outcomes = _around_spans({n: line for n, (line, _) in labels.items()}, cased, copies, own)
    others, results = [n for n in range(len(lines)) if n not in labels], []
    for n, result in zip(others, translate([lines[n] for n in others], others, False) if others else (), strict=True):
        outcomes[n] = _Outcome(result, spans_note(lines[n], result.text, own), 0)
    for n, line in enumerate(lines):
        result, note, _ = outcomes[n]
        _, mnemonic = labels.get(n, (line, ""))
        results.append(_with_mnemonic(result, line, mnemonic, reader.source) if mnemonic else result)
        for text in (result.repetition and repetition_note(result.repetition), note):
            if text is not None:
                warnings.warn(LineWarning(n, text), stacklevel=3)
    return results


def _around_spans(lines: Mapping[int, str], translate: TranslateLines, copies: str, own: Any) -> dict[int, _Outcome]:
    """Translate lines, those with copy tokens as they are, of others with spans the parts around them; with notes.

    All are given by their number. Where the spans of a translation differ from those of its line, or the model has left
    copy tokens out until nothing else was to be said, numbers, keys and symbols are kept, too; then all spans without
    copy tokens, by word links.
    """
    best, before = dict[int, _Outcome](), dict[int, ProtectedLine | None]()
    for characters, kinds in ((copies, KEPT), (copies, KEPT_ON_RETRY), ("", KEPT_ON_RETRY)):
        left = [n for n in lines if n not in best or best[n].faults]
        protected = {n: _protect(lines[n], characters, own, kinds) for n in left}
        changed = {n: part for n, part in protected.items() if n not in best or part != before[n]}
        before |= changed
        for n, outcome in _outcomes(lines, changed, translate, own):
            if n not in best or outcome.faults < best[n].faults:
                best[n] = outcome
    return best


def _outcomes(
    lines: Mapping[int, str], protected: Mapping[int, ProtectedLine | None], translate: TranslateLines, own: Any
) -> Iterator[tuple[int, _Outcome]]:
    """Translate the parts of lines, given by their number, of some with word links; yield what comes out."""
    for links in (False, True):
        chosen = [n for n, part in protected.items() if links == (part is not None and part.needs_links)]
        parts = [(n, text) for n in chosen for text in _parts(lines[n], protected[n])]
        translated = iter(translate([text for _, text in parts], [n for n, _ in parts], links) if parts else ())
        for n in chosen:
            part, results = protected[n], list(islice(translated, len(_parts(lines[n], protected[n]))))
            result = results[0] if part is None else _join(part, results)
            faults = sum(map(len, differing_spans(lines[n], result.text, own)))
            note = spans_note(lines[n], result.text, own) if faults else None
            yield n, _Outcome(result, note, 2 * faults + (not all(one.is_complete for one in results)))


def _restored(result: Translation, known: KnownCase, line: str) -> Translation:
    """Return a translation in the letters of its line, which was read in those that are known."""
    if known.line == line:
        return result
    sources = [line.strip()] if len(result.parts) == 1 else [known.restore_source(part.source) for part in result.parts]
    pairs = zip(result.parts, sources, strict=True)
    parts = tuple(replace(part, source=source, text=known.restore(part.text)) for part, source in pairs)
    tokens = tuple(known.restore_tokens(result.tokens))
    return replace(result, text=known.restore(result.text), tokens=tokens, parts=parts)


def _with_mnemonic(result: Translation, line: str, mnemonic: str, case: LetterCase) -> Translation:
    """Return the translation of a label with its mnemonic; its only part has it, too."""
    text = insert_mnemonic(result.text, mnemonic, case)
    parts = result.parts
    if len(parts) == 1:
        own = insert_mnemonic(parts[0].text, mnemonic, case)
        parts = (replace(parts[0], source=line.strip(), text=own),)
    return replace(result, text=text, parts=parts)


def _parts(line: str, protected: ProtectedLine | None) -> Sequence[str]:
    return (line,) if protected is None else protected.lines


def _protect(line: str, copies: str, own: Any, kinds: Collection[str]) -> ProtectedLine | None:
    """Take the spans out of a line, unless its language code would be missing in all parts but one."""
    protected = protect_line(line, sentences=False, copies=copies, own=own, kinds=kinds)
    return None if protected is not None and len(protected.lines) > 1 and LANGUAGE_CODE.match(line) else protected


def _join(protected: ProtectedLine, parts: Sequence[Translation]) -> Translation:
    text = protected.render([AlignedLine(part.text, part.alignments) for part in parts]).strip()
    if not parts:
        return Translation(text, (), 0.0, parts=(TranslatedPart(text, text, 0.0),))
    joined, restore = join_parts(parts, [f"{source} " for source in protected.lines], False), protected.copied.restore
    inner = (part for translation in parts for part in translation.parts)
    restored = tuple(replace(part, source=restore(part.source), text=restore(part.text)) for part in inner)
    tokens = tuple(map(restore, joined.tokens))
    return replace(joined, text=text, tokens=tokens, parts=restored, doubtful=any(part.doubtful for part in restored))
