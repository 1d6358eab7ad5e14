"""The text of a paragraph of Markdown as HTML, and translated HTML as Markdown again.

Each mark, such as `**`, an address, code or a tag, is a numbered tag of the HTML, so that it is
placed as tags of pages are. A translation is written so that it reads back as those marks and that
text: as it is, else with its punctuation escaped, or with `<em>` for `_` and `*`, which end no
emphasis in the middle of a word.
"""

from __future__ import annotations

import html
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, product
from typing import Any, NamedTuple

import pyromark

from regard.documents.markup import LANGUAGE

_EXTENSIONS = "TABLES FOOTNOTES STRIKETHROUGH TASKLISTS HEADING_ATTRIBUTES MATH GFM DEFINITION_LIST"
_INLINE = frozenset(("Emphasis", "Strong", "Strikethrough", "Link", "Image"))
_KEPT = re.compile(
    r"\{\{[^{}\n]{1,500}\}\}|\{%[^{}\n]{1,500}%\}|!?\[\[[^\[\]\n]+\]\](?!\()|\[\^[^\[\]\s]+\](?!:)"
)
"""Templates, links of wikis and notes, which some renderers know: no text, whatever they hold."""
_FILLER = "\ue000"
"""Character that stands for those of templates and the like; the parser takes it for a letter."""
_DIRECTIVE = re.compile(
    r"""(?m)^[ \t]*(?:
    (?P<admonition>(?:!!!|\?\?\?\+?)[ \t]*\w[^"\n]*|===[ \t]*(?="))(?:"(?P<title>[^"\n]*)".*)?
    |:::+.*|\{:.*\}[ \t]*
    |import[ ].*\bfrom[ ]["'].*|export[ ](?:const|default|function)[ ].*)$""",
    re.VERBOSE,
)
"""Lines of admonitions, tabs, attributes and modules."""
_ATTRIBUTES = re.compile(r"\{[ :.#][^{}\n]*\}")
_BREAK = re.compile(r"(?:\r\n|\n|\r)(?:[ \t]*>)*[ \t]*")
_TAG = re.compile(r"<code m=(\d+)>[^<]*</code m=\1>|<[^<>]* m=(\d+)/?>")
_BLANK = re.compile(r"(\s+)((?:</x m=\d+>)+)\s*|\s*((?:<x m=\d+>)+)(\s+)")
"""A blank at an end of emphasis, within it."""
_HTML_TAG = re.compile(r"</?([A-Za-z][\w.:-]*)")
_FRAMES = {"Heading": "# ", "Item": "- ", "TableCell": "| x |\n|---|\n| "}
"""Beginning of a line before the text of a block, so that it is read as one."""
_BACKSLASH = re.compile(r"\\(?=[!-/:-@\[-`{-~]|$)|\[")
_SYNTAX = re.compile(
    r"[\\`*_\[\]<>&~$|#{}=^]|^[-+:]|(?<=\d)[.)](?=\s|$)|!$", re.MULTILINE
)
_ESCAPED = (_BACKSLASH, _SYNTAX)
_STARS = {"_": "*", "__": "**"}
_NAMES = {
    "*": "<em>",
    "_": "<em>",
    "**": "<strong>",
    "__": "<strong>",
    "~": "<del>",
    "~~": "<del>",
}
_SPELLINGS: tuple[Mapping[str, str], ...] = ({}, _STARS, _NAMES)
"""Other spellings of marks, in the order in which they are tried."""


class Event(NamedTuple):
    """An event of the parser between two offsets of the text. `name`: the element that starts or
    ends; `value`: the text, or the type of a link.
    """

    kind: str
    name: str
    value: str
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        """True if it is an element whose content is no text of the sentence."""
        return self.name == "Image" or self.value in ("Autolink", "Email")


class Run(NamedTuple):
    """Inline events of a block."""

    block: str
    events: list[Event]


class Part(NamedTuple):
    """A text, as HTML, or a mark: its source, and the tag that stands for it, with a NUL for its
    number. `alt`: the bounds of the description of an image in its source.
    """

    html: str
    raw: str = ""
    alt: tuple[int, int] = (0, 0)


def mask(text: str) -> tuple[str, list[re.Match[str]]]:
    """Return a text of the same length without what only some renderers know, and the lines of
    directives.
    """
    directives = list[re.Match[str]]()

    def blank(match: re.Match[str]) -> str:
        directives.append(match)
        if not match["admonition"]:
            return " " * len(match[0])
        # All that follows is indented by four columns, as in an item of a list.
        indent = len(match[0]) - len(match[0].lstrip())
        return (match[0][:indent] + "* #").ljust(len(match[0]))

    text = _DIRECTIVE.sub(blank, text)
    return _KEPT.sub(lambda match: _FILLER * len(match[0]), text), directives


def read_runs(masked: str) -> Iterator[Run]:
    """Yield the inline events of each block of a masked text."""
    blocks = [""]
    run: list[Event] = []
    for event in _events(masked):
        is_block = event.kind in ("Start", "End") and event.name not in _INLINE
        if not is_block and event.kind not in ("TaskListMarker", "Rule"):
            run.append(event)
            continue
        if run:
            yield Run(blocks[-1], run)
            run = []
        if event.kind == "Start":
            blocks.append(event.name)
        elif event.kind == "End":
            blocks.pop()


def _events(masked: str) -> Iterator[Event]:
    options = pyromark.Options(0)
    for extension in _EXTENSIONS.split():
        options |= pyromark.Options[f"ENABLE_{extension}"]
    offset = _character_offsets(masked)
    events: Any = pyromark.events_with_range(masked, options=options)
    for event, bounds in events:
        start, end = offset(bounds["start"]), offset(bounds["end"])
        kind, value = _unpack(event)
        name = ""
        if kind in ("Start", "End"):
            name, value = _unpack(value)
        if isinstance(value, dict):
            value = value.get("link_type", "")
        if name == "Heading" and not masked[start:end].lstrip().startswith("#"):
            name = "Paragraph"
        yield Event(kind, name, str(value), start, end)


def _tag_of(event: Event) -> str:
    """Return the tag that stands for a pair of marks; a link ends a sentence as those of HTML."""
    return "a" if event.name == "Link" else "x"


def _unpack(event: Any) -> tuple[str, Any]:
    """Return the name and the value of an event or element, which without a value is a string."""
    return (event, "") if isinstance(event, str) else next(iter(event.items()))


def _character_offsets(text: str) -> Callable[[int], int]:
    """Return a function from offsets in the UTF-8 of a text to offsets in characters."""
    if text.isascii():
        return int
    sizes = (len(character.encode()) for character in text)
    starts = array("L", accumulate(sizes, initial=0))
    return lambda offset: bisect_left(starts, offset)


class Inline:
    """The text of a block: its parts, and its bounds in the source.

    `labels` are those of links to definitions. `newline` is a line break with what begins the next
    line of the block.
    """

    def __init__(self, text: str, masked: str, run: Run) -> None:
        self.block = run.block if run.block in _FRAMES else "Paragraph"
        self.parts = list[Part]()
        self.labels = set[str]()
        self.start = self.end = run.events[0].start
        if self.start and text[self.start - 1] == "\\":
            self.start -= 1
        self._text = text
        self._masked = masked
        self._open = list[Event]()
        # The end of emphasis at the beginning; if it is all of a line, it is a text by itself.
        self._first_end = -1
        for event in run.events:
            self._add(event)
        line_break = _BREAK.search(text, self.start, self.end)
        self.newline = line_break[0] if line_break else "\n"

    def _add(self, event: Event) -> None:
        """Add an event; those in an image or an address are no parts."""
        if event.kind == "End" and event.start == self._open[-1].start:
            self._add_end(self._open.pop())
        elif self._open and self._open[-1].is_whole:
            self.end = event.end
        elif event.kind == "Start":
            self._open.append(event)
            self._add_start(event)
        elif event.kind == "Text":
            self._add_text(event)
        elif event.kind == "SoftBreak":
            is_heading = self._first_end == self.end
            self.parts.append(Part("<br\0>", "\n") if is_heading else Part("\n"))
            self.end = event.end
        else:
            self._add_mark(event)

    def _add_text(self, event: Event) -> None:
        start = max(event.start, self.end)
        masked = self._masked[start : event.end]
        self.end = max(event.end, self.end)
        if event.value != self._masked[event.start : event.end]:
            self.parts.append(Part(html.escape(event.value, quote=False)))
            return
        for match in re.finditer(rf"{_FILLER}+|[^{_FILLER}]+", masked):
            raw = self._text[start + match.start() : start + match.end()]
            if not match[0].startswith(_FILLER):
                self.parts.append(Part(html.escape(raw, quote=False)))
            elif raw.startswith("[^"):
                self.parts.append(Part("<x\0/>", raw))
            else:
                self._add_code(raw, raw)

    def _add_start(self, event: Event) -> None:
        self.end = event.start + _width(self._text, event)
        if not event.is_whole:
            raw = self._text[event.start : self.end]
            self.parts.append(Part(f"<{_tag_of(event)}\0>", raw))

    def _add_end(self, event: Event) -> None:
        width = _width(self._text, event)
        content_end = self.end
        end = event.end
        closing = self._raw(content_end, end)
        if event.value in ("Shortcut", "Collapsed"):
            # The text is the label, and is translated.
            closing = f"][{self._raw(event.start + width, end - 1)}]"
        if event.value in ("Shortcut", "Collapsed", "Reference"):
            self.labels.add(closing[len("][") : -1])
        if event.value == "Collapsed":
            end += len("[]")
        attributes = _ATTRIBUTES.match(self._text, end)
        self.end = attributes.end() if attributes else end
        raw = self._raw(event.start, self.end)
        if event.name == "Image":
            is_inline = event.value == "Inline"
            alt = (width, content_end - event.start) if is_inline else (0, 0)
            self.parts.append(Part("<img\0>", raw, alt))
        elif event.is_whole:
            self._add_code(self._text[event.start + 1 : event.end - 1], raw)
        else:
            if event.name != "Link":
                closing = self._raw(event.end - width, end)
            raw = closing + self._text[end : self.end]
            self.parts.append(Part(f"</{_tag_of(event)}\0>", raw))
            if event.start == self.start and event.name != "Link":
                self._first_end = self.end

    def _add_code(self, shown: str, raw: str) -> None:
        """Add what stays, and is seen by a model as words."""
        escaped = html.escape(shown, quote=False)
        self.parts.append(Part(f"<code\0>{escaped}</code\0>", raw))

    def _add_mark(self, event: Event) -> None:
        raw = self._raw(event.start, event.end)
        self.end = event.end
        if event.kind in ("Code", "InlineMath", "DisplayMath"):
            self._add_code(raw.strip("`$").strip(), raw)
            return
        tag = "<x\0/>"
        if event.kind == "HardBreak":
            tag = "<br\0>"
        elif name := _HTML_TAG.match(raw):
            is_kept = re.search(r"\bnotranslate\b|\btranslate=.?no\b", raw)
            kept = " translate=no" if is_kept else ""
            if language := LANGUAGE.search(raw):
                kept += f" lang={language[1]}"
            closing = "/" if raw.endswith("/>") else ""
            tag = f"{name[0]}{kept}\0{closing}>"
        self.parts.append(Part(tag, raw))

    def _raw(self, start: int, end: int) -> str:
        """Return a part of the source, with plain line breaks."""
        return _BREAK.sub("\n", self._text[start:end])

    def as_html(self, with_alt: bool) -> str:
        """Return the text as HTML; descriptions of images follow as paragraphs `with_alt`."""
        numbered = (
            part.html.replace("\0", f" m={number}")
            for number, part in enumerate(self.parts)
        )
        descriptions = (
            f"<p alt={number}>{html.escape(part.raw[slice(*part.alt)], quote=False)}</p>"
            for number, part in enumerate(self.parts)
            if with_alt and part.alt[1]
        )
        return "".join([*numbered, *descriptions])

    def write(self, translated: str) -> str:
        """Return translated HTML as Markdown; the source if nothing reads back as its text."""
        parts = self._translated(translated)
        for escaped, spelling in product(_ESCAPED, _SPELLINGS):
            spelled = [_respell(part, spelling) for part in parts]
            written = self._written(spelled, escaped)
            if written and spelling is _NAMES:
                written = self._with_fewest_names(parts, spelled, escaped)
            if written:
                return written.replace("\n", self.newline)
        return self._text[self.start : self.end]

    def _written(self, parts: Sequence[Part], escaped: re.Pattern[str]) -> str:
        """Return parts as Markdown; empty unless it reads back as them."""
        written = "".join(
            part.raw or self._escape(html.unescape(part.html), escaped)
            for part in parts
        ).strip()
        return written if self._reads_as(written, parts) else ""

    def _with_fewest_names(
        self,
        parts: Sequence[Part],
        named: Sequence[Part],
        escaped: re.Pattern[str],
    ) -> str:
        """Return parts as Markdown, with names only for the marks that need them."""
        opened = list[int]()
        for index, part in enumerate(parts):
            if part.html == "<x\0>":
                opened.append(index)
            elif part.html == "</x\0>":
                fewer = [*named]
                for end in (opened.pop(), index):
                    fewer[end] = parts[end]
                if self._written(fewer, escaped):
                    named = fewer
        return self._written(named, escaped)

    def _translated(self, translated: str) -> list[Part]:
        """Return the parts of translated HTML."""
        # Emphasis has no blank at its ends in Markdown.
        translated = _BLANK.sub(r"\2\1\4\3", translated)
        main, *descriptions = re.split(r"<p alt=(\d+)>(.*?)</p>", translated)
        parts = [*self.parts]
        for number, alt in zip(descriptions[::3], descriptions[1::3], strict=True):
            part = parts[int(number)]
            start, end = part.alt
            written = self._escape(html.unescape(alt), _BACKSLASH)
            raw = part.raw[:start] + written.replace("]", "\\]") + part.raw[end:]
            parts[int(number)] = Part(part.html, raw)
        result = list[Part]()
        end = 0
        for match in _TAG.finditer(main):
            result.append(_text(main[end : match.start()]))
            result.append(parts[int(match[1] or match[2])])
            end = match.end()
        return [*result, _text(main[end:])]

    def _escape(self, text: str, pattern: re.Pattern[str]) -> str:
        escaped = pattern.sub(r"\\\g<0>", text)
        if self.block == "TableCell":
            escaped = re.sub(r"(?<!\\)\|", r"\\|", escaped)
        return escaped

    def _reads_as(self, written: str, parts: Sequence[Part]) -> bool:
        """Return whether Markdown has certain parts."""
        frame = _FRAMES.get(self.block, "")
        definitions = "".join(f"\n\n[{label}]: x" for label in self.labels)
        text = f"{frame}{written}{definitions}"
        masked, directives = mask(text)
        runs = [*read_runs(masked)]
        blocks = [self.block] * (2 if self.block == "TableCell" else 1)
        if directives or [run.block for run in runs] != blocks:
            return False
        return _key(Inline(text, masked, runs[-1]).parts) == _key(parts)


def _width(text: str, event: Event) -> int:
    """Return the number of characters of the mark that opens an element."""
    if event.name == "Strikethrough":
        return 2 if text.startswith("~~", event.start) else 1
    return 2 if event.name in ("Strong", "Image") else 1


def _text(escaped: str) -> Part:
    return Part(html.escape(html.unescape(escaped), quote=False))


def _respell(part: Part, spelling: Mapping[str, str]) -> Part:
    if part.html not in ("<x\0>", "</x\0>") or part.raw not in spelling:
        return part
    raw = spelling[part.raw]
    if part.html.startswith("</"):
        raw = raw.replace("<", "</")
    return Part(part.html, raw)


def _key(parts: Sequence[Part]) -> list[str]:
    """Return the texts and sources of parts; white space counts as one space."""
    return "".join(
        f"\0{part.raw}\0" if part.raw else part.html for part in parts
    ).split()
