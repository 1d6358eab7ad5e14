"""Copy tokens: characters of a vocabulary that stand for spans which are not language, and come
back unchanged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.data.given_words import WORD
from regard.data.sentences import has_spaces
from regard.data.spans import KEPT, find_spans

COPY_CHARACTERS = "".join(map(chr, range(0xF1900, 0xF1918)))
"""The character of each copy token: of a private area that no font of symbols uses. In text they
are spans, too.
"""
_COPIES = lazy_pattern(f"[{COPY_CHARACTERS}]")
_OPENING = "([{<“‘„‚«‹\"'¿¡/\\_=@#+~*|…"
Place = tuple[int, int]
"""Begin and end of a span of a line."""
NOT_COPIED = frozenset({"tag", "message"})
"""Kinds of spans that no copy tokens stand for: they are put back as the tags of markup are."""
COPIED = KEPT - NOT_COPIED
"""Kinds of spans that copy tokens stand for."""


def copied_spans(line: str) -> list[Place]:
    """Return where the spans of a line stand that copy tokens stand for, in order."""
    return [(span.start, span.end) for span in find_spans(line) if span.kind in COPIED]


def with_copies(line: str, copies: Sequence[tuple[Place, str]]) -> str:
    """Return a line with copy characters in some places, given in any order; the space before one
    is left out.

    It would be a token of its own. `Copies.restore` knows where it belongs.
    """
    parts = list[str]()
    end = 0
    for (start, stop), character in sorted(copies):
        parts += [line[end:start].removesuffix(" "), character]
        end = stop
    return "".join([*parts, line[end:]])


class Around(NamedTuple):
    """The characters before and behind a span in its line, and the one before its copy character;
    none at ends.

    The latter is another if a space before the copy character was left out.
    """

    before: str = ""
    behind: str = ""
    before_copy: str = ""


class Copies(NamedTuple):
    """The spans that copy characters stand for, and what stands around each in its line."""

    spans: Mapping[str, str] = MappingProxyType({})
    around: Mapping[str, Around] = MappingProxyType({})

    @classmethod
    def of(cls, line: str, places: Sequence[Place], characters: str) -> Copies:
        """Note the spans of a line, which stand in these places, in order, for copy characters."""
        spans = dict[str, str]()
        around = dict[str, Around]()
        end = 0
        last = ""
        for (start, stop), character in zip(places, characters, strict=False):
            gap = line[end:start].removesuffix(" ")
            spans[character] = line[start:stop]
            around[character] = Around(
                line[:start][-1:], line[stop : stop + 1], gap[-1:] or last
            )
            end = stop
            last = character
        return cls(spans, around)

    def restore(self, text: str) -> str:
        """Return a text with the spans in the place of their characters, parted from what stands
        beside them.
        """
        if not self.spans:
            return text
        parts = list[str]()
        end = 0
        last = ""
        for match in _COPIES.finditer(text):
            gap = text[end : match.start()]
            span = self.spans.get(match[0], match[0])
            before, behind, before_copy = self.around.get(match[0], Around())
            if gap:
                parts += [" " * self._is_parted_behind(last, gap[0]), gap]
            if (gap[-1:] or last) == before_copy and match[
                0
            ] in self.around:  # it stands there as in its line
                is_parted = before == " "
            elif gap:
                is_parted = _is_parted(before, gap[-1], span)
            else:  # at the start, or behind another span
                is_parted = bool(last) and " " in (before, before or behind)
            parts += [(" " if is_parted else ""), span]
            last = match[0]
            end = match.end()
        rest = text[end:]
        return "".join([*parts, " " * self._is_parted_behind(last, rest[:1]), rest])

    def restored_words(self, text: str) -> list[range]:
        """Return for each word of a text the words of the restored text that it becomes part of, or
        is made of.
        """
        restored = self.restore(text)
        words = list[range]()
        at = 0
        starts = [match.start() for match in WORD.finditer(restored)]
        for match in WORD.finditer(text):
            pieces = [self.spans.get(character, character) for character in match[0]]
            first = restored.index(pieces[0], at)
            for piece in pieces:  # nothing but spaces has come between them
                at = restored.index(piece, at) + len(piece)
            words.append(
                range(bisect_right(starts, first) - 1, bisect_right(starts, at - 1))
            )
        return words

    def _is_parted_behind(self, character: str, following: str) -> bool:
        """Return whether a space is missing behind a span, if there is one, before a letter that
        was not there.

        Of scripts whose particles follow without a space, as 을 does, letters may stand right
        behind it.
        """
        if (
            character not in self.around
            or not following.isalnum()
            or "가" <= following <= "힣"
        ):
            return False
        return not self.around[character].behind.isalnum() and has_spaces(
            self.spans[character][-1], following
        )


def _is_parted(before: str, last: str, span: str) -> bool:
    """Return whether a space parts a span, which stood behind one character, from another that has
    come before it.

    It does if it did, but not behind an opening bracket and the like, and if the punctuation before
    it is lost.
    """
    if not has_spaces(last, span[0]):
        return False
    return (
        last not in _OPENING
        if before in ("", " ")
        else last.isalnum() and not before.isalnum()
    )
