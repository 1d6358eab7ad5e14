"""Translation files: the pairs of TMX, XLIFF (1.2 and 2) and PO, as tables whose columns are
languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import BinaryIO
from xml.parsers import expat

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.language_codes import canonical_code
from regard.data.table_columns import HEAD, Record, Table
from regard.data.text import CUT, READ_LINE, LineReader

_BLOCK = 1 << 16  # bytes
_UNITS = ("tu", "trans-unit", "segment")
_PARENTS = {"seg": ("tuv",), "source": _UNITS, "target": _UNITS}
"""Elements with the text of one language, by what they stand in."""
_CODES = ("bpt", "ept", "it", "ph", "sub", "ut")
"""Elements within a text whose content is none."""
_SIDES = {
    "source-language": "source",
    "srcLang": "source",
    "srclang": "source",
    "target-language": "target",
    "trgLang": "target",
}
"""Sides by the attributes that name their languages."""
_XML_LANGUAGE = "http://www.w3.org/XML/1998/namespace lang"
_PO_LINE = re.compile(r'(?:(msgctxt|msgid|msgid_plural|msgstr(?:\[\d\])?) *)?"(.*)"')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

Unit = tuple[dict[str, str], int]
"""Texts by language, and the number of their first line."""


def read_xml(reader: LineReader) -> Table:
    """Read TMX or XLIFF; tags within a text are left out.

    Raises DataError for XML that is broken or declares entities.
    """
    parser = _XmlUnits(reader)
    units = reader.read(parser.read)
    head = [*islice(units, HEAD)]
    names = [*dict.fromkeys(chain.from_iterable(texts for texts, _ in head))]
    names.sort(key=lambda name: name != parser.languages["source"])
    rows = [[texts.get(name, "") for name in names] for texts, _ in head]
    first = head[0][1] if head else 1

    def records() -> Iterator[tuple[Record, int]]:
        stream = chain(head, units)
        texts, line = next(stream, ({}, 1))
        for following, start in chain(stream, [({}, 0)]):
            yield [texts.get(name, "") for name in names], max(1, start - line)
            texts, line = following, start

    return Table([names, *rows], records(), has_names=True, skipped=first - 1)


class _XmlUnits:
    """Parser of the units of TMX or XLIFF."""

    def __init__(self, reader: LineReader) -> None:
        self.languages = {"source": "source", "target": "target"}
        self._reader = reader
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add
        self._parser.EntityDeclHandler = self._refuse_entity
        self._open = [""]  # names of elements
        self._codes = 0  # open elements whose content is no text
        self._language = ""  # of the unit's next text
        self._side: str | None = None  # the language of the open text
        self._texts: dict[str, str] = {}
        self._line = 1
        self._done: list[Unit] = []

    def read(self, file: BinaryIO) -> Iterator[Unit]:
        """Yield the units of an open file."""
        data = b" "
        while data:
            data = file.read(_BLOCK)
            try:
                self._parser.Parse(data, not data)
            except expat.ExpatError as problem:
                raise DataError(
                    f"{self._reader.path}: damaged, or not XML ({problem}); export it again"
                ) from None
            yield from self._done
            self._done.clear()

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        for key, side in _SIDES.items():
            if key in attributes and name in ("file", "xliff", "header"):
                self.languages[side] = _code(attributes[key])
        if name in _UNITS:
            self._line = self._parser.CurrentLineNumber
        elif name == "tuv":
            self._language = _code(
                attributes.get(_XML_LANGUAGE, attributes.get("lang", ""))
            )
        elif self._open[-1] in _PARENTS.get(name, ()):
            self._side = self.languages.get(name, self._language)
            self._texts[self._side] = ""
        self._codes += name in _CODES
        self._open.append(name)

    def _end(self, _: str) -> None:
        name = self._open.pop()
        self._codes -= name in _CODES
        if self._open[-1] in _PARENTS.get(name, ()):
            self._side = None
        elif name in _UNITS:
            self._done.append((self._texts, self._line))
            self._texts = {}

    def _add(self, text: str) -> None:
        if self._side is not None and not self._codes:
            whole = self._texts[self._side] + text
            is_long = len(whole) > self._reader.max_line or whole.startswith(CUT)
            self._texts[self._side] = CUT if is_long else whole

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise DataError(
            f"{self._reader.path}: declares the entity {name[:40]!r}, and such files are not read; "
            "export it without"
        )


def _code(text: str) -> str:
    """Return a language code in its usual form; other text as it is."""
    try:
        return canonical_code(text)
    except ValueError:
        return text


def read_po(lines: Iterable[str]) -> Table:
    """Read a message catalogue; fuzzy entries are left out, and a plural is a further pair."""
    entries = _po_entries(lines)
    head = [*islice(entries, HEAD)]
    header = next(
        (entry.get("msgstr", "") for entry, _ in head if not entry.get("msgid")), ""
    )
    language = re.search(r"(?m)^Language: *([\w@.-]+)", header)
    names = ["source", _code(language[1]) if language else "target"]
    fuzzy = 0

    def records() -> Iterator[tuple[Record, int]]:
        nonlocal fuzzy
        for entry, count in chain(head, entries):
            is_fuzzy = "fuzzy" in entry.get("flags", "")
            fuzzy += is_fuzzy
            pairs = _po_pairs(entry)
            if is_fuzzy or not entry.get("msgid"):
                pairs = [[]]
            for pair in pairs[:-1]:
                yield pair, 1
            yield pairs[-1], max(1, count - len(pairs) + 1)

    def notes() -> list[str]:
        entries = counted(fuzzy, "fuzzy entry was", "fuzzy entries were")
        return (
            [f"{entries} left out (`msgattrib --clear-fuzzy` takes the flags away)"]
            if fuzzy
            else []
        )

    rows = [
        pair for entry, _ in head if entry.get("msgid") for pair in _po_pairs(entry)
    ]
    return Table([names, *rows], records(), has_names=True, notes=notes)


def read_po_flags(lines: Iterable[str]) -> dict[int, list[str]]:
    """Return the flags of a message catalogue, such as c-format, by the lines of its pairs."""
    flags = dict[int, list[str]]()
    line = 1
    for entry, count in _po_entries(lines):
        own = re.findall(r"[\w+-]+", entry.get("flags", ""))
        flags |= {
            line + number: own for number, _ in enumerate(_po_pairs(entry)) if own
        }
        line += count
    return flags


def _po_pairs(entry: dict[str, str]) -> list[list[str]]:
    """Return the message with its translation, and the plural with the last of its forms."""
    forms = [text for key, text in entry.items() if key.startswith("msgstr")] or [""]
    pairs = [[entry.get("msgid", ""), forms[0]]]
    if "msgid_plural" in entry:
        pairs.append([entry["msgid_plural"], forms[-1]])
    return pairs


def _po_entries(lines: Iterable[str]) -> Iterator[tuple[dict[str, str], int]]:
    """Yield the texts of each entry by their keywords, and its number of lines; the key flags
    has its flags.
    """
    entry: dict[str, str] = {}
    count = 0
    key = ""
    for line in lines:
        match = _PO_LINE.fullmatch(line.strip())
        keyword = match[1] if match else ""
        begins = keyword in ("msgctxt", "msgid") or line.startswith("#")
        if begins and any(name.startswith("msgstr") for name in entry):
            yield entry, count
            entry, count = {}, 0
        count += 1
        if line.startswith("#,"):
            entry["flags"] = entry.get("flags", "") + line
        elif match:
            key = keyword or key
            text = re.sub(
                r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), match[2]
            )
            whole = entry.get(key, "") + text
            is_long = len(whole) > READ_LINE or whole.startswith(CUT)
            entry[key] = CUT if is_long else whole
    if entry:
        yield entry, count
