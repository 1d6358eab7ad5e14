"""Whole texts and pages: taken apart into lines, translated, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from regard.common.errors import LineError
from regard.data.sentences import split_text
from regard.text.aligned_line import AlignedLine
from regard.text.markup.document import parse_markup
from regard.text.markup.elements import MarkupOptions
from regard.text.text_path import Path, PathRules, lines_path
from regard.text.translation import Translation


@dataclass(frozen=True)
class TextFormat:
    """The kind of texts, and how they are divided. `split`: "0" at line breaks alone, "nonewlines"
    not at them.
    """

    kind: Literal["text", "html", "xml"] = "text"
    split: Literal["0", "1", "nonewlines"] = "1"
    markup: MarkupOptions = field(default_factory=MarkupOptions)


PLAIN = TextFormat()


@dataclass(frozen=True)
class Layout:
    """A text that was taken apart: the lines that are to be translated, and what puts translations
    in their place.
    """

    lines: Sequence[str]
    put: Callable[[Sequence[Translation]], str]


def lay_out(text: str, form: TextFormat, sentences: bool = False) -> Layout:
    """Take a text apart into the lines that are to be translated; with `sentences`, and of markup,
    into sentences.
    """
    sentences = sentences and form.split != "0"
    if form.kind != "text":
        markup = parse_markup(
            text, form.kind, replace(form.markup, sentences=form.split != "0")
        )
        return Layout(
            markup.lines,
            lambda lines: markup.render(
                [AlignedLine(t.text, t.alignments) for t in lines]
            ),
        )
    plain = split_text(text, sentences=sentences, newlines=form.split != "nonewlines")
    return Layout(plain.lines, lambda lines: plain.join([line.text for line in lines]))


@dataclass(frozen=True)
class TranslatedText:
    """A translated text. `sources` and `lines`: its lines and their translations.

    `alternatives`: the texts of further hypotheses, if several were wanted, without those that are
    equal.
    """

    text: str
    alternatives: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    lines: tuple[Translation, ...] = ()


def texts_path(
    texts: Sequence[str],
    form: TextFormat,
    rules: PathRules,
    sentences: bool = False,
    code: str = "",
) -> Path[list[TranslatedText]]:
    """Translate whole texts. `sentences`: each sentence is a line. `code`: of the target, if a
    model wants one.

    Markup is put together by word links, so `rules` have to want alignments, where the model has
    any. Raises LineError, by the numbers of texts, for lines that the model refuses.
    """
    layouts = [lay_out(text, form, sentences) for text in texts]
    owners = [
        (number, line)
        for number, layout in enumerate(layouts)
        for line in range(len(layout.lines))
    ]
    sent = [
        f"{code} {line}" if code else line
        for layout in layouts
        for line in layout.lines
    ]
    try:
        translated = yield from lines_path(sent, rules, [True] * len(sent))
    except LineError as problem:
        places = [(*owners[index], why) for index, why in problem.problems]
        raise LineError(
            *((text, f"line {line + 1} {why}") for text, line, why in places)
        ) from None
    rest = iter(_without_code(line, len(code.split())) for line in translated)
    lines = [tuple(islice(rest, len(layout.lines))) for layout in layouts]
    return [
        _put_together(*item, rules.wanted.nbest)
        for item in zip(layouts, lines, strict=True)
    ]


def stream_text(
    layout: Layout,
    code: str,
    stream: Callable[[str], Generator[str, None, Translation]],
) -> Generator[tuple[int, str], None, TranslatedText]:
    """Yield what the translation of a text grows by, with the number of the line; `stream`
    translates a line so.
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
    return _put_together(layout, tuple(translations), 1)


def _put_together(
    layout: Layout, lines: tuple[Translation, ...], nbest: int
) -> TranslatedText:
    ranked = [[line.nbest or (line,) for line in lines]] if nbest > 1 else []
    others = [
        layout.put(
            [
                hypotheses[min(rank, len(hypotheses) - 1)]
                for hypotheses in line_hypotheses
            ]
        )
        for line_hypotheses in ranked
        for rank in range(1, nbest)
    ]
    text = layout.put(lines)
    alternatives = [other for other in dict.fromkeys(others) if other != text]
    return TranslatedText(text, tuple(alternatives), tuple(layout.lines), lines)


def _without_code(line: Translation, words: int) -> Translation:
    """Count the source words of alignments without the first ones, which the text does not have."""
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
        nbest=tuple(_without_code(hypothesis, words) for hypothesis in line.nbest),
    )
