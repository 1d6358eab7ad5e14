"""String files in XML as documents: Android's strings.xml, RESX of .NET, and TS of Qt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from regard.common.lazy import lazy_pattern
from regard.documents.document import (
    MACHINE,
    DocumentOptions,
    DocumentText,
    Edit,
    Slot,
    State,
    States,
    is_blank,
    verdict,
)
from regard.documents.encoding import unescaped
from regard.documents.plural_rules import ENGLISH, plural_rule
from regard.documents.xml_content import Codes, Content
from regard.documents.xml_source import Element, XmlFile
from regard.text.markup.tags import tokenize
from regard.text.markup.writing import Source
from regard.text.text_format import TranslatedText

_ANDROID = Codes(kept=frozenset(("g",)), line_break=re.compile(r"\\n\s*"))
_ESCAPE = lazy_pattern(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_ESCAPES = {"n": "\n", "t": "\t"}
_ESCAPED = {"\n": r"\n", "\t": r"\t", "\\": r"\\", '"': r"\"", "'": r"\'"}
_TAG = lazy_pattern(r"(</?[A-Za-z][^<>]*>)")
"""A tag in CDATA or behind references, which is a part of the text."""
_BARE = lazy_pattern(r"(?s)\\.|['\"]")
_REFERENCE = lazy_pattern(r"\s*[@?][\w+.:]*/?[\w.]+\s*")
"""A string of Android that is the name of another."""
_QT = Codes(native=frozenset(("byte",)))


class ResxStrings(XmlFile):
    """Resources of .NET, whose values are replaced."""

    root_name = "root"
    lock = "a comment that begins with {Locked"

    def slots(self) -> Iterator[Slot]:
        for data in self.root.walk("data"):
            value = data.child("value")
            name = data.attributes.get("name", "")
            # Values with a type are no text, and those of >> are names of controls.
            is_text = not {"type", "mimetype"} & {*data.attributes}
            if value is None or not is_text or name.startswith(">>"):
                continue
            comment = self.text_of(data.child("comment"))
            if comment.startswith("{Locked"):
                self.locked += 1
                continue
            content = Content(self.content(value), self.options)
            text = DocumentText(
                content.text, f"key {name}", "dotnet", None, comment, content.markup
            )
            bounds = (value.content_start, value.content_end)
            slot = Slot(text, partial(self._write, value, content), bounds)
            if text.layout.lines:
                yield slot
            else:
                self.wordless.append(slot)

    def _write(
        self, value: Element, content: Content, translation: TranslatedText
    ) -> Iterator[Edit]:
        if not is_blank(translation) and translation.text != content.text:
            written = content.write(translation.text, self.writer)
            yield from self.replace_content(value, written)


class _AndroidText:
    """The text of a string of Android, with its escapes and quotation marks."""

    def __init__(self, raw: str, options: DocumentOptions) -> None:
        text = raw.strip()
        is_quoted = len(text) > 1 and text[0] == text[-1] == '"' and text[-2] != "\\"
        start = raw.index(text) + is_quoted
        end = start + len(text) - 2 * is_quoted
        self._around = (raw[:start], raw[end:])
        self._is_quoted = is_quoted
        self.content = Content(raw[start:end], options, _ANDROID, not is_quoted)
        self.text = unescaped(self.content.text, _ESCAPE, _ESCAPES)

    def write(self, text: str, writer: Source) -> str:
        """Return the content for a translated text."""
        if self.content.markup:
            written = "".join(
                _BARE.sub(self._escape_bare, text[token.start : token.end])
                if token.kind == "text"
                else text[token.start : token.end]
                for token in tokenize(text, "xml")
            )
        else:
            written = self.content.write(self._escaped(text), writer)
        return written.join(self._around)

    def _escaped(self, text: str) -> str:
        """Return a text with escapes, but for tags, which stay as the source writes them."""
        tags = {
            unescaped(tag, _ESCAPE, _ESCAPES): tag
            for tag in _TAG.findall(self.content.text)
        }
        parts = _TAG.split(text)
        for index, part in enumerate(parts):
            if part in tags:
                parts[index] = tags[part]
                continue
            escaped = "".join(_ESCAPED.get(letter, letter) for letter in part)
            parts[index] = escaped.replace(r"\'", "'") if self._is_quoted else escaped
        is_name = parts[0][:1] in ("@", "?") and not self._is_quoted
        return "\\" * is_name + "".join(parts)

    def _escape_bare(self, match: re.Match[str]) -> str:
        is_bare = len(match[0]) == 1 and not (self._is_quoted and match[0] == "'")
        return f"\\{match[0]}" if is_bare else match[0]


class AndroidStrings(XmlFile):
    """Strings of Android, which are replaced; those that are names of others stay."""

    root_name = "resources"
    lock = 'translatable="false", or the name of another string'

    def slots(self) -> Iterator[Slot]:
        for element in self.root.walk("string", "item"):
            parent = element.parent
            is_item = parent and parent.name in ("string-array", "plurals")
            if element.name == "item" and not is_item:
                continue
            raw = self.content(element)
            is_locked = element.inherited("translatable") == "false"
            if is_locked or _REFERENCE.fullmatch(raw):
                self.locked += 1
                continue
            android = _AndroidText(raw, self.options)
            quantity = element.attributes.get("quantity", "")
            text = DocumentText(
                android.text,
                f"key {_name(element)}",
                "android",
                markup=android.content.markup,
            )
            bounds = (element.content_start, element.content_end)
            slot = Slot(text, partial(self._write, element, android), bounds)
            if text.layout.lines:
                yield slot
            else:
                self.wordless.append(slot)
            missing = self._missing(element) if quantity == "other" else ()
            self.invented += bool(missing)
            for form in missing:
                name = text.name.replace(" other", f" {form}")
                yield Slot(
                    replace(text, name=name),
                    partial(self._add, element, android, form),
                    bounds,
                    partial(self._item, element, form),
                )

    def _missing(self, element: Element) -> tuple[str, ...]:
        """Return the categories of the target that a plural lacks."""
        rule = plural_rule(self.options.languages.target)
        if rule is None or element.parent is None:
            return ()
        quantities = {
            item.attributes.get("quantity") for item in element.parent.children
        }
        return tuple(name for name in rule.categories if name not in quantities)

    def _write(
        self, element: Element, android: _AndroidText, translation: TranslatedText
    ) -> Iterator[Edit]:
        return self.replace_content(
            element, self._written(element, android, translation)
        )

    def _written(
        self, element: Element, android: _AndroidText, translation: TranslatedText
    ) -> str:
        """Return the content of an element with its translation."""
        raw = self.content(element)
        # The text of a markup is as written, and an unchanged one has no other escapes.
        if is_blank(translation) or translation.text in (android.text, raw):
            return raw
        return android.write(translation.text, self.writer)

    def _add(
        self,
        element: Element,
        android: _AndroidText,
        form: str,
        translation: TranslatedText,
    ) -> Iterator[Edit]:
        """Return the edit that adds a form that the plural lacks."""
        return self._item(
            element, form, "", self._written(element, android, translation)
        )

    def _item(self, element: Element, form: str, _: str, raw: str) -> Iterator[Edit]:
        """Yield the edit that adds a form with some content."""
        item = f'<{element.tag} quantity="{form}">{raw}</{element.tag}>'
        yield Edit(element.start, element.start, item + self.space_before(element))


def _name(element: Element) -> str:
    """Return the name of a string: with its number in an array, or its quantity in a plural."""
    name = element.inherited("name")
    parent = element.parent
    if element.name == "item" and parent and parent.name == "string-array":
        return f"{name}[{parent.children.index(element)}]"
    return f"{name} {element.attributes.get('quantity', '')}".strip()


class QtStrings(XmlFile):
    """Translations of Qt, which stay unfinished until a person has read them."""

    root_name = "TS"
    lock = 'the type "vanished" or "obsolete"'

    def language_edits(self) -> Iterator[Edit]:
        code = self.options.languages.target.replace("-", "_")
        if code and "language" not in self.root.attributes:
            yield from self.set_attributes(self.root, language=code)

    def states(self) -> States:
        for message in self.root.walk("message"):
            parent = message.parent or message
            parts = (parent.child("name"), message.child("comment"))
            context = "\n".join(map(self.text_of, parts))
            target = message.child("translation")
            state: State = "read"
            if not self.text_of(target).strip():
                state = "untranslated"
            elif target and target.attributes.get("type") == "unfinished":
                state = "unread"
            yield (context, self.text_of(message.child("source"))), state

    def slots(self) -> Iterator[Slot]:
        for message in self.root.walk("message"):
            source = message.child("source")
            target = message.child("translation")
            if source is None or target is None or not self.text_of(source).strip():
                continue
            kind = target.attributes.get("type", "")
            is_done = "variants" in target.attributes or all(
                self.content(form).strip() for form in _forms(target)
            )
            if kind in ("vanished", "obsolete"):
                self.locked += 1
            elif is_done and not self.options.retranslate:
                self.kept += 1
            else:
                yield self._slot(message, source, target)

    def _slot(self, message: Element, source: Element, target: Element) -> Slot:
        content = Content(self.content(source), self.options, _QT)
        comments = map(message.child, ("comment", "extracomment"))
        text = DocumentText(
            content.text,
            f"line {self.source.line_of(message.start)}",
            "qt",
            comment="\n".join(filter(None, map(self.text_of, comments))),
            markup=content.markup,
        )
        number = 0
        if message.attributes.get("numerus") == "yes":
            code = self.root.attributes.get("language", "")
            rule = plural_rule(code) or plural_rule(self.options.languages.target)
            number = (rule or ENGLISH).count
            self.invented += number > 1
        return Slot(text, partial(self._write, target, content, number))

    def _write(
        self,
        target: Element,
        content: Content,
        number: int,
        translation: TranslatedText,
    ) -> Iterator[Edit]:
        if is_blank(translation):
            return
        written = content.write(translation.text, self.writer)
        space = self.space_before(target)
        quality = verdict(translation)
        if quality:
            yield from self._comment(target, self.writer.escape(quality))
        yield from self.set_attributes(target, type="unfinished")
        forms = target.children
        for form in _forms(target):
            if form is target and number:
                continue
            if self.options.retranslate or not self.content(form).strip():
                yield from self.replace_content(form, written)
        missing = max(0, number - len(forms))
        form_space = self.space_before(forms[0]) if forms else f"{space}    "
        added = f"{form_space}<numerusform>{written}</numerusform>" * missing
        if forms and added:
            yield Edit(forms[-1].end, forms[-1].end, added)
        elif added:
            yield from self.replace_content(target, added + space)

    def _comment(self, target: Element, text: str) -> Iterator[Edit]:
        """Yield the edit that notes the quality, unless a person has written a comment."""
        old = target.parent and target.parent.child("translatorcomment")
        if old and self.content(old).startswith(MACHINE):
            yield from self.replace_content(old, text)
        elif not old:
            comment = f"<translatorcomment>{text}</translatorcomment>"
            space = self.space_before(target)
            yield Edit(target.start, target.start, comment + space)


def _forms(target: Element) -> list[Element]:
    """Return the elements with the forms of a translation: itself if it is no plural."""
    return [child for child in target.children if child.name == "numerusform"] or [
        target
    ]
