"""Copy tokens: characters of a vocabulary that stand for spans which are not language, and come back unchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from regard.data.sentences import has_spaces
from regard.data.spans import KEPT, find_spans

COPY_CHARACTERS = "".join(map(chr, range(0xF1900, 0xF1918)))
"""The character of each copy token: of a private area that no font of symbols uses. In text they are spans, too."""
_COPIES = re.compile(f"[{COPY_CHARACTERS}]")
_OPENING = "([{<“‘„‚«‹\"'¿¡/\\_=@#+~*|…"
Place = tuple[int, int]
"""Where a span of a line begins and ends."""
NOT_COPIED = frozenset({"tag", "message"})
"""Kinds of spans that no copy tokens stand for: they are put back as the tags of markup are."""
COPIED = KEPT - NOT_COPIED
"""Kinds of spans that copy tokens stand for."""


def copied_spans(line: str) -> list[Place]:
    """Return where the spans of a line stand that copy tokens stand for, in order."""
    return [(span.start, span.end) for span in find_spans(line) if span.kind in COPIED]


def with_copies(line: str, copies: Sequence[tuple[Place, str]]) -> str:
    """Return a line with copy characters in some places, given in any order; the space before one is left out.

    It would be a token of its own. `Copies.restore` knows where it belongs.
    """
    parts, end = list[str](), 0
    for (start, stop), character in sorted(copies):
        parts += [line[end:start].removesuffix(" "), character]
        end = stop
    return "".join([*parts, line[end:]])


class Copies(NamedTuple):
    """The spans that copy characters stand for, and the characters before and behind each in its line; none at ends."""

    spans: Mapping[str, str] = MappingProxyType({})
    around: Mapping[str, tuple[str, str]] = MappingProxyType({})

    def restore(self, text: str) -> str:
        """Return a text with the spans in the place of their characters, parted from what stands beside them."""
        if not self.spans:
            return text
        parts, end, last = list[str](), 0, ""
        for match in _COPIES.finditer(text):
            gap, span = text[end : match.start()], self.spans.get(match[0], match[0])
            before, after = self.around.get(match[0], ("", ""))
            if gap:
                parts += [" " * self._is_parted_behind(last, gap[0]), gap]
                is_parted = _is_parted(before, gap[-1], span)
            else:  # at the start, or behind another span
                is_parted = bool(last) and " " in (before, before or after)
            parts += [" " * is_parted, span]
            last, end = match[0], match.end()
        rest = text[end:]
        return "".join([*parts, " " * self._is_parted_behind(last, rest[:1]), rest])

    def _is_parted_behind(self, character: str, following: str) -> bool:
        """Return whether a space is missing behind a span, if there is one, before a letter that was not there.

        Of scripts whose particles follow without a space, as 을 does, letters may stand right behind it.
        """
        if character not in self.around or not following.isalnum() or "가" <= following <= "힣":
            return False
        return not self.around[character][1].isalnum() and has_spaces(self.spans[character][-1], following)


def _is_parted(before: str, last: str, span: str) -> bool:
    """Return whether a space parts a span, which stood behind one character, from another that has come before it.

    It does if it did, but not behind an opening bracket and the like, and if the punctuation before it is lost.
    """
    if not has_spaces(last, span[0]):
        return False
    return last not in _OPENING if before in ("", " ") else last.isalnum() and not before.isalnum()
