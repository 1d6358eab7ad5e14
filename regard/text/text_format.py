"""Divide texts and pages into lines, and join the translations of the lines to texts and pages."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from regard.common.errors import LineError
from regard.data.sentences import split_text
from regard.text.markup.document import MarkupDocument, parse_markup
from regard.text.markup.elements import MarkupOptions
from regard.text.particles import Particles
from regard.text.text_path import (
    ALL,
    LinePath,
    Path,
    PathRules,
    joint_path,
    line_path,
    without_code,
)
from regard.text.translation import Translation, hypotheses_at


@dataclass(frozen=True)
class TextFormat:
    """The kind of a text, and how it is divided.

    `split`: with "0", a text is divided only at line breaks; with "nonewlines", line breaks do not
    divide it. `particles`: those of Korean after placeholders in both forms, or as the model writes
    them.
    """

    kind: Literal["text", "html", "xml"] = "text"
    split: Literal["0", "1", "nonewlines"] = "1"
    markup: MarkupOptions = field(default_factory=MarkupOptions)
    particles: Particles = "both"


PLAIN = TextFormat()


@dataclass(frozen=True)
class Layout:
    """A text divided into lines to translate. `put` replaces the lines by their translations;
    `document` is the text if it is markup.
    """

    lines: Sequence[str]
    put: Callable[[Sequence[Translation]], str]
    document: MarkupDocument | None = None

    def paths(
        self, rules: PathRules, bounds: slice = ALL, code: str = ""
    ) -> list[LinePath]:
        """Return the paths of the lines within some bounds; `code`: that of the target language, if
        the model needs one. Sentences of markup end as they end in the source.
        """
        lines = [f"{code} {line}" if code else line for line in self.lines[bounds]]
        if self.document is None:
            return [line_path(line, rules) for line in lines]
        rules = replace(rules, closes=True)
        if not rules.may_retry:
            return [line_path(line, rules) for line in lines]
        # Imported late, since plain texts need no markup.
        from regard.text.sentence_path import sentence_paths

        return sentence_paths(self.document, rules, bounds, code)


def lay_out(
    text: str, form: TextFormat, sentences: bool = False, mark_spans: bool = True
) -> Layout:
    """Divide a text into the lines to translate; they are sentences if asked for, or if it is
    markup, whose code is not in the lines if `mark_spans`.
    """
    sentences = sentences and form.split != "0"
    if form.kind == "text":
        newlines = form.split != "nonewlines"
        return plain_layout(text, sentences, newlines)
    options = replace(form.markup, sentences=form.split != "0", mark_spans=mark_spans)
    return markup_layout(parse_markup(text, form.kind, options))


def plain_layout(text: str, sentences: bool = False, newlines: bool = True) -> Layout:
    """Divide a plain text into its lines or sentences."""
    plain = split_text(text, sentences=sentences, newlines=newlines)
    return Layout(plain.lines, lambda lines: plain.join([line.text for line in lines]))


def markup_layout(markup: MarkupDocument) -> Layout:
    """Return the sentences of a marked-up text as lines."""
    return Layout(markup.lines, markup.render, markup)


@dataclass(frozen=True)
class TranslatedText:
    """A translated text. `sources` and `lines` are its lines and their translations.

    `alternatives` are the texts of further hypotheses, on request, without duplicates.
    """

    text: str
    alternatives: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    lines: tuple[Translation, ...] = ()

    @property
    def quality(self) -> float | None:
        """Probability that the translation is good, that of its worst line; None if unknown."""
        known = [line.quality for line in self.lines if line.quality is not None]
        return min(known, default=None)

    @property
    def broken(self) -> bool:
        """True if a line is broken."""
        return any(line.broken for line in self.lines)


def texts_path(
    texts: Sequence[str],
    form: TextFormat,
    rules: PathRules,
    sentences: bool = False,
    code: str = "",
) -> Path[list[TranslatedText]]:
    """Translate entire texts.

    `sentences`: each sentence is a line. `code`: the code of the target language, if the model
    needs one. Markup is joined by word links, so `rules` must ask for alignments if the model has
    attention, unless lines may be translated again. Raises LineError, with the numbers of texts,
    for lines that the model refuses.
    """
    mark_spans = not rules.may_retry
    layouts = [lay_out(text, form, sentences, mark_spans) for text in texts]
    owners = [
        (number, line)
        for number, layout in enumerate(layouts)
        for line in range(len(layout.lines))
    ]
    paths = [path for layout in layouts for path in layout.paths(rules, code=code)]
    try:
        translated = yield from joint_path(paths)
    except LineError as problem:
        causes = list[tuple[int, str]]()
        for index, cause in problem.problems:
            text_number, line_number = owners[index]
            causes.append((text_number, f"line {line_number + 1} {cause}"))
        raise LineError(*causes) from None

    translations = iter(translated)
    # Paths that translate again take the code away by themselves.
    code_words = 0 if rules.may_retry else len(code.split())
    results = list[TranslatedText]()
    for layout in layouts:
        lines = tuple(
            without_code(line, code_words)
            for line in islice(translations, len(layout.lines))
        )
        results.append(joined_text(layout, lines, rules.wanted.nbest))
    return results


def stream_text(
    layout: Layout,
    code: str,
    stream: Callable[[str], Generator[str, None, Translation]],
) -> Generator[tuple[int, str], None, TranslatedText]:
    """Yield the translation of a text as it grows, each time with the number of the line.

    `stream` translates one line in the same way.
    """
    translations = list[Translation]()
    for number, line in enumerate(layout.lines):
        increments = stream(f"{code} {line}" if code else line)
        while True:
            try:
                yield number, next(increments)
            except LineError as problem:
                raise LineError(
                    *((0, f"line {number + 1} {why}") for _, why in problem.problems)
                ) from None
            except StopIteration as stop:
                translations.append(stop.value)
                break
    return joined_text(layout, tuple(translations), 1)


def joined_text(
    layout: Layout, lines: tuple[Translation, ...], nbest: int = 1
) -> TranslatedText:
    """Join the translations of the lines of a text, and those of their hypotheses."""
    text = layout.put(lines)
    alternatives = list[str]()
    for rank in range(1, nbest):
        alternative = layout.put(hypotheses_at(lines, rank))
        if alternative != text and alternative not in alternatives:
            alternatives.append(alternative)
    return TranslatedText(text, tuple(alternatives), tuple(layout.lines), lines)
