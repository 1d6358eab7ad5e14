"""Texts and markup, taken apart into lines, translated, and put together again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from time import monotonic
from typing import Any, Literal, TypeVar

from regard.common.errors import LineError, RegardError
from regard.data.copy_tokens import Copies
from regard.data.sentences import split_text
from regard.data.spans import KEPT, KEPT_ON_RETRY, differing_spans
from regard.documents.elements import MarkupOptions
from regard.documents.markup import AlignedLine, parse_markup
from regard.documents.protected_line import protect_text
from regard.serving.http_errors import bad_request
from regard.serving.pairs import Choice, LanguagePairs
from regard.serving.process_service import ProcessService
from regard.serving.service import SearchRequest, ServedHypothesis, ServedLine

R = TypeVar("R")
LONG = 10_000
"""Characters or bytes from which on work on a text is done in a thread."""
LONG_RETRY = 2_000
"""Characters from which on a text is not translated again for the numbers that it has lost."""


@dataclass(frozen=True)
class TextFormat:
    """The kind of texts, and how they are divided. `split`: "0" at line breaks alone, "nonewlines" not at them.

    `keeps_spans`: what is not language, such as placeholders, is taken out of the lines of plain text and put back;
    `own`: and what these compiled patterns match.
    """

    kind: Literal["text", "html", "xml"] = "text"
    split: Literal["0", "1", "nonewlines"] = "1"
    markup: MarkupOptions = field(default_factory=MarkupOptions)
    keeps_spans: bool = True
    own: Any = None


PLAIN = TextFormat()


@dataclass(frozen=True)
class Layout:
    """A text that was taken apart: the lines that are to be translated, and what puts translations in their place."""

    lines: Sequence[str]
    put: Callable[[Sequence[ServedHypothesis]], str]
    by_alignments: bool = False  # what stands in the lines is put back by them
    copied: Sequence[Copies] = ()  # of each line the spans that copy characters stand for


def lay_out(
    text: str, layout: TextFormat, sentences: bool = True, copies: str = "", kinds: Collection[str] = KEPT
) -> Layout:
    """Take a text apart into the lines that are to be translated; without `sentences`, whatever the format says.

    What is not language, such as placeholders, is taken out of plain text: spans of these kinds. `copies`: characters
    of the model's copy tokens, which stand for it.
    """
    sentences, newlines = sentences and layout.split != "0", layout.split != "nonewlines"
    if layout.kind != "text":
        markup = parse_markup(text, layout.kind, replace(layout.markup, sentences=sentences))
        return Layout(markup.lines, lambda hypotheses: markup.render(_aligned(hypotheses)), True)
    protected = protect_text(text, sentences, newlines, copies, layout.own, kinds) if layout.keeps_spans else None
    if protected is None:
        plain = split_text(text, sentences=sentences, newlines=newlines)
        return Layout(plain.lines, lambda hypotheses: plain.join([h.text for h in hypotheses]))
    rest = protected.needs_links, protected.copied
    return Layout(protected.lines, lambda hypotheses: protected.render(_aligned(hypotheses)), *rest)


def _aligned(hypotheses: Sequence[ServedHypothesis]) -> list[AlignedLine]:
    return [AlignedLine(h.text, h.alignments) for h in hypotheses]


def choose(
    service: ProcessService, pairs: LanguagePairs, text: str, languages: tuple[str, str], layout: TextFormat = PLAIN
) -> tuple[Choice, Layout]:
    """Choose a model for a text by its languages, and take the text apart as this model translates it."""
    taken_apart = lay_out(text, layout)
    choice = pairs.choose(service, " ".join(taken_apart.lines)[:10_000], *languages)
    model = choice.model
    if model is None or (model.splits_sentences and not (model.copies and taken_apart.copied)):
        return choice, taken_apart
    return choice, lay_out(text, layout, model.splits_sentences, model.copies)


@dataclass(frozen=True)
class TranslatedText:
    """A translated text. `sources` and `lines`: its lines and their translations; none if it was left as it is."""

    text: str
    choice: Choice
    alternatives: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    lines: tuple[ServedLine, ...] = ()


@dataclass(frozen=True)
class _Part:
    """A text before translation."""

    text: str
    layout: Layout
    choice: Choice


async def translate_texts(
    service: ProcessService,
    texts: Sequence[str],
    pairs: LanguagePairs,
    languages: tuple[str, str],
    layout: TextFormat,
    search: SearchRequest,
    deadline: float,
) -> list[TranslatedText]:
    """Translate texts, each as it would be alone; those of different models run at the same time.

    `languages`: codes of source ("auto": detected for each text) and target. Raises HttpError for unknown languages and
    lines that a model refuses, and the service's own errors.
    """
    start, parts = monotonic(), dict[int, _Part]()
    for number, text in enumerate(texts):
        choice, taken_apart = await aside(len(text), choose, service, pairs, text, languages, layout)
        parts[number] = _Part(text, taken_apart, choice)
    if layout.split == "0":
        search = replace(search, split=False)
    lines = await _translate_parts(service, parts, search, deadline)
    if layout.kind == "text" and layout.keeps_spans:
        await _retry(service, parts, lines, layout, search, start + deadline)
    return [
        await aside(len(part.text), _put_together, part, lines.get(number, []), search.nbest)
        for number, part in parts.items()
    ]


async def _retry(
    service: ProcessService,
    parts: dict[int, _Part],
    lines: dict[int, list[ServedLine]],
    layout: TextFormat,
    search: SearchRequest,
    end: float,
) -> None:
    """Translate texts again whose translations have lost any span; put what differs less in the place of the first.

    First copy tokens stand for spans, then word links put them back. `end`: the time until which there is an answer.
    """
    for is_copied in (True, False):
        chosen = dict[int, _Part]()
        for number, rows in lines.items():
            size = len(parts[number].text)
            part = await aside(size, _laid_out_again, parts[number], rows, layout, is_copied)
            chosen |= {} if part is None else {number: part}
        if not chosen or (left := end - monotonic()) <= 0:
            continue
        retried = await gather(*(_translate_part(service, part, search, left) for part in chosen.values()))
        for (number, part), new_rows in zip(chosen.items(), retried, strict=True):
            if new_rows is None:
                continue
            before = parts[number]
            size = len(part.text)
            if await aside(size, _faults, part, new_rows) < await aside(size, _faults, before, lines[number]):
                parts[number], lines[number] = part, new_rows


async def _translate_part(
    service: ProcessService, part: _Part, search: SearchRequest, deadline: float
) -> list[ServedLine] | None:
    """Translate the lines of one text, none if nothing stands around its spans; return None if that fails.

    Each text has a call of its own: one that cannot be translated again leaves the others alone.
    """
    try:
        translated = await _translate_parts(service, {0: part}, search, deadline)
    except RegardError:  # what is translated already is better than nothing
        return None
    return translated.get(0, [])


def _laid_out_again(part: _Part, rows: Sequence[ServedLine], layout: TextFormat, is_copied: bool) -> _Part | None:
    """Return a text without its numbers, keys and symbols, too, if its translation has lost any span; else None.

    Of a text of more than `LONG_RETRY` characters, only copy tokens that the model has left out count.
    """
    model, kinds = part.choice.model, KEPT_ON_RETRY
    if len(part.text) > LONG_RETRY:
        if is_copied or all(row.hypotheses[0].is_complete for row in rows):
            return None
        kinds = KEPT
    if model is None or not _faults(part, rows):
        return None
    sentences, copies = (model.splits_sentences, model.copies) if is_copied else (True, "")
    taken_apart = lay_out(part.text, layout, sentences, copies, kinds)
    return None if list(taken_apart.lines) == list(part.layout.lines) else replace(part, layout=taken_apart)


def _faults(part: _Part, rows: Sequence[ServedLine]) -> int:
    """Return in how many spans the lines of a text differ from their translations.

    Lines of which the model has left copy tokens out until nothing else was to be said count, too.
    """
    best = [row.hypotheses[0] for row in rows]
    differing = (differing_spans(line, h.text) for line, h in zip(part.layout.lines, best, strict=True))
    return sum(2 * (len(lost) + len(invented)) for lost, invented in differing) + sum(not h.is_complete for h in best)


async def aside(characters: int, work: Callable[..., R], *arguments: Any) -> R:
    """Do something in a thread if the text is long, so that other requests go on; at once if it is not."""
    if characters > LONG:
        return await asyncio.to_thread(work, *arguments)
    await asyncio.sleep(0)  # many short texts take a while, too
    return work(*arguments)


async def _translate_parts(
    service: ProcessService, parts: Mapping[int, _Part], search: SearchRequest, deadline: float
) -> dict[int, list[ServedLine]]:
    """Translate the lines of texts; return them by the number of their text."""
    groups: dict[str, list[int]] = {}
    for number, part in parts.items():
        if (model := part.choice.model) is not None and part.layout.lines:
            groups.setdefault(model.name, []).append(number)
    end = monotonic() + deadline
    calls = [_translate_by_model(service, name, parts, group, search, end) for name, group in groups.items()]
    return {number: lines for group in await gather(*calls) for number, lines in group.items()}


async def _translate_by_model(
    service: ProcessService,
    model: str,
    parts: Mapping[int, _Part],
    group: Sequence[int],
    search: SearchRequest,
    end: float,
) -> dict[int, list[ServedLine]]:
    """Translate the lines of those texts that go to one model; return them by the number of their text.

    Texts that need word links are translated in a call of their own, since a model may translate a line otherwise with
    links than without. It comes second: two calls at once could count as too much where one has room.
    """
    lines: dict[int, list[ServedLine]] = {}
    for with_links in (False, True):
        texts = [number for number in group if (search.alignments or parts[number].layout.by_alignments) == with_links]
        if texts:
            linked = replace(search, alignments=with_links)
            lines |= await _translate_group(service, model, parts, texts, linked, end - monotonic())
    return lines


async def _translate_group(
    service: ProcessService,
    model: str,
    parts: Mapping[int, _Part],
    group: Sequence[int],
    search: SearchRequest,
    deadline: float,
) -> dict[int, list[ServedLine]]:
    """Translate the lines of texts in one call; return them by the number of their text."""
    owners = [(number, line) for number in group for line in range(len(parts[number].layout.lines))]
    sent = [with_prefix(parts[number].choice, parts[number].layout.lines[line]) for number, line in owners]
    try:
        translated = await service.translate(model, sent, search, deadline)
    except LineError as problem:
        places = [(*owners[index], sentence) for index, sentence in problem.problems[:20]]
        raise bad_request(*(f"text {text + 1}, sentence {line + 1} {why}" for text, line, why in places)) from None
    lines: dict[int, list[ServedLine]] = {number: [] for number in group}
    for (number, _), line in zip(owners, translated, strict=True):
        words = len(parts[number].choice.prefix.split())
        lines[number].append(_without_prefix(line, words) if words else line)
    return lines


def with_prefix(choice: Choice, line: str) -> str:
    """Return a line with the code of its target language, if the model wants one."""
    return f"{choice.prefix} {line}" if choice.prefix else line


def _without_prefix(line: ServedLine, words: int) -> ServedLine:
    """Count the source words of alignments without the first ones, which the text does not have."""
    hypotheses = []
    for hypothesis in line.hypotheses:
        links = hypothesis.alignments and tuple((s - words, t) for s, t in hypothesis.alignments if s >= words)
        hypotheses.append(replace(hypothesis, alignments=links))
    return replace(line, hypotheses=tuple(hypotheses))


def _put_together(part: _Part, lines: Sequence[ServedLine], nbest: int) -> TranslatedText:
    layout = part.layout
    if part.choice.model is None:  # its languages are the same
        return TranslatedText(part.text, part.choice)
    rank = [[line.hypotheses[min(number, len(line.hypotheses) - 1)] for line in lines] for number in range(nbest)]
    texts = list(dict.fromkeys(layout.put(hypotheses) for hypotheses in rank))
    sources = layout.lines
    if any(copies.spans for copies in layout.copied):
        sources = [copies.restore(text) for text, copies in zip(sources, layout.copied, strict=True)]
        owners = zip(lines, layout.lines, layout.copied, strict=True)
        lines = [_restored(line, source, copies) for line, source, copies in owners]
    return TranslatedText(texts[0], part.choice, tuple(texts[1:]), tuple(sources), tuple(lines))


def _restored(line: ServedLine, source: str, copies: Copies) -> ServedLine:
    """Return a line with spans in the place of copy characters; its links count the words that are there then."""
    restore, ranked = copies.restore, list[ServedHypothesis]()
    source_words = copies.restored_words(source)
    for hypothesis in line.hypotheses:
        text, tokens, links = hypothesis.text, [*map(restore, hypothesis.tokens)], hypothesis.alignments
        if links:
            words = copies.restored_words(text)
            links = tuple(sorted({pair for s, t in links for pair in product(source_words[s], words[t])}))
        ranked.append(replace(hypothesis, text=restore(text), tokens=tokens, alignments=links))
    tokens, warnings = ([*map(restore, texts)] for texts in (line.source_tokens, line.warnings))
    return replace(line, hypotheses=ranked, source_tokens=tokens, warnings=warnings)


async def gather(*calls: Awaitable[R]) -> list[R]:
    """Await several calls at once; if one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
