"""Files of keys and values: what their formats have in common."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from regard.common.counting import counted
from regard.common.lazy import lazy_pattern
from regard.contracts.recognise import recognise
from regard.data.language_codes import base_language
from regard.data.sentences import has_letters
from regard.documents.document import (
    DocumentOptions,
    Edit,
    EditedText,
    Slot,
)
from regard.documents.encoding import EncodedText
from regard.documents.plurals import plural_notes
from regard.text.contracts import code_spans
from regard.text.markup.tags import Bounds
from regard.text.text_path import AUTO

_NO_LANGUAGE = lazy_pattern(
    r"[\x00-\x7f]?"
    r"|#[0-9A-Fa-f]{3,8}"
    r"|(?:rgb|hsl)a?\([^()]{1,60}\)"
    r"|(?:%[-_0^#]?[A-Za-z]|[\W\d_]){1,200}"  # a date as strftime writes it
    r"|(?:[yYMdDHhmsaEzZ]{1,4}[\W_]{1,4}){1,9}[yYMdDHhmsaEzZ]{1,4}"
    r"|[a-z]\w*(?:\.[a-z]\w*)+"  # a key of another value
    r"|:[a-z]\w*"  # a symbol of Ruby
    r"|(?s:.*[\ud800-\udfff].*)"
)
"""Values that are not translated: colours, forms of dates, keys with dots, symbols, single
characters, and half characters, which no model reads.
"""
_CODE_KEY = lazy_pattern(
    r"(?i)(?:access|command)key|keycode|shortcut|mnemonic|accelerator|style"
    r"|-(?:.+-)?(?:brand|product|vendor)(?:-.+)?"
)
"""Keys of values for the keyboard and for CSS, and terms of Fluent that are names."""
_TECHNICAL_KEY = lazy_pattern(
    r"(?:_?id|uuid|type|kind|class(?:Name)?|icon|image|src|href|ur[il]|link|path|file|code|colou?r"
    r"|lang|language|locale|slug|format|version|width|height"
    r"|order\[\d\])"  # Rails: in which order a date has its day, month and year
)
_PLAIN_WORD = lazy_pattern(r"(?<!\S)[^\W\d_A-Z]{2,}(?=\s)|(?<=\s)[^\W\d_A-Z]{2,}(?!\S)")
"""A word beside a space, which most sentences have."""
_TECHNICAL_VALUE = lazy_pattern(r"[a-z0-9_./:;#%=-]+")
_ESCAPE = lazy_pattern(r"\\(?:[uU]([0-9A-Fa-f]{4})|([/:=#!'])|.)")
LINE_BREAK = lazy_pattern(r"(\r\n|\r|\n)([ \t]*)(?=\S)")
"""A line break and the indentation of the next line."""
NEWLINES = lazy_pattern(r"\n+")
_GAP = lazy_pattern(r"(?<=\S) (?![^{}]{0,300}\})(?=[^\s\[*.}#])")
LAST = "\U0010ffff"
QUOTED = {letter: json.dumps(letter)[1:-1] for letter in map(chr, range(32))}
QUOTED |= {'"': r"\"", "\\": r"\\"}
"""Escapes that a string of JSON needs."""
MOST_LEVELS = 500
TOO_DEEP = (
    f"more than {MOST_LEVELS} levels, one within the other; no program reads these"
)


def joined_path(keys: Iterable[str]) -> str:
    """Return the name of a value from the keys around it; those of lists are numbers in
    brackets.
    """
    return ".".join(keys).replace(".[", "[")


def is_language(text: str, key: str, dialect: str = AUTO) -> bool:
    """Return whether a value has words to translate: it is no address, identifier, colour or the
    like.
    """
    if _NO_LANGUAGE.fullmatch(text) or _CODE_KEY.fullmatch(key):
        return False
    if _TECHNICAL_KEY.fullmatch(key) and _TECHNICAL_VALUE.fullmatch(text):
        return False
    if _PLAIN_WORD.search(text):
        return True
    end = 0
    for start, stop, *_ in code_spans(text, dialect):
        if has_letters(text[end:start]):
            return True
        end = stop
    return has_letters(text[end:])


def key_values(
    source: EncodedText,
    slots: Iterable[Slot],
    options: DocumentOptions,
    locale: Bounds | None = None,
    separator: str = "-",
) -> EditedText:
    """Return the document of the values that are language.

    All values whose dialect is `auto` have the one that they together speak for. `locale`: where
    the file names its language, whose parts a `separator` parts.
    """
    slots = list(slots)
    dialect = recognise(slot.text.text for slot in slots)
    kept = list[Slot]()
    others = list[Slot]()
    for slot in slots:
        text = slot.text
        if text.dialect == AUTO:
            text = replace(text, dialect=dialect)
        key = text.name.rpartition(" ")[2].rpartition(".")[2]
        if is_language(text.text, key, text.dialect):
            kept.append(slot._replace(text=text))
        else:
            others.append(slot)

    target = options.languages.target
    notes = [*plural_notes((slot.text for slot in kept), target)]
    left = [slot.text.name for slot in others if has_letters(slot.text.text)]
    if left:
        notes.append(
            f"{counted(len(left), 'value stays as it is', 'values stay as they are')}, such as "
            f"{left[0]}: identifiers, addresses, colours, names and the like"
        )
    edits = list[Edit]()
    if locale and target:
        code = source.text[slice(*locale)]
        if base_language(code) == base_language(options.languages.source):
            edits.append(Edit(*locale, target.replace("-", separator)))
        else:
            notes.append(
                f"the file says that its language is {code}, and the model reads "
                f"{options.languages.source or 'a language that it does not name'}; the name stays"
            )
    return EditedText(source, kept, notes, edits, others)


@dataclass(frozen=True)
class Escapes:
    """Escapes as a file writes them: its own, such as `\\/`, and those of all characters behind the
    `last` one that stands for itself.
    """

    own: Mapping[str, str]
    last: str

    @classmethod
    def of(cls, source: str, last: str, necessary: Mapping[str, str]) -> Escapes:
        """Return the escapes of a file, besides those that its format makes `necessary`.

        A letter that a file also has as itself needs none.
        """
        own = dict[str, str]()
        for match in _ESCAPE.finditer(source):
            letter = match[2] or (chr(int(match[1], 16)) if match[1] else "")
            if match[2] or letter not in source:
                own[letter] = match[0]
        return cls({**own, **necessary}, last)

    def write(self, text: str) -> str:
        """Return a text with escapes."""
        return "".join(map(self._written, text))

    def _written(self, letter: str) -> str:
        if letter <= self.last or letter in self.own:
            return self.own.get(letter, letter)
        return json.dumps(letter)[1:-1]


def wrapped(text: str, width: int) -> list[str]:
    """Divide a text into lines of at most `width` characters, if its words are that short. Nothing
    in braces is divided, and no line begins with a sign of a format.
    """
    lines = [""]
    for part in _GAP.split(text):
        if not lines[-1]:
            lines[-1] = part
        elif len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return lines


def folded(text: str, raw: str, indent: str) -> list[str]:
    """Divide a text into lines that are joined by spaces, as wide as those of the form that it
    replaces. A line break of the text is a blank line more.
    """
    width = max(len(line.strip()) for line in raw.splitlines())
    lines = NEWLINES.sub(r"\g<0>\n", text).split("\n")
    return [
        f"{indent}{part}" if part else part
        for line in lines
        for part in wrapped(line, width)
    ]


def rewrapped(text: str, raw: str) -> str:
    """Return a text folded like the form that it replaces, if that has several lines."""
    gap = LINE_BREAK.search(raw)
    if gap is None:
        return text
    newline, indent = gap.groups()
    return newline.join(folded(text, raw, indent)).removeprefix(indent)
