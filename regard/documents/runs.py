"""Paragraphs of office documents as short markup: their text, with a tag for each change of format,
for each link, and for each object among the words, such as the mark of a footnote.

`<r3>` is text in the format of item 3, `<c3>` an element around text, such as a link, `<k3>` text
that is kept, `<p3/>` an object, and `<d3/>` one that divides text, such as a tab.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple

from regard.documents.document import Edit, apply_edits
from regard.text.markup.document import MarkupDocument, parse_markup
from regard.text.markup.elements import MarkupOptions
from regard.text.markup.tags import Token, tokenize

_RANGE = re.compile(
    r"<([\w:-]+?)-?([Ss]tart|[Ee]nd)\b[^>]*?"
    r"(?:w:id|text:name|text:(?:change-)?id|office:name)=[\"']([^\"']*)"
)
"""A mark at which a range starts or ends, with the name of its kind and its own."""
_TAGS = {
    "point": "<p{0}/>",
    "divider": "<d{0}/>",
    "kept": "<k{0}>{1}</k{0}>",
    "open": "<c{0}>",
}


class Run(NamedTuple):
    """Format of text: the tags around it, and a key, which is equal if they look alike."""

    opening: str = ""
    closing: str = ""
    key: str = ""


NO_RUN = Run()


class Item(NamedTuple):
    """A part of a paragraph between two offsets of the source.

    `run`: the format in which it begins. `text`: the markup of text, or what something kept shows.
    `last_run`: the format in which it ends, if it is another.
    """

    kind: Literal["text", "point", "divider", "kept", "open", "close"]
    start: int
    end: int
    run: Run = NO_RUN
    text: str = ""
    last_run: Run | None = None


def object_item(start: int, end: int, run: Run, shown: str) -> Item:
    """Return the item of an object, which is kept if it shows text."""
    return Item("kept" if shown.strip() else "point", start, end, run, shown)


@dataclass
class Paragraph:
    """The items of a paragraph, which are all between two offsets of the source."""

    start: int
    end: int
    items: Sequence[Item]

    def __post_init__(self) -> None:
        """Find the end of each element around text, and the format of most letters in it, in the
        paragraph by -1.
        """
        self._ends = dict[int, int]()
        letters: dict[int, Counter[str]] = {-1: Counter()}
        runs = dict[str, Run]()
        opened = [-1]
        for index, item in enumerate(self.items):
            if item.kind == "open":
                opened.append(index)
                letters[index] = Counter()
            elif item.kind == "close":
                self._ends[opened.pop()] = index
            elif item.kind == "text":
                runs.setdefault(item.run.key, item.run)
                letters[opened[-1]][item.run.key] += len(item.text.strip())
        self._bases = {
            element: runs[max(count, key=count.__getitem__)] if count else NO_RUN
            for element, count in letters.items()
        }

    @cached_property
    def source(self) -> str:
        """The paragraph as markup."""
        parts = list[str]()
        first = dict[str, int]()
        elements = [-1]
        opened = ""

        def switch(name: str) -> None:
            nonlocal opened
            if name != opened:
                parts.append(f"</{opened}>" if opened else "")
                parts.append(f"<{name}>" if name else "")
                opened = name

        for index, item in enumerate(self.items):
            if item.kind in ("divider", "open", "close"):
                switch("")
            if item.kind == "text":
                if not item.text.isspace():
                    number = first.setdefault(item.run.key, index)
                    is_base = item.run.key == self._bases[elements[-1]].key
                    switch("" if is_base else f"r{number}")
                parts.append(item.text)
            elif item.kind == "close":
                parts.append(f"</c{elements.pop()}>")
            else:
                parts.append(_TAGS[item.kind].format(index, item.text))
            if item.kind == "open":
                elements.append(index)
        switch("")
        return "".join(parts)

    def markup(self, options: MarkupOptions) -> MarkupDocument:
        """Return the paragraph as markup to translate."""

        def names(kind: str) -> frozenset[str]:
            tags = (
                f"{kind[0]}{index}"
                for index, item in enumerate(self.items)
                if item.kind == kind
            )
            return frozenset(tags)

        options = replace(
            options,
            splitting_tags=names("divider"),
            ignore_tags=names("kept"),
            outline=False,
        )
        return parse_markup(self.source, "xml", options)

    def write(
        self,
        translation: str,
        raw: Callable[[int, int], str],
        write_text: Callable[[str], str],
    ) -> str:
        """Return the translated paragraph in its format.

        `raw` returns what stands between two offsets of the source, `write_text` the element of a
        text.
        """
        written = list[str]()
        current = NO_RUN
        wanted = [self._bases[-1]]
        is_kept = False

        def switch(run: Run) -> None:
            nonlocal current
            if run.opening != current.opening:
                written.append(current.closing + run.opening)
                current = run

        for token in tokenize(translation, "xml"):
            letter = token.name[:1] or "text"
            number = int(token.name[1:] or 0)
            item = self.items[number]
            is_end = token.kind == "close"
            if is_end and letter in "rc":
                wanted.pop()
            elif letter in "rc":
                wanted.append(item.run if letter == "r" else self._bases[number])
            elif letter == "k":
                is_kept = not is_end

            if letter == "text" and not is_kept:
                switch(wanted[-1])
                written.append(write_text(translation[token.start : token.end]))
            elif letter in "cpdk" and (letter == "c" or not is_end):
                item = self.items[self._ends[number]] if is_end else item
                switch(item.run)
                written.append(raw(item.start, item.end))
                current = item.last_run or item.run
        switch(NO_RUN)
        return "".join(written)


def apply_inner(
    source: str, edits: list[Edit], paragraph: Paragraph
) -> Callable[[int, int], str]:
    """Take the edits inside of a paragraph from the end of a list, and return a function that reads
    the source with these edits.
    """
    inner = list[Edit]()
    while edits and edits[-1].start >= paragraph.start:
        inner.append(edits.pop())

    def raw(start: int, end: int) -> str:
        within = (edit for edit in inner if start <= edit.start and edit.end <= end)
        moved = [
            Edit(edit.start - start, edit.end - start, edit.text) for edit in within
        ]
        return apply_edits(source[start:end], moved)

    return raw


def find_paragraphs(
    text: str, names: frozenset[str], left: frozenset[str] = frozenset()
) -> Iterator[tuple[list[Token], list[int]]]:
    """Yield the tokens of each paragraph, at its end, and the index of the end tag of each start
    tag, of other tokens their own. Tokens of paragraphs inside of it are not among them.

    `names`: of paragraphs. `left`: of elements whose paragraphs are left alone.
    """
    stack = list[list[Token]]()
    depth = 0
    for token in tokenize(text, "xml"):
        if token.name in left:
            depth += (token.kind == "open") - (token.kind == "close")
        is_paragraph = token.name in names and not depth
        if is_paragraph and token.kind == "open":
            stack.append([token])
            continue
        if stack:
            stack[-1].append(token)
        if is_paragraph and token.kind == "close":
            tokens = stack.pop()
            yield tokens, _partners(tokens)


def _partners(tokens: Sequence[Token]) -> list[int]:
    """Return the index of the end tag of each start tag, of other tokens their own."""
    partners = [*range(len(tokens))]
    opened = list[int]()
    for index, token in enumerate(tokens):
        if token.kind == "open":
            opened.append(index)
        elif token.kind == "close":
            partners[opened.pop()] = index
    return partners


def join_ranges(text: str, items: Sequence[Item]) -> list[Item]:
    """Make an element around text of each range between two marks, such as a bookmark, unless it
    crosses another element.
    """
    joined = list[Item]()
    starts = dict[tuple[str, str], int]()
    for item in items:
        joined.append(item)
        mark = _RANGE.match(text, item.start) if item.kind == "point" else None
        if mark is None:
            continue
        key = (mark[1], mark[3])
        if mark[2].lower() == "start":
            starts[key] = len(joined) - 1
        elif key in starts:
            start = starts.pop(key)
            if is_balanced(joined[start + 1 : -1]):
                joined[start] = joined[start]._replace(kind="open")
                joined[-1] = item._replace(kind="close")
    return joined


def is_balanced(items: Sequence[Item]) -> bool:
    """Return whether items have the start and the end of the same elements around text."""
    steps = [(item.kind == "open") - (item.kind == "close") for item in items]
    depths = [*accumulate(steps, initial=0)]
    return min(depths) == depths[-1] == 0
