"""Translation files of XLIFF 1.2 and 2 as documents."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from regard.documents.document import (
    DocumentText,
    Edit,
    Slot,
    State,
    States,
    is_blank,
    verdict,
)
from regard.documents.xml_content import Codes, Content
from regard.documents.xml_source import Element, XmlFile
from regard.text.markup.tags import names
from regard.text.text_format import TranslatedText

_CODES = {
    "1": Codes(names("bpt ept ph it"), names("bpt bx"), names("ept ex")),
    "2": Codes(names("ph cp"), names("sc sm"), names("ec em")),
}
"""Inline elements by the first figure of the version."""
_STATE = {"state": "needs-review-translation", "state-qualifier": "mt-suggestion"}
_BROKEN = {**_STATE, "state": "needs-translation"}
"""Attributes of a new target in version 1.2."""
_UNTRANSLATED = {"new", "needs-translation", "initial"}
"""States of a target that is there, but is no translation."""


class _Segment(NamedTuple):
    """A source, and the element that it stands in with its target, if it has one."""

    parent: Element
    source: Element
    text_element: Element
    target: Element | None

    @property
    def is_old(self) -> bool:
        """True in version 1.2, in which the target has the state."""
        return self.parent.name == "trans-unit"

    @property
    def unit(self) -> Element:
        """The unit of the segment."""
        return self.parent if self.is_old else self.parent.parent or self.parent

    @property
    def marks(self) -> dict[str, str]:
        """The attributes of the element that has the state."""
        element = self.target if self.is_old else self.parent
        return element.attributes if element else {}


class XliffFile(XmlFile):
    """A translation file of XLIFF, whose targets are filled."""

    lock = 'translate="no"'

    def mistaken(self) -> str:
        """Return why the file is of no known version; empty if it is of one."""
        version = self.root.attributes.get("version", "")
        if self.root.name == "xliff" and version[:1] in _CODES:
            return ""
        return (
            f"wanted <xliff> of version 1.2 or 2, got <{self.root.tag}> of version "
            f"{version[:20]!r}; export it as one of these"
        )

    def language_edits(self) -> Iterator[Edit]:
        """Yield edits that name the language of targets where the file names none."""
        code = self.options.languages.target
        attribute = "trglang"
        elements = [self.root]
        name = "trgLang"
        if not any(self.root.walk("unit")):
            attribute = name = "target-language"
            elements = [*self.root.walk("file")]
        for element in elements:
            if code and attribute not in element.attributes:
                yield from self.set_attributes(element, **{name: code})

    def _segments(self) -> Iterator[_Segment]:
        for parent in self.root.walk("trans-unit", "segment"):
            source = parent.child("source")
            if source:
                text_element = parent.child("seg-source") or source
                yield _Segment(parent, source, text_element, parent.child("target"))

    def slots(self) -> Iterator[Slot]:
        """Yield the texts that are translated."""
        for segment in self._segments():
            raw = self.content(segment.text_element)
            if not raw.strip():
                continue
            if segment.parent.inherited("translate") == "no":
                self.locked += 1
            elif self._is_translated(segment) and not self.options.retranslate:
                self.kept += 1
            else:
                yield self._slot(segment, raw)

    def states(self) -> States:
        """Yield the entries, and how far each is."""
        for segment in self._segments():
            file = segment.parent.inherited("original")
            context = f"{file}\n{segment.unit.attributes.get('id', '')}"
            mark = segment.marks.get("state", "")
            is_marked = mark == "translated" and "substate" in segment.marks
            state: State = "read"
            if not self._is_translated(segment):
                state = "untranslated"
            elif is_marked or mark.startswith("needs-"):
                state = "unread"
            yield (context, self.content(segment.source)), state

    def _is_translated(self, segment: _Segment) -> bool:
        has_text = bool(self.content(segment.target).strip())
        return has_text and segment.marks.get("state") not in _UNTRANSLATED

    def _slot(self, segment: _Segment, raw: str) -> Slot:
        is_wrapped = "\n" in raw and raw[:1].isspace()
        keeps_space = segment.text_element.inherited("xml:space") == "preserve"
        content = Content(
            raw,
            self.options,
            _CODES[self.root.attributes["version"][:1]],
            is_wrapped and not keeps_space,
        )
        unit = segment.unit
        holder = unit.child("notes") or unit
        notes = [self.text_of(note) for note in holder.children if note.name == "note"]
        name = unit.attributes.get("id") or f"line {self.source.line_of(unit.start)}"
        text = DocumentText(
            content.text,
            f"unit {name}",
            max_characters=_limit(unit),
            comment="\n".join(notes),
            markup=content.markup,
        )
        return Slot(text, partial(self._write, segment, content))

    def _write(
        self, segment: _Segment, content: Content, translation: TranslatedText
    ) -> Iterator[Edit]:
        if is_blank(translation):
            return
        written = content.write(translation.text, self.writer)
        quality = verdict(translation)
        states = _BROKEN if translation.broken else _STATE
        target = segment.target
        if target is None:
            space = self.space_before(segment.source)
            tag = segment.source.tag.replace("source", "target")
            marks = "".join(f' {key}="{value}"' for key, value in states.items())
            opening = f"{tag}{marks}" if segment.is_old else tag
            end = segment.text_element.end
            yield Edit(end, end, f"{space}<{opening}>{written}</{tag}>")
        else:
            yield from self.replace_content(target, written)
        if not segment.is_old:
            state = {"state": "initial" if translation.broken else "translated"}
            result = "broken" if translation.broken else quality.partition(": ")[2]
            # By this mark it is known that nobody has read it yet.
            state["subState"] = f"regard:{result.replace(' ', '-') or 'unread'}"
            yield from self.set_attributes(segment.parent, **state)
            return
        if target:
            yield from self.set_attributes(target, **states)
        if quality:
            yield self._note(segment, self.writer.escape(quality))
        if "approved" in segment.parent.attributes:
            yield from self.set_attributes(segment.parent, approved="no")

    def _note(self, segment: _Segment, quality: str) -> Edit:
        """Return the edit that notes the quality, in place of an older note."""
        tag = segment.source.tag.replace("source", "note")
        note = f'<{tag} from="Regard" annotates="target">{quality}</{tag}>'
        for child in segment.parent.children:
            if child.name == "note" and child.attributes.get("from") == "Regard":
                return Edit(child.start, child.end, note)
        end = (segment.target or segment.text_element).end
        return Edit(end, end, self.space_before(segment.source) + note)


def _limit(unit: Element) -> int | None:
    """Return the number of characters that a unit has room for; None if it does not say."""
    width = unit.inherited("maxwidth") if unit.inherited("size-unit") == "char" else ""
    width = width or unit.attributes.get("slr:sizerestriction", "")
    return int(width) or None if width.isdecimal() else None
