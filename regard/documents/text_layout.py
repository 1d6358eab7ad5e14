"""Texts of documents divided into the lines to translate: at line breaks, tabs and columns of
blanks, but not within messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.common.lazy import lazy_pattern
from regard.data.sentences import TextLayout, has_letters, split_text
from regard.text.text_format import Layout, plain_layout
from regard.text.translation import Translation

_GAP = lazy_pattern(r" *\t\s*|\s{3,}")
"""Gap between the cells of a line."""
_NARROW_GAP = lazy_pattern(r" *\t\s*|\s{2,}")
"""Gap between the cells of a line that is indented or begins with an option."""
_OPTION = lazy_pattern(r"--?[\w?].*|[A-Z][A-Z\d_-]+")
"""First cell of a line of a help text: options, or the name of an argument."""
_MODIFIER = (
    r"(?:Ctrl|Control|Alt|AltGr|Shift|Cmd|Command|Option|Meta|Super|Win|Strg|Umschalt)"
)
_KEYS = lazy_pattern(rf"(?:{_MODIFIER} ?[+-] ?)+\S+|F\d\d?|Del|Ins|Esc")
_DIVIDED = lazy_pattern(r"[\n\r\t]|  ")
"""Line breaks, tabs and columns of blanks, which may divide a text."""
_EDGES = lazy_pattern(r"(\s*[,;:·|/&+–—-]\s+)?(\S.*?)(\s+[·|/&+–—-]\s*)?")
"""A text between separators at its ends, as of the words that join a list."""
_LABEL = lazy_pattern(r"[^\t]*[&_][^\W_][^\t]*\t+[^\t]*")
"""A label with a mnemonic, a tab and its key."""


def text_layout(text: str, dialect: str) -> Layout:
    """Divide a text into lines; those without language, such as the key of a label, are left
    out.
    """
    if _DIVIDED.search(text):
        return _message_layout(text, dialect) or _cell_layout(text)
    edges = _EDGES.fullmatch(text)
    if edges is None:
        return plain_layout(text)
    before, core, after = edges.groups("")
    layout = plain_layout(core)
    return Layout(layout.lines, lambda lines: f"{before}{layout.put(lines)}{after}")


def _cell_layout(text: str) -> Layout:
    """Divide a text at line breaks, tabs and columns of blanks."""
    cells = list[str]()
    gaps = list[str]()
    end = 0
    for start, cell in _cells(text):
        gaps.append(text[end:start])
        cells.append(cell)
        end = start + len(cell)
    layout = TextLayout(tuple(cells), (*gaps, text[end:]))
    return Layout(
        layout.lines, lambda lines: layout.join([line.text for line in lines])
    )


def _cells(text: str) -> Iterator[tuple[int, str]]:
    """Yield the cells to translate, each with its offset."""
    is_label = _LABEL.fullmatch(text)
    layout = split_text(text, sentences=False)
    line_start = 0
    for gap, line in zip(layout.gaps, layout.lines, strict=False):
        line_start += len(gap)
        is_narrow = gap.endswith((" ", "\t")) or line.startswith("-")
        bounds = [
            match.span()
            for match in (_NARROW_GAP if is_narrow else _GAP).finditer(line)
        ]
        starts = [0, *(end for _, end in bounds)]
        ends = [*(start for start, _ in bounds), len(line)]
        for start, end in zip(starts, ends, strict=True):
            cell = line[start:end]
            if start:
                is_code = bool(is_label or _KEYS.fullmatch(cell))
            else:
                is_code = bool(bounds and is_narrow and _OPTION.fullmatch(cell))
            if has_letters(cell) and not is_code:
                yield line_start + start, cell
        line_start += len(line)


def _message_layout(text: str, dialect: str) -> Layout | None:
    """Divide a text whose messages with branches are in one of its lines; return None if it has
    none.
    """
    if "{" not in text:
        return None
    # Imported late, since few texts are messages.
    from regard.contracts.dialects import get_dialect
    from regard.contracts.messages import syntax
    from regard.text.contracts import dialect_of

    rules = get_dialect(dialect_of(text, dialect))
    branches = [part for part in syntax(text, rules) if part.divides]
    if not branches:
        return None
    first = text.rfind("\n", 0, branches[0].start) + 1
    rest = text[branches[-1].end :].partition("\n")[0]
    line = text[first : branches[-1].end + len(rest)].strip()
    start = text.index(line, first)
    before = _cell_layout(text[:start])
    after = _cell_layout(text[start + len(line) :])
    number = len(before.lines)

    def put(lines: Sequence[Translation]) -> str:
        parts = [before.put(lines[:number]), lines[number].text]
        return "".join([*parts, after.put(lines[number + 1 :])])

    return Layout((*before.lines, line, *after.lines), put)
