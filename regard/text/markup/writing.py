"""Write a translated sentence with its marks: white space between words, entities, and escapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.data.sentences import has_spaces, parts_letter, replaces_letter
from regard.text.markup.elements import BLOCKS
from regard.text.markup.projection import Entry, TargetUnit
from regard.text.markup.tagged_sentence import TaggedSentence
from regard.text.markup.tags import Bounds, Kind, tag_name

_BEFORE = lazy_pattern(r"[(\[{\"“„‚‘«‹¿¡]")
_BEHIND = lazy_pattern(r"[\s.,;:!?…)\]}\"”’“»›]")
"""Punctuation, and white space, that separates an element from the words before and after it."""
_OPENS = lazy_pattern(r"(?<!\S)['*/_-]")
_CLOSES = lazy_pattern(r"['*/_-](?!\S)")
"""Marks that are the same on both sides of the text that they enclose; they open or close it at the
edge of a word.
"""
_STOPS = frozenset(".,")
"""Marks that no space parts from an element that is kept whole, if none did in the source."""
_ENTITIES = {
    "\u00a0": ("&nbsp;", "&#160;", "&#xa0;", "&#xA0;"),
    '"': ("&quot;", "&#34;", "&#x22;"),
    "'": ("&apos;", "&#39;", "&#x27;"),
}
"""Characters that need no entity, and the entities that some texts write for them."""
_TAG = lazy_pattern(r"</?\w[^<>]*>")
_KEPT = lazy_pattern(r'<kept-(?:span|part) id="(\d+)"/>')
_NO_WORD = lazy_pattern(r"\s*(?:<[^<>]*>\s*\Z|[&\\}])|\W*\Z|.*\{\s*\Z")
"""Code that is no word: tags, entities, escapes, signs, and the syntax of messages."""
_NOT_XML = lazy_pattern("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def word_of(code: str) -> str:
    """Return code if readers see a word of it, else an empty text."""
    return "" if _NO_WORD.match(code) else code


@dataclass(frozen=True)
class Source:
    """A marked-up text. `spans`: the code that its tags `kept-span` and `kept-part` stand for."""

    text: str
    kind: Kind
    spans: Sequence[str] = ()

    @cached_property
    def _entities(self) -> dict[str, str]:
        """The entities that the text uses for characters that need none."""
        entities = dict[str, str]()
        for character, names in _ENTITIES.items():
            used = [
                name
                for name in names
                if name in self.text and (self.kind, name) != ("xml", "&nbsp;")
            ]
            if used:
                entities[character] = used[0]
        return entities

    def shown(self, start: int, end: int) -> str:
        """Return the code between two offsets if readers see a word of it, else an empty text."""
        return word_of(self._code(start, end))

    def _code(self, start: int, end: int) -> str:
        """Return what stands between two offsets, or the code that it stands for."""
        raw = self.text[start:end]
        kept = _KEPT.fullmatch(raw) if self.spans else None
        return self.spans[int(kept[1])] if kept else raw

    def _is_inner(self, start: int, end: int) -> bool:
        """Return whether a tag in a sentence stands between two offsets."""
        text = self._code(start, end)
        return bool(_TAG.fullmatch(text)) and tag_name(text) not in BLOCKS

    def edge_before(self, offset: int, limit: int) -> str:
        """Return the last character of the code that ends at an offset, but for the tags of
        elements behind it; empty if there is none from a limit on.
        """
        while offset > limit and self.text[offset - 1] == ">":
            start = max(0, self.text.rfind("<", 0, offset))
            if not self._is_inner(start, offset):
                return self.shown(start, offset)[-1:]
            offset = start
        return self.text[offset - 1] if offset > limit else ""

    def edge_behind(self, offset: int, limit: int) -> str:
        """Return the first character of the code that begins at an offset, but for the tags of
        elements before it; empty if there is none before a limit, or if it is punctuation.
        """
        while offset < limit and self.text[offset] == "<":
            end = self.text.find(">", offset, limit) + 1
            if not end or not self._is_inner(offset, end):
                return self.shown(offset, end)[:1]
            offset = end
        edge = self.text[offset:limit][:1]
        return "" if _BEHIND.match(edge) else edge

    def escape(self, text: str) -> str:
        """Escape & < > and the characters that the source writes as entities.

        In XML, characters that it forbids are replaced.
        """
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for character, entity in self._entities.items():
            text = text.replace(character, entity)
        return _NOT_XML.sub("\ufffd", text) if self.kind == "xml" else text


def write_sentence(
    source: Source,
    sentence: TaggedSentence,
    units: Sequence[TargetUnit],
    entries: Sequence[Entry],
) -> str:
    """Return the translation of a sentence in markup.

    Between two units that are neighbours in the source too, with the same marks, the source text is
    copied. Words that came back unchanged are copied, too.
    """
    writer = _Writer(source, sentence)
    for entry in entries:
        if entry.kind == "mark":
            writer.marks.append(entry.number)
        elif entry.kind == "unit":
            unit = units[entry.number]
            copied = sentence.units[unit.first]
            text = source.text[copied.start : copied.end]
            # A copied < could begin a tag if a > followed in the translation.
            is_safe = unit.is_copy and "<" not in text
            written = text if is_safe else source.escape(unit.text)
            word = unit.word
            if (
                not unit.is_word
                and entry.number
                and units[entry.number - 1].word == word
            ):
                # Punctuation after its word stays attached to the text written last.
                word = writer.last_word
            writer.add(written, (unit.first, unit.last), (word, unit.word))
            following = units[entry.number + 1 : entry.number + 2]
            writer.is_opened = (
                not unit.is_word and bool(following) and following[0].word == unit.word
            )
        else:
            node = sentence.nodes[entry.number]
            raw = sentence.units[node.start]
            words = (unit.text for unit in sentence.units[node.start : node.end])
            writer.add(
                source.text[raw.start : raw.end],
                (node.start, node.end - 1),
                entry.words,
                _Word(word_of("".join(words)), raw.start, raw.end),
            )
    return writer.finish()


class _Word(NamedTuple):
    """Text that readers see. `start` and `end`: its bounds in the source if it is kept from there,
    else -1.
    """

    text: str
    start: int = -1
    end: int = -1


class _Writer:
    """Writer of one sentence. `marks` are written before the next text.

    `last_word` is the target word of the text written last. `is_opened` means that this text is
    punctuation before a word, to which the next text is attached.
    """

    def __init__(self, source: Source, sentence: TaggedSentence) -> None:
        self._source = source
        self._sentence = sentence
        self._parts = list[str]()
        self._last_unit = -1
        self._last_shown = _Word("")
        self.last_word = -1
        self.is_opened = False
        self.marks = list[int]()

    def add(
        self,
        text: str,
        units: Bounds,
        words: Bounds,
        kept: _Word | None = None,
    ) -> None:
        """Write the waiting marks and then a text.

        `units` are its first and last source unit, `words` its first and last target word. `kept`:
        what readers see of an element that is kept whole.
        """
        all_units = self._sentence.units
        if (
            words[1] < words[0]
            and units[0] > 0
            and all_units[units[0] - 1].end == all_units[units[0]].start
        ):
            # An element kept whole that was attached to a word is attached to one again.
            words = (self.last_word, self.last_word)
        is_spaced = True
        if not self._parts:
            start = self._sentence.start
            end = all_units[0].start
            gap = self._gap(0, start, end)
            if not gap:
                gap = self._white_space(0, start, end)
                gap += self._arrange(False, True, False)
        else:
            is_spaced = self.last_word != words[0] and not self.is_opened
            is_spaced &= not (text in _STOPS and self._is_before_mark())
            gap = ""
            if units[0] > 0 and self._last_unit + 1 == units[0]:
                before = all_units[units[0] - 1]
                after = all_units[units[0]]
                if is_spaced == (before.word != after.word):
                    gap = self._gap(units[0], before.end, after.start)
            if not gap:
                has_right = is_spaced or not _BEHIND.match(text)
                gap = self._arrange(True, has_right, is_spaced)
        shown = kept or _Word(text)
        self._parts += [self._spaced(gap, shown, is_spaced), text]
        self._last_shown = shown
        self._last_unit = units[1]
        self.last_word = words[1]
        self.is_opened = False
        self.marks = []

    def _is_before_mark(self) -> bool:
        """Return whether an element kept whole was written last, and a mark is its neighbour."""
        units = self._sentence.units
        number = self._last_unit
        if number < 0 or not self._sentence.nodes[units[number].node].is_whole:
            return False
        following = units[number + 1 : number + 2]
        return bool(following) and following[0].word == units[number].word

    def finish(self) -> str:
        """Write the remaining marks, and return the sentence."""
        units = self._sentence.units
        start = units[-1].end
        end = self._sentence.end
        head = ""
        tail = ""
        if self._parts:
            tail = self._gap(len(units), start, end)
        else:
            head = self._white_space(0, self._sentence.start, units[0].start)
        if not tail:
            tail = self._arrange(bool(self._parts), False, False)
            tail += self._white_space(len(units), start, end)
        tail = self._spaced(tail, _Word(""), True)
        return "".join([head, *self._parts, tail])

    def _spaced(self, gap: str, following: _Word, is_spaced: bool) -> str:
        """Return a gap, written before a text, with a space between code and each letter that it
        would be glued to; `is_spaced`: the gap is not in a word.
        """
        parts = list[str]()
        end = 0
        before = self._last_shown
        opened = -1  # a space stands before the tags that open elements around a word
        for number in [*self.marks, -1]:
            mark = self._sentence.marks[number] if number >= 0 else None
            raw = self._source.text[mark.start : mark.end] if mark else ""
            start = gap.index(raw, end) if mark else len(gap)
            if start > end:
                parts.append(gap[end:start])
                before = _Word("")
                opened = -1
            end = start + len(raw)
            word = following
            if mark:
                shown = self._source.shown(mark.start, mark.end)
                word = _Word(shown, mark.start, mark.end)
            if mark and mark.role == "open" and opened < 0:
                opened = len(parts)
            if word.text:
                if self._is_glued(before, word, is_spaced):
                    parts.insert(opened if opened >= 0 else len(parts), " ")
                before = word
                opened = -1
            parts.append(raw)
        return "".join(parts)

    def _is_glued(self, left: _Word, right: _Word, is_spaced: bool) -> bool:
        """Return whether two words of which one is kept are neighbours, unlike in the source."""
        if left.end < 0 > right.start:
            return False
        behind = _follow(self._tag_ends, left.end)
        if left.end >= 0 and behind == right.start:
            return False
        text = self._source.text
        parts = parts_letter if is_spaced else replaces_letter
        edges = (left.text[-1:], right.text[:1])
        if left.end >= 0 <= right.start and text[behind : behind + 1].isalnum():
            return has_spaces(*edges)
        original = text[behind : behind + 1]
        if left.end >= 0 and parts(*edges, original, True):
            return True
        before = _follow(self._tag_starts, right.start)
        original = text[max(0, before - 1) : before]
        return right.start >= 0 and parts(*edges[::-1], original, False)

    @cached_property
    def _tag_ends(self) -> dict[int, int]:
        """The end of each mark that shows nothing, by its start."""
        marks = self._sentence.marks
        bounds = ((mark.start, mark.end) for mark in marks)
        return {
            start: end for start, end in bounds if not self._source.shown(start, end)
        }

    @cached_property
    def _tag_starts(self) -> dict[int, int]:
        """The start of each mark that shows nothing, by its end."""
        return {end: start for start, end in self._tag_ends.items()}

    def _gap(self, index: int, start: int, end: int) -> str:
        """Return the text of a gap of the source if its marks are the waiting ones, else an empty
        text.
        """
        own = self._sentence.gaps.get(index, [])
        if sorted(self.marks) != own:
            return ""
        self.marks = [*own]
        return self._source.text[start:end]

    def _white_space(self, index: int, start: int, end: int) -> str:
        """Return a gap of the source without its marks."""
        parts = list[str]()
        for number in self._sentence.gaps.get(index, []):
            mark = self._sentence.marks[number]
            parts.append(self._source.text[start : mark.start])
            start = mark.end
        return "".join([*parts, self._source.text[start:end]])

    def _arrange(self, has_left: bool, has_right: bool, is_spaced: bool) -> str:
        """Return the waiting marks with spaces: between words, and where the marks had some in the
        source.
        """
        parts = list[str]()
        text = self._source.text
        may_begin = has_left and (is_spaced or not has_right)
        may_end = has_right and (is_spaced or not has_left)
        is_after_space = False
        for number in self.marks:
            mark = self._sentence.marks[number]
            is_point = mark.role not in ("open", "close")
            edge = text[mark.start - 1 : mark.start]
            is_enclosed = bool(edge) and (
                _BEFORE.match(edge) or _OPENS.match(text, mark.start - 1)
            )
            follows_space = (
                is_point
                and may_begin
                and (edge.isspace() or (is_spaced and is_enclosed))
            )
            is_first_opened = mark.role == "open" and is_spaced and " " not in parts
            if (follows_space and not is_after_space) or is_first_opened:
                parts.append(" ")
                is_after_space = True
            parts.append(text[mark.start : mark.end])
            is_after_space &= mark.role == "open"
            if (
                is_point
                and may_end
                and (_BEHIND.match(text, mark.end) or _CLOSES.match(text, mark.end))
            ):
                parts.append(" ")
                is_after_space = True
        if is_spaced and " " not in parts:
            parts.append(" ")
        return "".join(parts)


def _follow(offsets: Mapping[int, int], offset: int) -> int:
    """Follow an offset to others until there is none."""
    while offset in offsets:
        offset = offsets[offset]
    return offset
