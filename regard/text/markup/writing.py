"""Write a translated sentence with its marks: white space between words, entities, and escapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.common.lazy import lazy_pattern
from regard.text.markup.elements import Role
from regard.text.markup.projection import Entry, TargetUnit
from regard.text.markup.tagged_sentence import TaggedSentence
from regard.text.markup.tags import Kind

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
_NOT_XML = lazy_pattern("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Source:
    """A marked-up text."""

    text: str
    kind: Kind

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
            writer.add(
                source.text[raw.start : raw.end],
                (node.start, node.end - 1),
                entry.words,
            )
    return writer.finish()


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
        self.last_word = -1
        self.is_opened = False
        self.marks = list[int]()

    def add(self, text: str, units: tuple[int, int], words: tuple[int, int]) -> None:
        """Write the waiting marks and then a text.

        `units` are its first and last source unit, `words` its first and last target word.
        """
        all_units = self._sentence.units
        if (
            words[1] < words[0]
            and units[0] > 0
            and all_units[units[0] - 1].end == all_units[units[0]].start
        ):
            # An element kept whole that was attached to a word is attached to one again.
            words = (self.last_word, self.last_word)
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
        self._parts += [gap, text]
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
        return "".join([head, *self._parts, tail])

    def _gap(self, index: int, start: int, end: int) -> str:
        """Return the text of a gap of the source if its marks are the waiting ones, else an empty
        text.
        """
        is_same = sorted(self.marks) == self._sentence.gaps.get(index, [])
        return self._source.text[start:end] if is_same else ""

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
        for number in self.marks:
            mark = self._sentence.marks[number]
            is_point = mark.role not in (Role.OPEN, Role.CLOSE)
            edge = text[mark.start - 1 : mark.start]
            is_enclosed = bool(edge) and (
                _BEFORE.match(edge) or _OPENS.match(text, mark.start - 1)
            )
            follows_space = (
                is_point
                and may_begin
                and (edge.isspace() or (is_spaced and is_enclosed))
            )
            is_first_opened = mark.role is Role.OPEN and is_spaced and " " not in parts
            if (follows_space and parts[-1:] != [" "]) or is_first_opened:
                parts.append(" ")
            parts.append(text[mark.start : mark.end])
            if (
                is_point
                and may_end
                and (_BEHIND.match(text, mark.end) or _CLOSES.match(text, mark.end))
            ):
                parts.append(" ")
        if is_spaced and " " not in parts:
            parts.append(" ")
        return "".join(parts)
