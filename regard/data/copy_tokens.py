"""Copy tokens: characters of the vocabulary that stand for spans which are not language, and which
the model copies into its output.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.data.given_words import WORD
from regard.data.sentences import has_spaces, parts_letter
from regard.data.spans import KEPT, find_spans

COPY_CHARACTERS = "".join(map(chr, range(0xF1900, 0xF1918)))
"""The characters of the copy tokens, from a private-use area that symbol fonts do not use. If they
occur in a text, they are spans themselves.
"""
_COPIES = lazy_pattern(f"[{COPY_CHARACTERS}]")
_OPENING = "([{<“‘„‚«‹\"'¿¡/\\_=@#+~*|…"
"""Characters after which no space is put before a span."""
Place = tuple[int, int]
"""Start and end offset of a span in a line."""
NOT_COPIED = frozenset({"tag", "message"})
"""Kinds of spans without copy tokens: they are put back in the same way as the tags of markup."""
COPIED = KEPT - NOT_COPIED
"""Kinds of spans for which copy tokens stand."""


def copied_spans(line: str) -> list[Place]:
    """Return the places of the spans that copy tokens replace, in order."""
    return [(span.start, span.end) for span in find_spans(line) if span.kind in COPIED]


def with_copies(line: str, copies: Sequence[tuple[Place, str]]) -> str:
    """Replace places of a line, given in any order, by copy characters.

    A space before a copy character is removed, because it would be a token of its own;
    `Copies.restore` puts it back.
    """
    parts = list[str]()
    end = 0
    for (start, stop), character in sorted(copies):
        parts += [line[end:start].removesuffix(" "), character]
        end = stop
    return "".join([*parts, line[end:]])


class Around(NamedTuple):
    """The characters around a span in its line; empty at the start or end of the line."""

    before: str = ""
    behind: str = ""
    before_copy: str = ""
    """The character before the copy character, after a space was removed."""


class Copies(NamedTuple):
    """The spans for which copy characters stand, and the characters around each span."""

    spans: Mapping[str, str] = MappingProxyType({})
    around: Mapping[str, Around] = MappingProxyType({})

    @classmethod
    def of(cls, line: str, places: Sequence[Place], characters: str) -> Copies:
        """Record the spans in these places of a line, in order, for the copy characters."""
        spans = dict[str, str]()
        around = dict[str, Around]()
        end = 0
        last = ""
        for (start, stop), character in zip(places, characters, strict=False):
            gap = line[end:start].removesuffix(" ")
            spans[character] = line[start:stop]
            around[character] = Around(
                before=line[:start][-1:],
                behind=line[stop : stop + 1],
                before_copy=gap[-1:] or last,
            )
            end = stop
            last = character
        return cls(spans, around)

    def restore(self, text: str) -> str:
        """Replace the copy characters of a text by their spans, with spaces around them as
        needed.
        """
        if not self.spans:
            return text
        parts = list[str]()
        end = 0
        last = ""
        for match in _COPIES.finditer(text):
            character = match[0]
            gap = text[end : match.start()]
            span = self.spans.get(character, character)
            around = self.around.get(character, Around())
            if gap:
                if self._needs_space_behind(last, gap[0]):
                    parts.append(" ")
                parts.append(gap)

            is_as_in_line = (gap[-1:] or last) == around.before_copy
            if is_as_in_line and character in self.around:
                needs_space = around.before == " "
            elif gap:
                needs_space = _needs_space_before(around.before, gap[-1], span)
            else:  # at the start, or behind another span
                beside = (around.before, around.before or around.behind)
                edge = self.spans.get(last, last)[-1:]
                # A letter between them in the line, such as a Korean particle, is gone.
                is_glued = around.before.isalnum() and has_spaces(edge, span[0])
                needs_space = bool(last) and (" " in beside or is_glued)
            if needs_space:
                parts.append(" ")
            parts.append(span)
            last = character
            end = match.end()

        tail = text[end:]
        if self._needs_space_behind(last, tail[:1]):
            parts.append(" ")
        return "".join([*parts, tail])

    def restored_words(self, text: str) -> list[range]:
        """Return for each word of a text the words of the restored text that it overlaps."""
        restored = self.restore(text)
        starts = [match.start() for match in WORD.finditer(restored)]
        words = list[range]()
        end = 0
        for match in WORD.finditer(text):
            parts = [self.spans.get(character, character) for character in match[0]]
            start = restored.index(parts[0], end)
            for part in parts:  # `restore` puts only spaces between them
                end = restored.index(part, end) + len(part)
            first = bisect_right(starts, start) - 1
            words.append(range(first, bisect_right(starts, end - 1)))
        return words

    def _needs_space_behind(self, character: str, following: str) -> bool:
        """Return whether a space must be put between the span of a copy character and a letter that
        follows it.
        """
        if character not in self.around:
            return False
        behind = self.around[character].behind
        return parts_letter(self.spans[character][-1], following, behind, True)


def _needs_space_before(before: str, last: str, span: str) -> bool:
    """Return whether a space must be put before a span that stands behind another character than in
    its line.

    `before` is the character before the span in its line, `last` the one before it now. A space in
    the line is kept, except behind an opening bracket and the like. A space also replaces lost
    punctuation between letters.
    """
    if not has_spaces(last, span[0]):
        return False
    if before in ("", " "):
        return last not in _OPENING
    return parts_letter(span[0], last, before, False)
