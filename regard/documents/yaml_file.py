"""YAML files of strings, such as the locale files of Rails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from regard.common.lazy import lazy_pattern
from regard.data.language_codes import base_language
from regard.documents.document import (
    DocumentOptions,
    DocumentText,
    EditedText,
    Slot,
    value_slot,
)
from regard.documents.encoding import EncodedText, decode_file
from regard.documents.key_values import (
    LAST,
    LINE_BREAK,
    MOST_LEVELS,
    QUOTED,
    TOO_DEEP,
    Escapes,
    folded,
    joined_path,
    key_values,
    rewrapped,
)
from regard.text.markup.tags import Bounds
from regard.text.text_format import TranslatedText

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER = yaml.resolver.Resolver()
_TEXT = "tag:yaml.org,2002:str"
_PROPERTIES = lazy_pattern(r"(?:[&!]\S*\s+(?:#.*\s+)*)*")
"""Anchor and tag of a scalar."""
_INDENT = lazy_pattern(r"\n*( *)")
_BREAKS = (*map(chr, range(0x7F, 0xA0)), "\u2028", "\u2029", "\ufeff")
_ESCAPES = Escapes(
    {**QUOTED, **{letter: f"\\u{ord(letter):04x}" for letter in _BREAKS}}, LAST
)


@dataclass
class _Level:
    """A mapping or sequence that is read, with its present key and the number of its nodes."""

    is_mapping: bool
    is_flow: bool
    is_key: bool
    key: str = ""
    nodes: int = 0

    def add(self, event: yaml.NodeEvent) -> bool:
        """Add a node; return whether it is a key."""
        is_key = self.is_mapping and self.nodes % 2 == 0
        if is_key:
            self.key = getattr(event, "value", "?")
        elif not self.is_mapping:
            self.key = f"[{self.nodes}]"
        self.nodes += 1
        return is_key or self.is_key


class _Scalar(NamedTuple):
    """A text between two offsets of the file, which may be a key."""

    start: int
    end: int
    path: str
    value: str
    style: str
    is_flow: bool
    is_key: bool


def read_yaml(data: bytes, name: str, options: DocumentOptions) -> EditedText:
    """Read a file of YAML. Raises DataError for one that is no YAML."""
    source = decode_file(data, name)
    try:
        scalars = [*_scalars(source)]
    except yaml.reader.ReaderError as problem:
        cause = f"no YAML: {problem.reason}; take the character away"
        raise source.refused(problem.position, cause) from None
    except yaml.MarkedYAMLError as problem:
        cause = f"no YAML: {problem.problem}; mend the file"
        raise source.refused(problem.problem_mark.index, cause) from None
    locale = _locale(scalars, options.languages.source)
    root = f"{source.text[slice(*locale)]}." if locale else ""
    slots = [
        _slot(source.text, scalar, scalar.path.removeprefix(root))
        for scalar in scalars
        if not scalar.is_key
    ]
    return key_values(source, slots, options, locale)


def _locale(scalars: list[_Scalar], language: str) -> Bounds | None:
    """Return where the only key of the file is, if it is the source language, as in Rails."""
    roots = [
        scalar for scalar in scalars if scalar.is_key and scalar.path == scalar.value
    ]
    if len(roots) != 1 or base_language(roots[0].value) != base_language(language):
        return None
    (root,) = roots
    return root.start + len(root.style), root.end - len(root.style)


def _scalars(source: EncodedText) -> Iterator[_Scalar]:
    """Yield the texts of a file; numbers and the like are none."""
    levels = list[_Level]()
    for event in yaml.parse(source.text, _LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            levels.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        is_key = levels[-1].add(event) if levels else False
        is_flow = levels[-1].is_flow if levels else False
        start, end = event.start_mark.index, event.end_mark.index
        if len(levels) == MOST_LEVELS:
            raise source.refused(start, TOO_DEEP)
        if isinstance(event, yaml.CollectionStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            levels.append(_Level(is_mapping, is_flow or event.flow_style, is_key))
        elif _is_text(event):
            properties = _PROPERTIES.match(source.text, start, end)
            yield _Scalar(
                properties.end() if properties else start,
                end,
                joined_path(level.key for level in levels),
                event.value,
                event.style or "",
                is_flow,
                is_key,
            )


def _is_text(event: yaml.NodeEvent) -> bool:
    """Return whether a node is a text, not an alias, a number or the like."""
    if not isinstance(event, yaml.ScalarEvent):
        return False
    tag = event.tag
    if tag is None and not event.style:
        tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False))
    return tag in (None, "!", _TEXT)


def _slot(source: str, scalar: _Scalar, name: str) -> Slot:
    raw = source[scalar.start : scalar.end]

    def escape(text: str) -> str:
        forms = _forms(text, raw, scalar)
        fitting = (form for form in forms if _reads_as(form, text, scalar.is_flow))
        return next(fitting, raw)

    slot = value_slot(
        scalar.start, scalar.end, DocumentText(scalar.value, f"key {name}"), escape
    )

    # In another file it may be indented otherwise, so that it is not copied as written.
    return slot._replace(put=lambda text, _: slot.edits(TranslatedText(text)))


def _forms(text: str, raw: str, scalar: _Scalar) -> Iterator[str]:
    """Yield forms of a text: that of its source, the same on one line, and a quoted one."""
    style = scalar.style
    quoted = _ESCAPES.write(text)
    inner = {"'": text.replace("'", "''"), '"': quoted}.get(style, text)
    tail = ""
    gap = LINE_BREAK.search(raw)
    if style not in ("|", ">"):
        yield f"{style}{rewrapped(inner, raw)}{style}"
        yield f"{style}{inner}{style}"
    elif gap:
        newline, indent = gap.groups()
        own = _INDENT.match(scalar.value)
        indent = indent[len(own[1]) if own else 0 :]
        tail = raw[len(raw.rstrip()) :]
        inner = inner.rstrip("\n")
        lines = [f"{indent}{line}" if line else line for line in inner.split("\n")]
        if style == ">":
            lines = folded(inner, raw, indent)
        yield newline.join([raw[: gap.start()], *lines]) + tail
    yield f'"{quoted}"{tail}'


def _reads_as(form: str, text: str, is_flow: bool) -> bool:
    """Return whether YAML reads a form of a text as this text."""
    source = f"[{form}]" if is_flow else f"key: {form}"
    try:
        events = [*yaml.parse(source, _LOADER)]
    except yaml.YAMLError:
        return False
    _, *nodes = (event for event in events if isinstance(event, yaml.NodeEvent))
    values = [event.value if _is_text(event) else None for event in nodes]
    return values == ([text] if is_flow else ["key", text])
