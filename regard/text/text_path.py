"""Process lines before and after a model decodes them."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from regard.common.arguments import describe
from regard.common.errors import LineError, RegardError, UsageError, repetition_note
from regard.data.copy_tokens import Copies
from regard.data.spans import (
    KEPT,
    KEPT_ON_RETRY,
    may_have_spans,
    own_pattern,
)
from regard.data.text import INVISIBLE
from regard.text.casing import (
    LANGUAGE_CODE,
    CaseReader,
    KnownCase,
    split_language_code,
)
from regard.text.escapes import NO_ESCAPES, read_escapes
from regard.text.mnemonics import insert_mnemonic, strip_mnemonic
from regard.text.protected_line import ProtectedLine, protect_line
from regard.text.translation import (
    TranslatedPart,
    Translation,
    hypotheses_at,
    join_parts,
)

if TYPE_CHECKING:
    from regard.contracts.faults import Fault

Keep = bool | Sequence[str]
"""True keeps spans that are not language, False keeps nothing; a list of patterns keeps their
matches, too.
"""
Links = tuple[tuple[int, int], ...] | None
"""Pairs of a source word and a target word; None if they were not asked for."""
AUTO, QUOTING = "auto", "messageformat"
"""Dialect that each line speaks for by itself, and the one in which every apostrophe quotes."""
ALL = slice(None)
"""Bounds of all lines of a text."""
LONG = 2_000
"""Maximum number of characters of a line that is translated again because it has lost numbers."""
_R = TypeVar("_R")


class Request(NamedTuple):
    """Lines to decode together.

    `owners`: the number of the line that each is a part of. `links`: word links are wanted, if the
    model has attention. `is_retry`: all of these lines have a translation already.
    """

    lines: Sequence[str]
    owners: Sequence[int]
    links: bool = False
    is_retry: bool = False


Path = Generator[Request, Sequence[Translation] | None, _R]
"""Generator that yields requests and is sent their translations; None if there is no time for a
retry.
"""


class Wanted(NamedTuple):
    """Results wanted for each line, besides its translated text."""

    nbest: int = 1
    alignments: bool = False
    readings: bool = False

    @property
    def is_text(self) -> bool:
        """True if only the best text is wanted, so that a line may be translated in parts, and
        again.
        """
        return self.nbest == 1 and not (self.alignments or self.readings)


BEST_TEXT = Wanted()


@dataclass(frozen=True)
class PathRules:
    """Rules for reading lines and correcting translations.

    `reader` converts capitals. `copies`: the characters of the model's copy tokens, which it places
    in the translation by itself. `dialect`: of the strings of programs whose contract is kept;
    `auto`: that of each line. `links`: word links are wanted in every try, since they place the
    marks around the words. `both_particles`: Korean particles after placeholders are written in
    both forms.
    """

    reader: CaseReader
    copies: str = ""
    keep: Keep = True
    wanted: Wanted = BEST_TEXT
    dialect: str = "auto"
    links: bool = False
    both_particles: bool = True

    @property
    def user_patterns(self) -> object:
        """The compiled patterns of the user's spans; None if there are none."""
        return None if isinstance(self.keep, bool) else own_pattern(tuple(self.keep))

    @property
    def may_retry(self) -> bool:
        """True if lines that break their contract are translated again."""
        return bool(self.keep) and self.wanted.is_text


def checked_keep(keep: Keep, wanted: Wanted, free: Iterable[bool]) -> Keep:
    """Check what is to be kept, and return it; `free` states for each line whether it has no
    constraints.

    Raises UsageError for patterns if more than the best text is wanted or a line has constraints,
    and for objects that are not patterns.
    """
    if isinstance(keep, bool):
        return keep
    is_list = isinstance(keep, Sequence) and not isinstance(keep, (str, bytes))
    if not is_list or not all(isinstance(pattern, str) for pattern in keep):
        raise UsageError(
            f"`keep=`: wanted True, False, or a list of patterns, got {describe(keep)}"
        )
    if not wanted.is_text or not all(free):
        raise UsageError(
            "patterns of what to keep go with the best translation alone: leave nbest and the like "
            "out"
        )
    return keep


def run_path(
    path: Path[_R], decode: Callable[[Request], Sequence[Translation] | None]
) -> _R:
    """Decode the requests of a path until it ends, and return its result."""
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


class LineRequest(NamedTuple):
    """The parts of one line to decode."""

    lines: Sequence[str]
    links: bool = False
    is_retry: bool = False


LineSteps = Generator[LineRequest, Sequence[Translation] | None, _R]
"""Generator that yields the requests of one line."""
LinePath = LineSteps[Translation]
"""The same, which returns the translation of the line."""


def lines_path(
    lines: Sequence[str], rules: PathRules, free: Sequence[bool]
) -> Path[list[Translation]]:
    """Translate lines; `free` states for each line whether it has no constraints, so that it may be
    changed. Raises the errors of `joint_path`.
    """
    pairs = zip(lines, free, strict=True)
    return joint_path([line_path(line, rules, is_free) for line, is_free in pairs])


def joint_path(paths: Sequence[LinePath]) -> Path[list[Translation]]:
    """Translate lines by the paths of each, whose requests are decoded together.

    Raises LineError, with the numbers of these lines, for lines that the model refuses. If the
    model refuses a retry, the preceding translation stands.
    """
    results = dict[int, Translation]()
    pending = dict[int, LineRequest]()

    answers = dict[int, Sequence[Translation] | None].fromkeys(range(len(paths)))
    while answers:
        for number, translations in answers.items():
            try:
                pending[number] = paths[number].send(translations)
            except StopIteration as stop:
                results[number] = stop.value
        requests = _take_requests(pending) if pending else {}
        decoded = (yield from _decoded(requests)) if requests else {}
        answers = {number: decoded.get(number) for number in requests}
    return [results[number] for number in range(len(paths))]


def _take_requests(pending: dict[int, LineRequest]) -> dict[int, LineRequest]:
    """Remove and return the pending requests to decode next, by line number.

    Retries are decoded separately, so that a refused one does not affect first attempts.
    """
    kind = min((request.is_retry, request.links) for request in pending.values())
    requests = {
        number: request
        for number, request in pending.items()
        if (request.is_retry, request.links) == kind
    }
    for number in requests:
        del pending[number]
    return requests


def _decoded(
    requests: Mapping[int, LineRequest],
) -> Path[dict[int, Sequence[Translation]]]:
    """Decode the parts of lines; return the translations of each line's parts by line number.

    Retries that the model refuses are left out.
    """
    texts = list[str]()
    owners = list[int]()
    for number, request in requests.items():
        texts += request.lines
        owners += [number] * len(request.lines)
    # `_take_requests` returns requests of one kind.
    _, links, is_retry = next(iter(requests.values()))
    try:
        translations = yield Request(texts, owners, links, is_retry)
    except LineError as problem:
        causes = [(owners[index], text) for index, text in problem.problems]
        if not is_retry:
            raise LineError(*causes) from None
        refused = {number for number, _ in causes}
        others = {
            number: request
            for number, request in requests.items()
            if number not in refused
        }
        return (yield from _decoded(others)) if others else {}
    except RegardError:
        if not is_retry:
            raise
        return {}
    if translations is None:
        return {}
    stream = iter(translations)
    return {
        number: list(islice(stream, len(request.lines)))
        for number, request in requests.items()
    }


def _is_plain(line: str, reader: CaseReader) -> bool:
    """Return whether the model reads a line unchanged: it has no span, no mnemonic, no capitals and
    no foreign words.
    """
    if may_have_spans(line) or reader.foreign_words(line):
        return False
    return reader.read(line).line == line


class Joined(NamedTuple):
    """The translation of a line, the text of it that is judged, and its other faults."""

    result: Translation
    text: str
    faults: Sequence[Fault] = ()


class Attempt(Protocol):
    """A way to protect a line: the texts to translate, and how their translations are joined."""

    @property
    def lines(self) -> Sequence[str]:
        """The texts to translate."""

    @property
    def needs_links(self) -> bool:
        """True if word links are needed to join them."""

    def join(self, parts: Sequence[Translation]) -> Joined:
        """Return the translation of the line, and what of it is judged."""


@dataclass(frozen=True)
class _LineAttempt:
    """A line, or its protected form."""

    line: str
    protected: ProtectedLine | None

    @property
    def lines(self) -> Sequence[str]:
        return (self.line,) if self.protected is None else self.protected.lines

    @property
    def needs_links(self) -> bool:
        return self.protected is not None and self.protected.needs_links

    def join(self, parts: Sequence[Translation]) -> Joined:
        result = parts[0] if self.protected is None else _joined(self.protected, parts)
        return Joined(result, result.text)


class Outcome(NamedTuple):
    """A translation with the faults by which it breaks the contract of its line."""

    result: Translation
    breaches: list[Fault]

    @property
    def faults(self) -> tuple[int, bool]:
        """Number of faults, and whether the translation was cut; the smaller, the better."""
        return len(self.breaches), not self.result.is_complete


def line_path(line: str, rules: PathRules, is_free: bool = True) -> LinePath:
    """Translate one line; it may be changed if it `is_free` of constraints."""
    is_plain = rules.keep is True and _is_plain(line, rules.reader)
    if is_free and rules.keep and not is_plain:
        return (yield from _protected_path(line, rules))
    decoded = yield LineRequest((line,), rules.links)
    assert decoded, "the first try has translations"
    (result,) = decoded
    if is_plain and not result.repetition and not may_have_spans(result.text):
        return result
    return marked(line, result, rules, is_free and bool(rules.keep))


def _protected_path(line: str, rules: PathRules) -> LinePath:
    """Translate one line, and translate it again as long as it breaks its contract.

    Retries use copy tokens for numbers, keys and symbols, too, then take all code out, which word
    links put back, and at last translate the texts between it by themselves.
    """
    code, text = "", line
    if rules.wanted.is_text:
        code, text = split_language_code(line)
    label = text
    mnemonic = ""
    escapes = NO_ESCAPES
    if not rules.wanted.readings:  # readings show the text that the model has read
        label, mnemonic = strip_mnemonic(text, rules.reader.encode)
    if rules.wanted.is_text:
        label, escapes = read_escapes(label)
    if escapes.is_doubled and rules.dialect == QUOTING:
        rules = replace(rules, dialect=AUTO)  # else its apostrophes would quote
    protected = _protected(label, rules)
    if not rules.wanted.is_text and not _is_copied(label, protected):
        protected = None

    first = _LineAttempt(label, protected)
    further = partial(_further_attempts, label, rules)
    best = yield from best_try(label, code, rules, first, further)
    result = with_both_particles(text, code, escapes.restore(best.result), rules)
    if mnemonic:
        result = _with_mnemonic(result, text, mnemonic, rules.reader)
    return with_faults(text, result, rules, best.breaches, may_change=True)


def _further_attempts(line: str, rules: PathRules, first: Outcome) -> Iterator[Attempt]:
    """Yield the retries of a line, of which only the text is wanted."""
    if not rules.wanted.is_text:
        return
    if len(line) <= LONG:
        again = _protected(line, rules, KEPT_ON_RETRY)
        if again and not again.is_tagged:
            yield _LineAttempt(line, again)
        # Imported late, since most texts have no code.
        from regard.text.contracts import protect_code

        foreign = rules.reader.foreign_words
        options = (rules.dialect, rules.user_patterns, foreign)
        for apart in (False, True):
            yield _LineAttempt(line, protect_code(line, *options, apart=apart))
    elif not first.result.is_complete:
        yield _LineAttempt(line, _protected(line, replace(rules, copies="")))


def best_try(
    source: str,
    code: str,
    rules: PathRules,
    first: Attempt,
    further: Callable[[Outcome], Iterable[Attempt]],
) -> LineSteps[Outcome]:
    """Translate a text, and translate it again in further attempts as long as it has faults; return
    the outcome with the fewest. `code`: that of the target language, with a space.
    """
    translate = partial(_try, source, code, rules)
    best = yield from translate(first, is_retry=False)
    assert best is not None, "the first try has translations"
    previous = first
    attempts = iter(further(best))
    # An attempt is made ready only if it is needed.
    while any(best.faults) and (attempt := next(attempts, None)):
        if attempt != previous:  # else the result would be the same
            outcome = yield from translate(attempt, is_retry=True)
            if outcome is None:
                break
            best = min(best, outcome, key=lambda candidate: candidate.faults)
        previous = attempt
    return best


def _try(
    source: str, code: str, rules: PathRules, attempt: Attempt, is_retry: bool
) -> LineSteps[Outcome | None]:
    """Translate the parts of a line, in letters that the model knows, each after the code of the
    target language; return None if there is no time.
    """
    texts = [f"{code}{line}" for line in attempt.lines]
    cases = [rules.reader.read(text) for text in texts]
    translations: Sequence[Translation] = ()
    if texts:
        links = rules.links or attempt.needs_links
        decoded = yield LineRequest([case.line for case in cases], links, is_retry)
        if decoded is None:
            return None
        translations = decoded
    words = len(code.split())
    parts = [
        without_code(restored_case(translation, case, text), words)
        for translation, case, text in zip(translations, cases, texts, strict=True)
    ]
    result, target, faults = attempt.join(parts)
    return Outcome(result, [*_breaches(source, target, rules), *faults])


def with_both_particles(
    line: str, code: str, result: Translation, rules: PathRules
) -> Translation:
    """Write the particles after the placeholders of a translation into Korean in both forms.
    `code`: that of the target language, if the model needs one.
    """
    language = LANGUAGE_CODE.match(code)
    target = language[1] if language else rules.reader.languages[1]
    is_wanted = rules.both_particles and rules.wanted.is_text
    is_korean = target.partition("-")[0] == "ko"
    if not (is_wanted and is_korean and may_have_spans(line)):
        return result
    # Imported late, since most texts have no code.
    from regard.text.contracts import particles_written

    return particles_written(line, result, rules.dialect)


def _breaches(line: str, target: str, rules: PathRules) -> list[Fault]:
    """Return the faults by which a translation breaks the contract of its line."""
    _, line = split_language_code(line)
    own = rules.user_patterns
    if not (own or may_have_spans(line) or may_have_spans(target)):
        return []
    # Imported late, since most texts have no code.
    from regard.text.contracts import breaches

    return breaches(line, target, rules.dialect, own)


def marked(
    line: str, result: Translation, rules: PathRules, may_change: bool
) -> Translation:
    """Return the only translation of a line with its notes, marked if it breaks the contract of the
    line, and replaced by the line if it `may_change`.
    """
    faults = _breaches(line, result.text, rules)
    return with_faults(line, result, rules, faults, may_change)


def with_faults(
    line: str,
    result: Translation,
    rules: PathRules,
    faults: list[Fault],
    may_change: bool,
) -> Translation:
    """Return the translation of a line as `marked` does, given its faults."""
    if result.repetition:
        note = repetition_note(result.repetition)
        result = replace(result, notes=(*result.notes, note))
    if not faults:
        return result
    from regard.text.contracts import described, keep_source

    fault = described(faults)
    note = f"the translation does not keep what its line has: {fault}; mend it by hand"
    result = replace(result, broken=True, fault=fault, notes=(*result.notes, note))
    if not may_change or not rules.wanted.is_text:
        return result
    return keep_source(result, line, rules.dialect, faults)


def first_reading(
    line: str, rules: PathRules
) -> tuple[str, Callable[[Translation], Translation]]:
    """Return a line as the model first reads it, and the function that restores its translation.

    The line is read in known letters, with copy tokens in the place of spans. Streams use this.
    """
    if not rules.keep:
        return line, lambda translation: translation
    protected = _protected(line, rules)
    if protected is None or not _is_copied(line, protected):
        case = rules.reader.read(line)
        return case.line, lambda translation: restored_case(translation, case, line)
    (text,) = protected.lines
    case = rules.reader.read(text)

    def restored(translation: Translation) -> Translation:
        return _joined(protected, [restored_case(translation, case, text)])

    return case.line, restored


def _protected(
    line: str, rules: PathRules, kinds: Collection[str] = KEPT
) -> ProtectedLine | None:
    """Replace the spans of a line; return None if there are none."""
    return protect_line(
        line,
        copies=rules.copies,
        own=rules.user_patterns,
        kinds=kinds,
        foreign=rules.reader.foreign_words,
    )


def without_code(line: Translation, words: int) -> Translation:
    """Remove the words of the language code, which the text does not have, from alignments."""
    if not (words and line.alignments):
        return line
    links = tuple(
        (source - words, target)
        for source, target in line.alignments
        if source >= words
    )
    return replace(
        line,
        alignments=links,
        nbest=tuple(without_code(hypothesis, words) for hypothesis in line.nbest),
    )


def _is_copied(line: str, protected: ProtectedLine | None) -> bool:
    """Return whether copy tokens replace all spans of a line, so that its hypotheses and links can
    be restored.
    """
    if protected is None or protected.is_tagged or len(protected.lines) != 1:
        return False
    # Words of invisible characters alone would not be counted.
    return not INVISIBLE.search(line)


def _mapped(
    result: Translation,
    text: Callable[[str], str],
    tokens: Callable[[Sequence[str]], Iterable[str]],
    source: Callable[[Sequence[str]], Iterable[str]],
    links: Callable[[Translation], Links] = lambda hypothesis: hypothesis.alignments,
) -> Translation:
    """Return a translation with its texts and tokens mapped, also in its hypotheses and
    readings.
    """
    nbest = [
        _mapped(hypothesis, text, tokens, source, links) for hypothesis in result.nbest
    ]
    readings = result.readings
    if readings is not None:
        source_words = [
            mapped for word in readings.source_text for mapped in source([word])
        ]
        readings = replace(
            readings,
            source=tuple(source(readings.source)),
            target=(*tokens(readings.target[:-1]), *readings.target[-1:]),
            source_text=tuple(source_words),
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
    """Return a translation in the case of its line, which was read in known letters."""
    if case.line == line:
        return result
    sources = [case.restore_source(part.source) for part in result.parts]
    if len(result.parts) == 1:
        sources = [line.strip()]
    parts = tuple(
        part._replace(source=source, text=case.restore(part.text))
        for part, source in zip(result.parts, sources, strict=True)
    )
    result = replace(result, parts=parts)
    if not case.is_capital:
        return result
    return _mapped(
        result, case.restore, case.restore_tokens, case.restore_source_tokens
    )


def _joined(protected: ProtectedLine, parts: Sequence[Translation]) -> Translation:
    """Join the translations of the parts of a line, and restore its spans."""
    copies = protected.copied
    if not protected.is_tagged and len(parts) == 1:
        return _with_copies(parts[0], protected.lines[0], copies)

    text = protected.render(parts).strip()
    joined = joined_as(text, parts, protected.lines)
    nbest = [
        replace(hypothesis, text=protected.render(hypotheses_at(parts, rank)).strip())
        for rank, hypothesis in enumerate(joined.nbest)
    ]
    return replace(
        joined,
        tokens=tuple(map(copies.restore, joined.tokens)),
        parts=tuple(_restored_part(part, copies) for part in joined.parts),
        notes=tuple(map(copies.restore, joined.notes)),
        nbest=tuple(nbest),
    )


def joined_as(
    text: str, parts: Sequence[Translation], sources: Sequence[str]
) -> Translation:
    """Join the translations of the parts of a line to one with this text."""
    if not parts:
        return Translation(text, (), 0.0, parts=(TranslatedPart(text, text, 0.0),))
    joined = join_parts(parts, [f"{source} " for source in sources], False)
    inner = tuple(part for translation in parts for part in translation.parts)
    doubtful = any(part.doubtful for part in inner)
    return replace(joined, text=text, parts=inner, doubtful=doubtful)


def _restored_part(part: TranslatedPart, copies: Copies) -> TranslatedPart:
    return part._replace(
        source=copies.restore(part.source), text=copies.restore(part.text)
    )


def _with_copies(result: Translation, source: str, copies: Copies) -> Translation:
    """Return a translation with spans in the place of copy characters; links count the restored
    words.
    """
    source_words = copies.restored_words(source)

    def links(hypothesis: Translation) -> Links:
        if not hypothesis.alignments:
            return hypothesis.alignments
        target_words = copies.restored_words(hypothesis.text)
        restored_links = {
            link
            for source, target in hypothesis.alignments
            for link in product(source_words[source], target_words[target])
        }
        return tuple(sorted(restored_links))

    restore = partial(map, copies.restore)
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
    """Return the translation of a label with its mnemonic, which is also inserted into its only
    part.
    """
    case = reader.source
    parts = result.parts
    if len(parts) == 1:
        part_text = insert_mnemonic(parts[0].text, mnemonic, case)
        parts = (parts[0]._replace(source=line.strip(), text=part_text),)
    nbest = [
        replace(hypothesis, text=insert_mnemonic(hypothesis.text, mnemonic, case))
        for hypothesis in result.nbest
    ]
    text = insert_mnemonic(result.text, mnemonic, case)
    return replace(result, text=text, parts=parts, nbest=tuple(nbest))
