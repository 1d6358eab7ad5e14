"""Documents of office programs: packages (ZIP) of XML, of which only changed members are written
anew; all others are copied as they stand, with their compression, order and times.
"""

from __future__ import annotations

import locale
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from xml.parsers import expat

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.language_codes import base_language, script_of
from regard.data.sentences import has_letters
from regard.documents.document import (
    Document,
    DocumentOptions,
    DocumentText,
    Edit,
    apply_edits,
)
from regard.documents.encoding import EncodedText, decode_file
from regard.documents.runs import Paragraph, apply_inner
from regard.text.markup.elements import MarkupOptions
from regard.text.text_format import TranslatedText

MAX_UNPACKED = 1 << 28  # bytes of all members that are read
_NOT_TEXT = re.compile(r"<(k\d+)>.*?</\1>|<[^>]*>|&\w+;", re.DOTALL)
_SLOTS = {
    **dict.fromkeys(("Kore", "Jpan", "Hans", "Hant", "Hani"), 1),
    **dict.fromkeys(("Arab", "Hebr", "Syrc", "Thaa", "Thai", "Deva"), 2),
}
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)
"""Errors of the library about packages that are damaged."""
_CHANGE = re.compile(
    r"<(?:w:(?:ins|del|moveFrom|moveTo)|text:change(?:-start|-end)?)\s"
)
"""Marks of a tracked change in Word and LibreOffice."""
_NAMED = 5
"""Maximum number of paragraphs that a note names."""
_OLE = b"\xd0\xcf\x11\xe0"


class Package:
    """A package: its members in the order of the file.

    Raises DataError for what is no package, and for one with a password.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self._data = data
        self._unread = MAX_UNPACKED
        if data.startswith(_OLE):
            raise DataError(
                f"{name}: has a password, or is of the old format of Word (.doc); open it in an "
                "office program, remove the password, and save it as .docx"
            )
        try:
            with zipfile.ZipFile(BytesIO(data)) as package:
                self._infos = package.infolist()
                self._comment = package.comment
                self._directory = package.start_dir
            self._offsets = sorted(info.header_offset for info in self._infos)
            if not all(0 <= offset < self._directory for offset in self._offsets):
                raise zipfile.BadZipFile("a member begins outside of the file")
        except _DAMAGE as problem:
            raise DataError(
                f"{name}: no document of an office program, or cut short ({problem}); save it anew"
            ) from None
        counts = Counter(info.filename for info in self._infos)
        twice = [member for member, count in counts.items() if count > 1]
        if twice:
            raise DataError(f"{name}: has {twice[0]} twice; open it and save it anew")
        self.members = {info.filename: info for info in self._infos}

    def notes(self, left: Mapping[str, str]) -> Iterator[str]:
        """Yield what is said of members, by patterns of their names."""
        for note, pattern in left.items():
            if any(re.search(pattern, member) for member in self.members):
                yield note

    def read(self, member: str) -> EncodedText:
        """Read a member, which has to be XML that declares no entities.

        Raises DataError for one that is too large, damaged or not well-formed.
        """
        where = f"{self.name}, {member}"
        info = self.members.get(member)
        if info is None:
            raise DataError(f"{where}: is missing; open the file and save it anew")
        self._unread -= info.file_size
        if self._unread < 0:
            raise DataError(
                f"{where}: the file unpacks to more than {MAX_UNPACKED >> 20} MB; divide it"
            )
        try:
            with zipfile.ZipFile(BytesIO(self._data)) as package:
                data = package.read(member)
        except _DAMAGE as problem:
            raise DataError(f"{where}: cannot be unpacked ({problem})") from None
        decoded = decode_file(data, where)
        _check_xml(decoded.text, where)
        return decoded

    def write(self, changed: Mapping[str, bytes]) -> bytes:
        """Return the package with other contents of some members."""
        if not changed:
            return self._data
        ends = dict(pairwise([*self._offsets, self._directory]))
        file = BytesIO()
        with zipfile.ZipFile(file, "w") as package:
            package.comment = self._comment
            for info in sorted(self._infos, key=lambda info: info.header_offset):
                start = info.header_offset
                info = copy(info)
                if info.filename in changed:
                    package.writestr(info, changed[info.filename])
                else:
                    info.header_offset = file.tell()
                    file.write(self._data[start : ends[start]])
                    package.filelist.append(info)
                package.start_dir = file.tell()
        return file.getvalue()


@dataclass(frozen=True)
class Part:
    """A member with text: its paragraphs, inner ones before those around them, and what is done to
    it at last.
    """

    member: str
    source: EncodedText
    paragraphs: Sequence[Paragraph] = ()
    finish: Callable[[str], str] = str


class OfficeDocument(Document):
    """A document of an office program. `write_text` writes text as an element of the format."""

    def __init__(
        self,
        package: Package,
        parts: Iterable[Part],
        write_text: Callable[[str], str],
        options: DocumentOptions,
        notes: Iterable[str],
    ) -> None:
        self._package = package
        self._write_text = write_text
        self._parts = list[Part]()
        markup_options = MarkupOptions(
            sentences=options.sentences, mark_spans=options.mark_spans
        )
        texts = list[DocumentText]()
        changed = list[str]()
        for part in parts:
            kept = list[Paragraph]()
            for number, paragraph in enumerate(part.paragraphs, 1):
                name = f"paragraph {number} of {part.member}"
                source = part.source.text
                if _CHANGE.search(source, paragraph.start, paragraph.end):
                    changed.append(name)
                    continue
                markup = paragraph.markup(markup_options)
                if markup.lines:
                    kept.append(paragraph)
                    text = " ".join(markup.lines)
                    texts.append(DocumentText(text, name, markup=markup))
            self._parts.append(replace(part, paragraphs=kept))
        super().__init__(texts, [*_changed_note(changed), *notes])

    def write(self, translations: Sequence[TranslatedText]) -> bytes:
        """Return the package with the translated paragraphs."""
        changed = dict[str, bytes]()
        rest = iter(translations)
        for part in self._parts:
            source = part.source.text
            edits = list[Edit]()
            for paragraph, translation in zip(part.paragraphs, rest, strict=False):
                has_text = has_letters(_NOT_TEXT.sub("", translation.text))
                if translation.text == paragraph.source or not has_text:
                    continue
                raw = apply_inner(source, edits, paragraph)
                text = paragraph.write(translation.text, raw, self._write_text)
                edits.append(Edit(paragraph.start, paragraph.end, text))
            text = part.finish(apply_edits(source, edits))
            if text != source:
                changed[part.member] = part.source.encode(text)
        return self._package.write(changed)


def _changed_note(names: Sequence[str]) -> list[str]:
    """Say that paragraphs with tracked changes stay, since a translation would move their words
    across the borders of the changes.
    """
    if not names:
        return []
    count = counted(len(names), "paragraph")
    return [
        f"tracked changes: {count} with them, such as {', '.join(names[:_NAMED])}, "
        "stay in their language; accept or reject the changes, and translate again"
    ]


def region_code(code: str) -> str:
    """Return the code of a language with a region, as office programs write it, if one is known."""
    normalized = locale.normalize(code.replace("-", "_"))
    return normalized.partition(".")[0].replace("_", "-")


def language_slot(code: str) -> int:
    """Return which of the three languages of office programs one is: 0 for most, 1 for those of
    East Asia, 2 for those with complex scripts.
    """
    return _SLOTS.get(script_of(code), 0)


def is_language(code: str, wanted: str) -> bool:
    """Return whether a code is of a wanted language, in any region."""
    return bool(wanted) and base_language(code) == base_language(wanted)


def get_attribute(tag: str, name: str) -> str:
    """Return the value of an attribute of a tag; empty if it has none."""
    match = re.search(rf"\s{name}\s*=\s*[\"']([^\"']*)", tag)
    return match[1] if match else ""


def with_attribute(tag: str, name: str, value: str) -> str:
    """Return a tag with another value of an attribute."""
    new, count = re.subn(
        rf"(\s{name}\s*=\s*)(\"[^\"]*\"|'[^']*')", rf'\g<1>"{value}"', tag
    )
    return new if count else re.sub(r"\s*/?>$", rf' {name}="{value}"\g<0>', tag)


def _check_xml(text: str, where: str) -> None:
    """Raise DataError for XML that is not well-formed, or that declares entities, by which it could
    name other files, or grow.
    """

    def refuse(*_: object) -> None:
        raise DataError(
            f"{where}: declares an entity, which no office program does; save the file anew"
        )

    parser = expat.ParserCreate("utf-8")
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as problem:
        raise DataError(
            f"{where}, line {problem.lineno}: no well-formed XML "
            f"({expat.ErrorString(problem.code)}); open the file and save it anew"
        ) from None
