"""Markdown: paragraphs, headings, items and cells are translated, each with its marks; code,
addresses and HTML tags stay.
"""

from __future__ import annotations

import html
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from regard.common.counting import counted
from regard.data.sentences import has_letters
from regard.documents.document import (
    DocumentOptions,
    DocumentText,
    Edit,
    EditedText,
    Slot,
    value_slot,
)
from regard.documents.encoding import decode_file
from regard.documents.markdown_inline import Inline, Run, mask, read_runs
from regard.documents.markup import (
    TagValue,
    foreign_notes,
    tag_values,
    with_edited_tags,
)
from regard.text.markup.document import parse_markup
from regard.text.markup.elements import find_elements
from regard.text.markup.tags import tokenize
from regard.text.text_format import TranslatedText

_FRONT_MATTER = re.compile(
    r"(?ms)(---|\+\+\+)[ \t]*\r?\n(?=\s*[\w-]+\s*[:=]).*?^\1[ \t]*\r?$"
)
_FIELD = re.compile(
    r"""(?mi)^(?:title|subtitle|linktitle|sidebar_label|description|summary|excerpt)[ \t]*[:=][ \t]*
    (?:"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>[^'\n]*)'
    |(?P<plain>[^\W\d](?:[^#:\r\n]|[#:](?=\S))*?))
    [ \t]*(?:[ \t]\#.*)?\r?$(?!\n[ \t]+\S)""",
    re.VERBOSE,
)
"""A text in the front matter, in YAML or TOML."""
_PLAIN_FIELD = re.compile(
    r"(?!(?:true|false|yes|no|on|off|null)\Z)[^\W\d][^:#]*", re.IGNORECASE
)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_FIELD_ESCAPES: Mapping[str, Callable[[str], str]] = {
    "single": lambda text: text.replace("'", "’"),
    "double": lambda text: _quoted(text)[1:-1],
    "plain": lambda text: text if _PLAIN_FIELD.fullmatch(text) else _quoted(text),
}


class MarkdownFile(EditedText):
    """A file of Markdown. Raises DataError for a wrong encoding."""

    def __init__(self, data: bytes, name: str, options: DocumentOptions) -> None:
        self.source = decode_file(data, name)
        text = self.source.text
        self._text = text
        self._options = options
        self._codes = list[range]()
        self._images = 0
        self._foreign = dict[str, int]()
        self._text_slots = list[Slot]()
        front = _FRONT_MATTER.match(text)
        if front:
            for field in _FIELD.finditer(front[0]):
                self._add_field(field)
            text = re.sub(r"[^\r\n]", " ", front[0]) + text[front.end() :]
        self._masked, self._directives = mask(text)
        for run in read_runs(self._masked):
            self._add(run)
        for directive in self._directives:
            start, end = directive.span("title")
            is_code = any(directive.start() in code for code in self._codes)
            if not is_code and has_letters(text[max(start, 0) : end]):
                self._add_plain(start, end, lambda title: title.replace('"', "”"))
        super().__init__(self.source, self._text_slots, self._notes())

    def _notes(self) -> Iterator[str]:
        """Yield a sentence about each kind of what stays."""
        if self._codes:
            stay = counted(len(self._codes), "code block stays", "code blocks stay")
            yield f"{stay} as written"
        if self._images:
            stay = counted(
                self._images,
                "description of an image stays",
                "descriptions of images stay",
            )
            yield f"{stay} as written (`attributes` translates them)"
        yield from foreign_notes(self._foreign, self._options.languages.source)

    def _add(self, run: Run) -> None:
        start, end = run.events[0].start, run.events[-1].end
        bounds = range(start, end)
        if run.block == "CodeBlock":
            self._codes.append(bounds)
        elif any(directive.start() in bounds for directive in self._directives):
            return
        elif run.block == "HtmlBlock":
            # Lines of a page in a quotation begin with its signs, which are no text.
            if all(event.end - event.start == len(event.value) for event in run.events):
                self._add_page(start, end)
        else:
            self._add_inline(Inline(self._text, self._masked, run))

    def _add_page(self, start: int, end: int) -> None:
        """Add a block of HTML. Attributes that people read are paragraphs before it."""
        text = self._text[start:end]
        values = list[TagValue]()
        if self._options.attributes:
            tokens = [*tokenize(text, "html")]
            elements = find_elements(text, tokens, "html", self._options.markup)
            values += tag_values(text, elements)
        paragraphs = [f"<p>{html.escape(value.text)}</p>" for value in values]

        def edits(translation: TranslatedText) -> Iterator[Edit]:
            *written, page = translation.text.split("</p>", len(values))
            tags = defaultdict[str, list[Edit]](list)
            for value, before, after in zip(values, paragraphs, written, strict=True):
                new = html.unescape(after.removeprefix("<p>"))
                if new.strip() and f"{after}</p>" != before:
                    edit = Edit(value.start, value.end, value.escape(new))
                    tags[value.tag].append(edit)
            yield Edit(start, end, with_edited_tags(page, tags))

        self._add_marked(start, end, "".join([*paragraphs, text]), edits)

    def _add_marked(
        self,
        start: int,
        end: int,
        page: str,
        edits: Callable[[TranslatedText], Iterator[Edit]],
    ) -> None:
        """Add a part of the file, between two offsets, whose sentences are those of a page."""
        line = self.source.line_of(start)
        markup = parse_markup(page, "html", self._options.markup)
        for code in markup.foreign:
            self._foreign.setdefault(code, line)
        if markup.lines:
            text = DocumentText(self._text[start:end], f"line {line}", markup=markup)
            self._text_slots.append(Slot(text, edits))

    def _add_inline(self, inline: Inline) -> None:
        source = inline.as_html(self._options.attributes)
        if not self._options.attributes:
            self._images += sum(
                has_letters(part.raw[slice(*part.alt)]) for part in inline.parts
            )

        def edits(translation: TranslatedText) -> Iterator[Edit]:
            if translation.text != source:
                written = inline.write(translation.text)
                yield Edit(inline.start, inline.end, written)

        self._add_marked(inline.start, inline.end, source, edits)

    def _add_field(self, field: re.Match[str]) -> None:
        """Add a text of the front matter; quotation marks stay, or are added if it needs them."""
        style = field.lastgroup or ""
        if style != "double" or "\\" not in field[style]:
            self._add_plain(*field.span(style), _FIELD_ESCAPES[style])

    def _add_plain(self, start: int, end: int, escape: Callable[[str], str]) -> None:
        text = self._text[start:end]
        if has_letters(text):
            slot_text = DocumentText(text, f"line {self.source.line_of(start)}")
            self._text_slots.append(value_slot(start, end, slot_text, escape))
