"""Message catalogues (PO, and their templates, POT) as documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from typing import NamedTuple

from regard.common.bilingual import text_width
from regard.common.errors import DataError
from regard.common.lazy import lazy_pattern
from regard.contracts.dialects import PLAIN, table
from regard.contracts.judge import judge_code
from regard.documents.document import (
    MACHINE,
    DocumentOptions,
    DocumentText,
    Edit,
    Slot,
    States,
    StringFile,
    is_blank,
    verdict,
)
from regard.documents.encoding import decode_file
from regard.documents.plural_rules import (
    ENGLISH,
    PluralRule,
    plural_rule,
    read_plural_rule,
)
from regard.text.text_format import TranslatedText
from regard.text.text_path import AUTO

_UNSET_CHARSETS = ("CHARSET", "ASCII", "US-ASCII")
"""Encodings of headers that nobody has chosen: `msginit` writes ASCII where it lacks the locale."""
_CHARSET = re.compile(rb'(?m)^"Content-Type:[^"\n]*charset=([\w.:-]+)')
_TEXT = lazy_pattern(r'"((?:[^"\\]|\\.)*)"')
_LINE = lazy_pattern(
    r"(?P<keyword>msg(?:ctxt|id_plural|id|str(?:\[\d{1,2}\])?))?[ \t]*"
    r'(?P<text>"(?:[^"\\]|\\.)*")'
)
_ORDER = lazy_pattern(
    r"msgctxt|(?:msgctxt )?msgid(?: msgstr| msgid_plural(?: msgstr\[\d+\])*)?"
)
"""Keywords of an entry that is complete, or goes on."""
_ESCAPE = lazy_pattern(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)")
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    '"': '"',
}
_ESCAPED = str.maketrans({text: f"\\{letter}" for letter, text in _ESCAPES.items()})
_MAX_LENGTH = lazy_pattern(r"\bmax-length:\s*(\d{1,6})")
_LANGUAGE = lazy_pattern(r"(?m)^Language:[ \t]*([\w@.-]*)")
_PLURAL_FORMS = lazy_pattern(r"(?m)^Plural-Forms:(.*)$")
_TEMPLATE_FORMS = "nplurals=INTEGER; plural=EXPRESSION;"
_WIDTH = 79
"""Columns of a line as the tools of gettext wrap them."""


@dataclass
class _String:
    """A string of an entry: its bounds from the first to the last quotation mark, the texts of its
    lines without these, and the number of its first line.
    """

    start: int
    end: int
    line: int
    raw: list[str]

    @property
    def text(self) -> str:
        """The text as a program has it."""
        return _ESCAPE.sub(_unescape, "".join(self.raw))


class _Comment(NamedTuple):
    """A comment between two offsets, the second after the end of its line."""

    start: int
    end: int
    text: str


@dataclass
class _Entry:
    """An entry: its comments, and its strings by their keywords. `start` is the offset of the line
    of its first string.
    """

    start: int = 0
    comments: list[_Comment] = field(default_factory=list)
    strings: dict[str, _String] = field(default_factory=dict)

    def comment(self, *marks: str) -> _Comment | None:
        """Return the first comment that begins with one of some marks."""
        comments = (
            comment for comment in self.comments if comment.text.startswith(marks)
        )
        return next(comments, None)

    def offset_before(self, *marks: str) -> int:
        """Return the offset before the first comment that begins with one of some marks, or else
        before the strings.
        """
        comment = self.comment(*marks)
        return comment.start if comment else self.start

    @property
    def flags(self) -> list[str]:
        """The flags, such as fuzzy and c-format."""
        lines = (line.text for line in self.comments if line.text.startswith("#,"))
        return [flag.strip() for line in lines for flag in line[2:].split(",")]

    @property
    def forms(self) -> dict[int, _String]:
        """The translations by the numbers of their forms."""
        return {
            int(key[7:-1] or 0): string
            for key, string in self.strings.items()
            if key.startswith("msgstr")
        }


def _read_entries(text: str, name: str) -> tuple[list[_Entry], int]:
    """Return the entries of a catalogue, and how many are obsolete."""
    entries = [_Entry()]
    obsolete = 0
    offset = 0
    last: _String | None = None
    for number, line in enumerate(text.split("\n"), 1):
        start = offset
        offset += len(line) + 1
        content = line.strip()
        match = _LINE.fullmatch(content)
        keyword = match["keyword"] if match else None
        is_comment = content.startswith("#")
        if (is_comment or keyword in ("msgctxt", "msgid")) and entries[-1].forms:
            entries.append(_Entry())
        entry = entries[-1]
        if content.startswith("#~"):
            obsolete += content.startswith("#~ msgid ")
            entry.comments.clear()
        elif is_comment:
            end = min(offset, len(text))
            entry.comments.append(_Comment(start, end, content))
        elif match and not keyword and last:
            last.end = start + len(line.rstrip())
            last.raw.append(match["text"][1:-1])
        elif keyword and match and _is_in_place(keyword, entry):
            entry.start = entry.start if entry.strings else start
            bounds = (start + line.index('"'), start + len(line.rstrip()))
            last = _String(*bounds, number, [match["text"][1:-1]])
            entry.strings[keyword] = last
        elif content:
            raise _malformed(name, number, content)
        last = None if is_comment else last
    if entries[-1].strings and not entries[-1].forms:
        raise _malformed(name, number, "the end of the file")
    return [entry for entry in entries if entry.strings], obsolete


def _is_in_place(keyword: str, entry: _Entry) -> bool:
    """Return whether a string may follow those that an entry has."""
    order = " ".join([*entry.strings, keyword])
    return keyword not in entry.strings and bool(_ORDER.fullmatch(order))


def _malformed(name: str, line: int, content: str) -> DataError:
    return DataError(
        f"{name}, line {line}: wanted a comment, a text in quotation marks, or msgctxt, msgid, "
        f"msgid_plural or msgstr in this order, got {content[:60]!r}; mend the catalogue "
        "(`msgfmt -c` names all such lines)"
    )


class Catalogue(StringFile):
    """A message catalogue.

    Raises DataError, with the line, for one that is malformed, or whose rule of plurals is.
    """

    last_form = "msgid_plural"
    locked_notes = (
        "obsolete entry stays as written",
        "obsolete entries stay as written",
    )

    def __init__(self, data: bytes, name: str, options: DocumentOptions) -> None:
        charset = _CHARSET.search(data)
        declared = charset[1].decode() if charset else "utf-8"
        encoding = "utf-8" if declared in _UNSET_CHARSETS else declared
        source = decode_file(data, name, encoding)
        self._newline = "\r\n" if "\r\n" in source.text else "\n"
        self._entries, self.locked = _read_entries(source.text, name)
        headers = (
            entry
            for entry in self._entries
            if "msgctxt" not in entry.strings and not entry.strings["msgid"].text
        )
        self._header = next(headers, None)
        self._width = _wrapping(self._entries)
        self._owners = list[_Entry]()
        has_plurals = any("msgid_plural" in entry.strings for entry in self._entries)
        target = options.languages.target
        self._rule = self._read_rule(name, target) if has_plurals else ENGLISH
        super().__init__(source, options)

    def _read_rule(self, name: str, target: str) -> PluralRule:
        """Return the rule of the header, or else that of the target language."""
        header = self._header.forms[0] if self._header else None
        text = header.text if header else ""
        language = _LANGUAGE.search(text)
        codes = (language[1] if language else "", target)
        rules = (plural_rule(code) for code in codes)
        match = _PLURAL_FORMS.search(text)
        if header is None or not match or match[1].strip() == _TEMPLATE_FORMS:
            return next(filter(None, rules), ENGLISH)
        try:
            return read_plural_rule(match[1])
        except ValueError as problem:
            raise DataError(
                f"{name}, line {header.line}: Plural-Forms is {match[1].strip()[:60]!r}, and "
                f"{problem}; write the rule of the language"
            ) from None

    def language_edits(self) -> Iterator[Edit]:
        """Yield edits that fill the placeholders of a template."""
        if self._header is None:
            return
        header = self._header.forms[0]
        code = self.options.languages.target
        values = [(rf"charset=({'|'.join(_UNSET_CHARSETS)})\\n", "UTF-8")]
        if code:
            locale = code.replace("-", "_")
            values.append((r'"Language:( ?)\\n"', f" {locale}"))
        rule = plural_rule(code)
        if rule:
            values.append((f"({re.escape(_TEMPLATE_FORMS)})", rule.header))
        for pattern, value in values:
            match = re.compile(pattern).search(
                self.source.text, header.start, header.end
            )
            if match:
                yield Edit(*match.span(1), value)

    def states(self) -> States:
        """Yield the entries, and how far each is."""
        for entry in self._entries:
            context = entry.strings.get("msgctxt")
            key = (context.text if context else "", entry.strings["msgid"].text)
            if entry is self._header:
                continue
            if not any(form.text for form in entry.forms.values()):
                yield key, "untranslated"
            else:
                yield key, "unread" if "fuzzy" in entry.flags else "read"

    def slots(self) -> Iterator[Slot]:
        """Yield the texts that are translated."""
        for entry in self._entries:
            yield from self._slots_of(entry)

    def _slots_of(self, entry: _Entry) -> Iterator[Slot]:
        source = entry.strings["msgid"].text
        if entry is self._header or not source:
            return
        plural = entry.strings.get("msgid_plural")
        count = self._rule.count if plural else 1
        has_text = {number for number, form in entry.forms.items() if form.text}
        done = set() if self.options.retranslate else has_text
        self.kept += len(done)
        numbers = {*range(count)} - done
        if not numbers:
            return
        self.invented += max(numbers) > 1
        extra = {*entry.forms} - {*range(count)} - has_text
        singular = {number for number in numbers if self._has_singular(entry, number)}
        texts = [
            (source, singular),
            (plural.text if plural else "", numbers - singular),
        ]
        for text, own in texts:
            if own:
                self._owners.append(entry)
                write = partial(self._write, entry, own, extra)
                yield Slot(self._text_of(entry, text), write)
                extra = set()

    def _has_singular(self, entry: _Entry, form: int) -> bool:
        """Return whether a form is translated from msgid; a form of several numbers needs the
        number that only msgid_plural may have.
        """
        plural = entry.strings.get("msgid_plural")
        if plural is None or self._rule.is_for_one(form):
            return True
        dialect = _dialect(entry.flags)
        faults = judge_code(
            plural.text,
            entry.strings["msgid"].text,
            PLAIN if dialect == AUTO else dialect,
        )
        has_all = not any(fault.breaks_programs for fault in faults)
        return self._rule.is_singular(form) and has_all

    def _text_of(self, entry: _Entry, text: str) -> DocumentText:
        notes = [
            comment.text
            for comment in entry.comments
            if comment.text[1:2] in (".", ",")
        ]
        limit = _MAX_LENGTH.search(" ".join(notes))
        context = entry.strings.get("msgctxt")
        comments = [note[2:].strip() for note in notes if note[1] == "."]
        comments += [context.text] if context else []
        return DocumentText(
            text,
            f"line {entry.strings['msgid'].line}",
            _dialect(entry.flags),
            int(limit[1]) or None if limit else None,
            "\n".join(comments),
        )

    def _write(
        self,
        entry: _Entry,
        numbers: set[int],
        extra: Iterable[int],
        translation: TranslatedText,
    ) -> Iterator[Edit]:
        """Yield the edits of forms with one text, and those that leave out the `extra` forms, which
        are empty.
        """
        if is_blank(translation):
            return
        forms = entry.forms
        last = forms[max(forms)]
        for number in sorted(numbers):
            keyword = "msgstr" if "msgstr" in entry.strings else f"msgstr[{number}]"
            written = self._string(entry, keyword, translation.text)
            if number in forms:
                yield Edit(forms[number].start, forms[number].end, written)
            else:
                end = forms.get(number - 1, last).end
                yield Edit(end, end, f"{self._newline}{keyword} {written}")
        for number in extra:
            if number - 1 in forms:
                yield Edit(forms[number - 1].end, forms[number].end, "")

    def edits(self, translations: Sequence[TranslatedText]) -> list[Edit]:
        """Return the edits of all texts, and those that mark each entry, once for its texts."""
        edits = super().edits(translations)
        pairs = zip(self._owners, translations, strict=True)
        for _, group in groupby(pairs, lambda pair: id(pair[0])):
            owners, texts = zip(*group, strict=True)
            lines = [
                line for text in texts if not is_blank(text) for line in text.lines
            ]
            if lines:
                edits += self._marks(owners[0], TranslatedText("", lines=(*lines,)))
        return edits

    def _marks(self, entry: _Entry, translation: TranslatedText) -> Iterator[Edit]:
        """Yield the comment on the quality, and the flag of what nobody has read yet."""
        quality = verdict(translation)
        old = entry.comment(f"# {MACHINE}")
        comment = f"# {quality}{self._newline}" if quality else ""
        before = entry.offset_before("#.", "#:", "#,", "#|")
        if old:
            yield Edit(old.start, old.end, comment)
        elif comment:
            yield Edit(before, before, comment)
        flags = entry.comment("#,")
        if flags is None:
            before = entry.offset_before("#|")
            yield Edit(before, before, f"#, fuzzy{self._newline}")
        elif "fuzzy" not in entry.flags:
            start = self.source.text.index("#,", flags.start) + 2
            comma = "," if entry.flags != [""] else ""
            yield Edit(start, start, f" fuzzy{comma}")
        for line in entry.comments:
            if line.text.startswith("#|"):
                yield Edit(line.start, line.end, "")

    def _string(self, entry: _Entry, keyword: str, text: str) -> str:
        """Return a string as the file writes them: after its line feeds, and within its width."""
        raw = entry.strings["msgid"].raw
        is_divided = not any(re.search(r"\\n.", line) for line in raw)
        parts = re.findall(r"[^\n]*\n|[^\n]+", text) if is_divided else [text]
        escaped = [part.translate(_ESCAPED) for part in parts] or [""]
        width = self._width
        room = width and width - len(keyword) - 3
        if len(escaped) == 1 and not (room and text_width(escaped[0]) > room):
            return f'"{escaped[0]}"'
        if width:
            escaped = [line for part in escaped for line in _wrapped(part, width - 2)]
        return self._newline.join(['""', *(f'"{line}"' for line in escaped)])


def _dialect(flags: list[str]) -> str:
    """Return the dialect that flags name; plain if they deny one."""
    dialects = table()["flags"]
    for flag in flags:
        if flag in dialects:
            dialect: str = dialects[flag]
            return dialect
        if flag.removeprefix("no-") in dialects:
            return PLAIN
    return AUTO


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _ESCAPES.get(code, match[0])


def _wrapping(entries: Iterable[_Entry]) -> int:
    """Return the width at which a catalogue wraps its strings; 0 if it does not wrap them."""
    longest = widest = 0
    limit = 10 * _WIDTH  # at which the next word would have been in the line
    for entry in entries:
        for key, string in entry.strings.items():
            longest = max(longest, len(key) + 3 + text_width(string.raw[0]))
            for line, following in pairwise(string.raw):
                if line and not line.endswith("\\n"):
                    width = text_width(line) + 2
                    widest = max(widest, width)
                    limit = min(limit, width + text_width(following.split(" ")[0]))
    if widest:
        return _WIDTH if widest <= _WIDTH < limit else widest
    # Nothing is wrapped, which short strings do not need.
    return 0 if longest > _WIDTH + 1 else _WIDTH


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of an escaped text, which end after spaces."""
    line = ""
    for word in re.findall(r"[^ ]* +|[^ ]+", text):
        if line and text_width(line + word) > width:
            yield line
            line = ""
        line += word
    yield line
