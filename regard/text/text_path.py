"""The way of lines through a translator: what is done to them before and after a model decodes
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any, NamedTuple, TypeVar

from regard.common.arguments import describe
from regard.common.errors import LineError, RegardError, UsageError, repetition_note
from regard.data.copy_tokens import Copies
from regard.data.spans import (
    KEPT,
    KEPT_ON_RETRY,
    differing_spans,
    may_have_spans,
    own_pattern,
    spans_note,
)
from regard.data.text import INVISIBLE
from regard.text.aligned_line import AlignedLine
from regard.text.casing import LANGUAGE_CODE, CaseReader, KnownCase
from regard.text.mnemonics import insert_mnemonic, strip_mnemonic
from regard.text.protected_line import ProtectedLine, protect_line
from regard.text.translation import TranslatedPart, Translation, join_parts

Keep = bool | Sequence[str]
"""True: spans that are not language are kept; false: nothing; patterns: what these match is kept,
too.
"""
LONG = 2_000
"""Characters from which on a line is not translated again for the numbers that it has lost."""
_R = TypeVar("_R")


class Request(NamedTuple):
    """Lines to decode together.

    `owners`: the number of the line that each is a part of. `links`: word links are wanted, where a
    model has any. `is_retry`: all of these lines have a translation already.
    """

    lines: Sequence[str]
    owners: Sequence[int]
    links: bool = False
    is_retry: bool = False


Path = Generator[Request, Sequence[Translation] | None, _R]
"""Yields what is to be decoded next, and is sent the translations; None for those of a retry: there
is no time.
"""


class Wanted(NamedTuple):
    """Wishes for each translation beside its text."""

    nbest: int = 1
    alignments: bool = False
    readings: bool = False

    @property
    def is_text(self) -> bool:
        """True if the best text is all: then a line may be translated in parts, and again."""
        return self.nbest == 1 and not (self.alignments or self.readings)


BEST_TEXT = Wanted()


@dataclass(frozen=True)
class PathRules:
    """Rules by which lines are read and translations put right.

    `reader` reads capitals. `copies`: the characters of the model's copy tokens, by which it places
    spans itself.
    """

    reader: CaseReader
    copies: str = ""
    keep: Keep = True
    wanted: Wanted = BEST_TEXT

    @property
    def own(self) -> Any:
        """The compiled patterns of the user's own spans."""
        return None if isinstance(self.keep, bool) else own_pattern(tuple(self.keep))


def checked_keep(keep: Keep, wanted: Wanted, free: Iterable[bool]) -> Keep:
    """Return what is kept in lines that are `free` of constraints.

    Raises UsageError for patterns if more is wanted than the best text, for patterns of lines with
    constraints, and for what are no patterns.
    """
    is_list = isinstance(keep, Sequence) and not isinstance(keep, (str, bytes))
    if not (
        isinstance(keep, bool)
        or (is_list and all(isinstance(pattern, str) for pattern in keep))
    ):
        raise UsageError(
            f"`keep=`: wanted True, False, or a list of patterns, got {describe(keep)}"
        )
    if not ((wanted.is_text and all(free)) or isinstance(keep, bool)):
        raise UsageError(
            "patterns of what to keep go with the best translation alone: leave nbest and the like "
            "out"
        )
    return keep


def run_path(
    path: Path[_R], decode: Callable[[Request], Sequence[Translation] | None]
) -> _R:
    """Decode what a path asks for until it ends, and return what it returns."""
    try:
        request = next(path)
        while True:
            try:
                translations = decode(request)
            except RegardError as problem:
                request = path.throw(problem)
            else:
                request = path.send(translations)
    except StopIteration as stop:
        result: _R = stop.value
        return result


class _Ask(NamedTuple):
    """The parts of one line that are to be decoded."""

    lines: Sequence[str]
    links: bool = False
    is_retry: bool = False


_LinePath = Generator[_Ask, Sequence[Translation] | None, Translation]


def lines_path(
    lines: Sequence[str], rules: PathRules, free: Sequence[bool]
) -> Path[list[Translation]]:
    """Translate lines; `free`: whether each is without constraints, under which a line is read as
    it is.

    Raises LineError, by the numbers of these lines, for what the model refuses; if it refuses a
    further try, the one before it stands.
    """
    own = rules.own
    results = dict[int, Translation]()
    paths = dict[int, _LinePath]()
    asked = dict[int, _Ask]()

    def advance(number: int, translations: Sequence[Translation] | None) -> None:
        try:
            asked[number] = (
                next(paths[number])
                if translations == ()
                else paths[number].send(translations)
            )
        except StopIteration as stop:
            results[number] = stop.value

    for number, line in enumerate(lines):
        if rules.keep and free[number] and (own or not _is_plain(line, rules.reader)):
            paths[number] = _line_path(line, rules, own)
            advance(number, ())
        else:
            asked[number] = _Ask((line,))
    while asked:
        # A refused retry leaves first tries alone.
        first = min((ask.is_retry, ask.links) for ask in asked.values())
        chosen = {
            number: ask
            for number, ask in asked.items()
            if (ask.is_retry, ask.links) == first
        }
        for number in chosen:
            del asked[number]
        decoded = yield from _decoded(chosen, first[1])
        for number in chosen:
            translations = decoded.get(number)
            if number in paths:
                advance(number, translations)
            elif translations:
                results[number] = _with_notes(
                    translations[0], _note(lines[number], translations[0], own)
                )
    return [results[number] for number in range(len(lines))]


def _decoded(
    asked: Mapping[int, _Ask], links: bool
) -> Path[dict[int, Sequence[Translation]]]:
    """Have the parts of lines decoded; of retries, those that can be. Return the translations of
    each line's parts.
    """
    texts = [text for ask in asked.values() for text in ask.lines]
    owners = [number for number, ask in asked.items() for _ in ask.lines]
    is_retry = all(ask.is_retry for ask in asked.values())
    try:
        translations = yield Request(texts, owners, links, is_retry)
    except LineError as problem:
        if not is_retry:
            raise LineError(
                *((owners[index], text) for index, text in problem.problems)
            ) from None
        refused = {owners[index] for index, _ in problem.problems}
        others = {number: ask for number, ask in asked.items() if number not in refused}
        return (yield from _decoded(others, links)) if others else {}
    except RegardError:
        if not is_retry:
            raise
        return {}
    if translations is None:
        return {}
    rest = iter(translations)
    return {number: list(islice(rest, len(ask.lines))) for number, ask in asked.items()}


def _is_plain(line: str, reader: CaseReader) -> bool:
    """Return whether a line has nothing that is not read as it is: no span, no mnemonic, no
    capitals.
    """
    return not may_have_spans(line) and reader.read(line).line == line


class _Outcome(NamedTuple):
    """A translation, how far its spans differ, or are in doubt, and the note on them."""

    result: Translation
    faults: int
    note: str | None


def _line_path(line: str, rules: PathRules, own: Any) -> _LinePath:
    """Translate one line, and again if its spans differ: then without numbers, keys and symbols,
    too; at last with word links in the place of copy tokens. The translation that differs least is
    taken.
    """
    label = line
    mnemonic = ""
    if not rules.wanted.readings:  # which show what the model reads
        label, mnemonic = strip_mnemonic(line, rules.reader.encode)
    protected = _protected(label, rules.copies, own, KEPT)
    if not rules.wanted.is_text and not _is_copied(label, protected):
        protected = None
    best = yield from _try(label, protected, rules.reader, own, is_retry=False)
    assert best is not None, "the first try has translations"
    for copies, kinds in _further_tries(label, rules, best):
        before = protected
        protected = _protected(label, copies, own, kinds)
        if not best.faults or protected == before:  # it would come out the same
            continue
        outcome = yield from _try(label, protected, rules.reader, own, is_retry=True)
        if outcome is None:
            break
        if outcome.faults < best.faults:
            best = outcome
    result = (
        _with_mnemonic(best.result, line, mnemonic, rules.reader)
        if mnemonic
        else best.result
    )
    return _with_notes(result, best.note)


def _further_tries(
    line: str, rules: PathRules, first: _Outcome
) -> list[tuple[str, Collection[str]]]:
    """Return the characters of copy tokens and the kinds of spans of each further try."""
    if not rules.wanted.is_text or not first.faults:
        return []
    if len(line) <= LONG:
        return [(rules.copies, KEPT_ON_RETRY), ("", KEPT_ON_RETRY)]
    return [] if first.result.is_complete else [("", KEPT)]


def _try(
    line: str,
    protected: ProtectedLine | None,
    reader: CaseReader,
    own: Any,
    is_retry: bool,
) -> Generator[_Ask, Sequence[Translation] | None, _Outcome | None]:
    """Translate the parts of a line, in letters that the model knows. Return None if there is no
    time for it.
    """
    texts = (line,) if protected is None else protected.lines
    cases = [reader.read(text) for text in texts]
    translations: Sequence[Translation] = ()
    if texts:
        links = protected is not None and protected.needs_links
        decoded = yield _Ask([case.line for case in cases], links, is_retry)
        if decoded is None:
            return None
        translations = decoded
    parts = [
        restored_case(*item) for item in zip(translations, cases, texts, strict=True)
    ]
    result = parts[0] if protected is None else _joined(protected, parts)
    note = _note(line, result, own)
    differing = sum(map(len, differing_spans(line, result.text, own))) if note else 0
    return _Outcome(
        result, 2 * differing + (not all(part.is_complete for part in parts)), note
    )


def first_reading(
    line: str, rules: PathRules
) -> tuple[str, Callable[[Translation], Translation]]:
    """Return a line as the model reads it at first, and what brings a translation of it back, for
    streams.

    It is read in known letters, with copy tokens in the place of spans.
    """
    if not rules.keep:
        return line, lambda translation: translation
    protected = _protected(line, rules.copies, rules.own, KEPT)
    if protected is None or not _is_copied(line, protected):
        case = rules.reader.read(line)
        return case.line, lambda translation: restored_case(translation, case, line)
    (text,) = protected.lines
    case = rules.reader.read(text)
    return case.line, lambda translation: _joined(
        protected, [restored_case(translation, case, text)]
    )


def _protected(
    line: str, copies: str, own: Any, kinds: Collection[str]
) -> ProtectedLine | None:
    """Take the spans out of a line, unless its language code would be missing in all parts but
    one.
    """
    protected = protect_line(line, sentences=False, copies=copies, own=own, kinds=kinds)
    return (
        None
        if protected is not None
        and len(protected.lines) > 1
        and LANGUAGE_CODE.match(line)
        else protected
    )


def _is_copied(line: str, protected: ProtectedLine | None) -> bool:
    """Return whether copy tokens stand for the spans of one line, so that hypotheses and links can
    be restored.
    """
    if protected is None or protected.needs_links or len(protected.lines) != 1:
        return False
    # Words of such characters alone would not be counted.
    return not INVISIBLE.search(line)


def _note(line: str, result: Translation, own: Any) -> str | None:
    """Return the note on spans that a translation has lost or invented."""
    if own is None and not may_have_spans(line) and not may_have_spans(result.text):
        return None
    return spans_note(line, result.text, own)


def _with_notes(result: Translation, note: str | None) -> Translation:
    """Return a translation with the notes on its repetition and on its spans."""
    if note is None and result.repetition is None:
        return result
    repetition = [repetition_note(result.repetition)] if result.repetition else []
    return replace(
        result, notes=(*result.notes, *repetition, *([note] if note else []))
    )


def _mapped(
    result: Translation,
    text: Callable[[str], str],
    tokens: Callable[[Sequence[str]], Iterable[str]],
    source: Callable[[Sequence[str]], Iterable[str]],
    links: Callable[[Translation], Any] = lambda hypothesis: hypothesis.alignments,
) -> Translation:
    """Return a translation with other texts and tokens, those of its hypotheses and readings,
    too.
    """
    nbest = [
        _mapped(hypothesis, text, tokens, source, links) for hypothesis in result.nbest
    ]
    readings = result.readings
    if readings is not None:
        readings = replace(
            readings,
            source=tuple(source(readings.source)),
            target=(*tokens(readings.target[:-1]), *readings.target[-1:]),
            source_text=tuple(
                word for words in readings.source_text for word in source([words])
            ),
            target_text=tuple(map(text, readings.target_text)),
        )
    return replace(
        result,
        text=text(result.text),
        tokens=tuple(tokens(result.tokens)),
        source_tokens=tuple(source(result.source_tokens)),
        alignments=links(result),
        nbest=tuple(nbest),
        readings=readings,
    )


def restored_case(result: Translation, case: KnownCase, line: str) -> Translation:
    """Return a translation in the letters of its line, which was read in those that are known."""
    if case.line == line:
        return result
    sources = (
        [line.strip()]
        if len(result.parts) == 1
        else [case.restore_source(part.source) for part in result.parts]
    )
    pairs = zip(result.parts, sources, strict=True)
    parts = tuple(
        part._replace(source=source, text=case.restore(part.text))
        for part, source in pairs
    )
    whole = replace(result, parts=parts)
    if not case.is_capital:
        return whole
    return _mapped(whole, case.restore, case.restore_tokens, case.restore_source_tokens)


def _joined(protected: ProtectedLine, parts: Sequence[Translation]) -> Translation:
    """Return the translation of a line, with its spans, from those of its parts."""
    if not parts:
        text = protected.render(()).strip()
        return Translation(text, (), 0.0, parts=(TranslatedPart(text, text, 0.0),))
    copies = protected.copied
    if not protected.needs_links and len(parts) == 1:
        return _with_copies(parts[0], protected.lines[0], copies)
    text = protected.render(
        [AlignedLine(part.text, part.alignments) for part in parts]
    ).strip()
    joined = join_parts(parts, [f"{source} " for source in protected.lines], False)
    inner = [part for translation in parts for part in translation.parts]
    restored = tuple(_restored_part(part, copies) for part in inner)
    tokens = tuple(map(copies.restore, joined.tokens))
    doubtful = any(part.doubtful for part in restored)
    notes = tuple(map(copies.restore, joined.notes))
    return replace(
        joined, text=text, tokens=tokens, parts=restored, doubtful=doubtful, notes=notes
    )


def _restored_part(part: TranslatedPart, copies: Copies) -> TranslatedPart:
    return part._replace(
        source=copies.restore(part.source), text=copies.restore(part.text)
    )


def _with_copies(result: Translation, source: str, copies: Copies) -> Translation:
    """Return a translation with spans in the place of copy characters; links count the words that
    are there then.
    """
    source_words = copies.restored_words(source)

    def links(hypothesis: Translation) -> Any:
        if not hypothesis.alignments:
            return hypothesis.alignments
        words = copies.restored_words(hypothesis.text)
        return tuple(
            sorted(
                {
                    link
                    for s, t in hypothesis.alignments
                    for link in product(source_words[s], words[t])
                }
            )
        )

    def restore(tokens: Sequence[str]) -> Iterable[str]:
        return map(copies.restore, tokens)

    parts = tuple(_restored_part(part, copies) for part in result.parts)
    notes = tuple(map(copies.restore, result.notes))
    return _mapped(
        replace(result, parts=parts, notes=notes),
        lambda text: copies.restore(text).strip(),
        restore,
        restore,
        links,
    )


def _with_mnemonic(
    result: Translation, line: str, mnemonic: str, reader: CaseReader
) -> Translation:
    """Return the translation of a label with its mnemonic; its only part has it, too."""
    case = reader.source
    parts = result.parts
    if len(parts) == 1:
        own = insert_mnemonic(parts[0].text, mnemonic, case)
        parts = (parts[0]._replace(source=line.strip(), text=own),)
    nbest = [
        replace(hypothesis, text=insert_mnemonic(hypothesis.text, mnemonic, case))
        for hypothesis in result.nbest
    ]
    text = insert_mnemonic(result.text, mnemonic, case)
    return replace(result, text=text, parts=parts, nbest=tuple(nbest))
