"""Copy tokens: characters of a vocabulary that stand for spans which are not language, and come back unchanged."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.spans import KEPT, find_spans

COPY_CHARACTERS = "".join(map(chr, range(0xF1900, 0xF1918)))
"""The character of each copy token: of a private area that no font of symbols uses. In text they are spans, too."""


Place = tuple[int, int]
"""Where a span of a line begins and ends."""
COPIED = KEPT - {"tag", "message"}
"""Kinds of spans that copy tokens stand for; tags and the parts of messages are put back as those of markup are."""


def copied_spans(line: str) -> list[Place]:
    """Return where the spans of a line stand that copy tokens stand for, in order."""
    return [(span.start, span.end) for span in find_spans(line) if span.kind in COPIED]


def with_copies(line: str, copies: Sequence[tuple[Place, str]]) -> str:
    """Return a line with copy characters in some places, given in any order."""
    parts, end = list[str](), 0
    for (start, stop), character in sorted(copies):
        parts += [line[end:start], character]
        end = stop
    return "".join([*parts, line[end:]])
