"""Documents of office programs: packages (ZIP) of XML, of which only changed members are written
anew; all others are copied as they stand, with their compression, order and times.
"""

from __future__ import annotations

import html
import locale
import re
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise

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
from regard.documents.xml_source import check_xml
from regard.text.text_format import TranslatedText

_NOT_TEXT = re.compile(r"<(k\d+)>.*?</\1>|<[^>]*>|&\w+;", re.DOTALL)
_SLOTS = {
    **dict.fromkeys(("Kore", "Jpan", "Hans", "Hant", "Hani"), 1),
    **dict.fromkeys(("Arab", "Hebr", "Syrc", "Thaa", "Thai", "Deva"), 2),
}
"""Positions in `language_names` of those of a script, if not the first."""
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
_SHOWN = 40  # characters of a paragraph by which a person finds it
_OLE = b"\xd0\xcf\x11\xe0"


class Package:
    """A package: its members in the order of the file.

    `limit`: bytes of all members that are read. Raises DataError for what is no package, and for
    one with a password.
    """

    def __init__(self, data: bytes, name: str, limit: int) -> None:
        self.name = name
        self._data = data
        self._limit = limit
        self._unread = limit
        if data.startswith(_OLE):
            raise DataError(
                f"{name}: has a password, or is of the old format of Word (.doc); open it in an "
                "office program, remove the password, and save it as .docx"
            )
        try:
            self._archive = zipfile.ZipFile(BytesIO(data))
            infos = self._archive.infolist()
            offsets = [info.header_offset for info in infos]
            if not all(0 <= offset < self._archive.start_dir for offset in offsets):
                raise zipfile.BadZipFile("a member begins outside of the file")
        except _DAMAGE as problem:
            raise DataError(
                f"{name}: no document of an office program, or cut short ({problem}); save it anew"
            ) from None
        self.members = {info.filename: info for info in infos}
        for info in infos:
            if self.members[info.filename] is not info:
                raise DataError(
                    f"{name}: has {info.filename} twice; open it and save it anew"
                )

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
                f"{where}: the file unpacks to more than {self._limit / 1e6:,.0f} MB; divide it"
            )
        try:
            data = self._archive.read(member)
        except _DAMAGE as problem:
            raise DataError(f"{where}: cannot be unpacked ({problem})") from None
        decoded = decode_file(data, where)
        check_xml(decoded)
        return decoded

    def write(self, changed: Mapping[str, bytes]) -> bytes:
        """Return the package with other contents of some members."""
        if not changed:
            return self._data
        members = sorted(
            map(copy, self.members.values()), key=lambda info: info.header_offset
        )
        starts = [info.header_offset for info in members]
        ends = dict(pairwise([*starts, self._archive.start_dir]))
        file = BytesIO()
        with zipfile.ZipFile(file, "w") as package:
            package.comment = self._archive.comment
            for info, start in zip(members, starts, strict=True):
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
    """A member with text: its paragraphs, inner ones before those around them."""

    member: str
    source: EncodedText
    paragraphs: Sequence[Paragraph] = ()


class OfficeDocument(Document):
    """A document of an office program.

    `language_tags` match the tags that name a language, by attributes of which `language_names` has
    those of most languages, of East Asian ones and of those with complex scripts: one for the code,
    or one for the language and one for the country. `left`: sentences on members that stay, by
    patterns of their names.
    """

    language_tags: re.Pattern[str]
    language_names: Sequence[Sequence[str]]
    left: Sequence[tuple[str, str]]

    def __init__(self, data: bytes, name: str, options: DocumentOptions) -> None:
        self._package = Package(data, name, options.unpacked_bytes)
        self._languages = options.languages
        self._parts = list[Part]()
        texts = list[DocumentText]()
        changed = list[str]()
        for part in self.read_parts(self._package):
            kept = list[Paragraph]()
            for number, paragraph in enumerate(part.paragraphs, 1):
                # A tab or a line break parts words, and has no text.
                shown_items = (
                    " " if item.kind == "divider" else item.text
                    for item in paragraph.items
                )
                words = html.unescape("".join(shown_items))
                # Most paragraphs of hostile files have no text, and to parse each takes time.
                if not has_letters(words):
                    continue
                words = " ".join(words.split())
                shown = words[:_SHOWN] + "…" * (len(words) > _SHOWN)
                paragraph_name = f"paragraph {number} of {part.member}, “{shown}”"
                source = part.source.text
                if _CHANGE.search(source, paragraph.start, paragraph.end):
                    changed.append(paragraph_name)
                    continue
                markup = paragraph.markup(options.markup)
                if markup.lines:
                    kept.append(paragraph)
                    text = " ".join(markup.lines)
                    texts.append(DocumentText(text, paragraph_name, markup=markup))
            self._parts.append(replace(part, paragraphs=kept))
        notes = [*self._notes()]
        if changed:
            notes.append(
                f"paragraphs with tracked changes stay as written: {len(changed):,}, such as "
                f"{changed[0]}; accept or reject the changes, and translate again"
            )
        super().__init__(texts, notes)

    @abstractmethod
    def read_parts(self, package: Package) -> Iterator[Part]:
        """Yield the members with text, or with the name of its language."""

    def write_text(self, text: str) -> str:
        """Return text as an element of the format."""
        return text

    def _notes(self) -> Iterator[str]:
        if any("<office:annotation" in part.source.text for part in self._parts):
            yield "comments stay in their language"
        for pattern, note in self.left:
            if any(re.search(pattern, member) for member in self._package.members):
                yield note

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
                text = paragraph.write(translation.text, raw, self.write_text)
                edits.append(Edit(paragraph.start, paragraph.end, text))
            text = self._with_language(apply_edits(source, edits))
            if text != source:
                changed[part.member] = part.source.encode(text)
        return self._package.write(changed)

    def _with_language(self, text: str) -> str:
        """Set the language of a text where it is that of the source."""
        source, target = self._languages.pair
        if not source or not target:
            return text
        old, *_ = self.language_names[_SLOTS.get(script_of(source), 0)]
        new = self.language_names[_SLOTS.get(script_of(target), 0)]
        code = locale.normalize(target.replace("-", "_")).partition(".")[0]
        language, _, country = code.partition("_")
        values = [code.replace("_", "-")]
        if len(new) > 1:
            values = [language, country or "none"]

        def named(match: re.Match[str]) -> str:
            tag = match[0]
            if base_language(get_attribute(tag, old)) == base_language(source):
                for name, value in zip(new, values, strict=True):
                    tag = _with_attribute(tag, name, value)
            return tag

        return self.language_tags.sub(named, text)


def get_attribute(tag: str, name: str) -> str:
    """Return the value of an attribute of a tag; empty if it has none."""
    match = re.search(rf"\s{name}\s*=\s*[\"']([^\"']*)", tag)
    return match[1] if match else ""


def _with_attribute(tag: str, name: str, value: str) -> str:
    """Return a tag with another value of an attribute."""
    new, count = re.subn(
        rf"(\s{name}\s*=\s*)(\"[^\"]*\"|'[^']*')", rf'\g<1>"{value}"', tag
    )
    return new if count else re.sub(r"\s*/?>$", rf' {name}="{value}"\g<0>', tag)
