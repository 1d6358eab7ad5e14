"""Process the sentences of HTML and XML before and after a model decodes them, so that they keep
the contract of their code as plain lines do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from regard.contracts.dialects import PLAIN
from regard.contracts.faults import Fault
from regard.contracts.recognise import recognise
from regard.data.sentences import has_letters
from regard.data.spans import may_have_spans
from regard.text.contracts import AUTO, code_spans, lost_words, widened
from regard.text.escapes import read_escapes
from regard.text.markup.document import TAG, MarkedSpan, MarkupDocument
from regard.text.markup.elements import LINE_TAGS
from regard.text.markup.tagged_sentence import Mark, TaggedSentence
from regard.text.markup.tags import bare_elements, tag_name
from regard.text.protected_line import CodeSpan, hidden_spans
from regard.text.text_path import (
    ALL,
    LONG,
    Attempt,
    Joined,
    LinePath,
    Outcome,
    PathRules,
    best_try,
    joined_as,
    line_path,
    with_both_particles,
    with_faults,
)
from regard.text.translation import Translation


def dialect_of_sentences(document: MarkupDocument) -> str:
    """Return the dialect that all lines of a document together speak for."""
    return recognise(filter(may_have_spans, document.lines))


def sentence_paths(
    document: MarkupDocument,
    rules: PathRules,
    bounds: slice = ALL,
    code: str = "",
) -> list[LinePath]:
    """Return the paths of the sentences of a document within some bounds; `code`: that of the
    target language, if the model needs one.

    With `auto` the dialect is the one that all lines together speak for.
    """
    rules = replace(rules, links=True)
    if rules.dialect == AUTO:
        rules = replace(rules, dialect=dialect_of_sentences(document))
    code = f"{code} " if code else ""
    return [
        line_path(f"{code}{sentence.line}", rules)
        if sentence.is_plain
        else _sentence_path(document, sentence, rules, code)
        for sentence in document.sentences[bounds]
    ]


@dataclass(frozen=True)
class _SentenceAttempt:
    """A sentence whose tags, and some of whose code, are marks of a text of its own. Its lines are
    read without escapes. `kept`: texts of elements that are kept whole.
    """

    document: MarkupDocument
    kept: Sequence[str] = ()
    needs_links: bool = True

    @property
    def lines(self) -> Sequence[str]:
        return [read_escapes(line)[0] for line in self.document.lines]

    def join(self, parts: Sequence[Translation]) -> Joined:
        pairs = zip(self.document.lines, parts, strict=True)
        parts = [read_escapes(line)[1].restore(part) for line, part in pairs]
        markup = self.document.render(parts)
        text = self.document.read(markup)
        result = joined_as(text.replace(TAG, ""), parts, self.lines)
        result = replace(result, markup=markup)
        return Joined(result, text, [*self._faults(markup, text)])

    def _faults(self, markup: str, text: str) -> Iterator[Fault]:
        """Yield the elements that held text, and hold none in the translation, and a fault if only
        elements that are kept have words.
        """
        document = self.document
        source = document.source.text[document.start : document.end]
        kind = document.source.kind
        written = Counter(bare_elements(markup, kind))
        for tag in written - Counter(bare_elements(source, kind)):
            yield Fault("lost", tag, "is left without a text", "tag")
        if self.kept:
            line = document.read(source).replace(TAG, " ")
            yield from lost_words(line, text.replace(TAG, " "), PLAIN, self.kept)


def _sentence_path(
    document: MarkupDocument, sentence: TaggedSentence, rules: PathRules, code: str
) -> LinePath:
    """Translate a sentence with tags.

    Placeholders, addresses and the like are marks at first, all code in a second try. In a third,
    the texts between are translated by themselves.
    """
    line = sentence.line
    patterns = rules.user_patterns
    foreign_words = rules.reader.foreign_words
    whole = dict.fromkeys(
        (entry.start, entry.end)
        for entry in sentence.entries
        if isinstance(entry, Mark) or entry.whole >= 0
    )
    texts = (document.read(document.source.text[slice(*bounds)]) for bounds in whole)
    kept = [text.strip(TAG) for text in texts if has_letters(text)]

    def attempt(spans: Sequence[CodeSpan], apart: bool = False) -> Attempt:
        marked = [_marked(line, span) for span in spans]
        within = document.within(sentence, marked, apart)
        return _SentenceAttempt(within, kept, not apart)

    def further(first: Outcome) -> Iterator[Attempt]:
        if any(first.faults) and len(line) <= LONG:
            spans = code_spans(line, rules.dialect, patterns, foreign_words)
            yield attempt(spans)
            yield attempt([*widened(line, spans)], apart=True)

    source = document.read(document.source.text[sentence.start : sentence.end])
    first = attempt(hidden_spans(line, patterns, foreign_words))
    best = yield from best_try(source, code, rules, first, further)
    result = with_both_particles(line, code, best.result, rules)
    return with_faults(line, result, rules, best.breaches, may_change=True)


def _marked(line: str, code: CodeSpan) -> MarkedSpan:
    """Return the mark of a span of code; escaped tags are pairs by their names."""
    start, end, kind, pair, closes = code
    text = line[start:end]
    name = tag_name(text) if kind == "tag" else ""
    divides = kind == "message" or name in LINE_TAGS
    if pair is not None:
        return MarkedSpan(start, end, f"pair {pair}", closes, divides)
    if text.endswith("/>"):
        name = ""
    return MarkedSpan(start, end, name, text.startswith("</"), divides)
