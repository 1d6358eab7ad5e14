"""Find the elements of HTML and XML, and their roles: end of a sentence, part of one, not
translated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from regard.data.language_codes import base_language, is_same_language
from regard.data.sentences import has_letters
from regard.text.markup.tags import Kind, Token, attributes, names

BLOCKS = names(
    "address article aside audio base blockquote body br button caption center col colgroup dd "
    "details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 "
    "h4 h5 h6 head header hgroup hr html legend li link main menu meta nav noframes noscript ol "
    "optgroup option p pre search section select summary table tbody td textarea tfoot th thead "
    "title tr ul video"
)
"""HTML elements that end a sentence; all others stand in one."""
LINE_TAGS = names(
    "blockquote br div dd dl dt h1 h2 h3 h4 h5 h6 hr li ol p table tbody td tfoot th thead tr ul"
)
"""HTML elements that divide text even as tags in plain text; other names may be placeholders."""
_KEPT = names("code kbd samp var pre")
"""HTML elements whose text is not translated, but for `pre` a part of the sentence."""
_LINKS = names("a label")
"""HTML elements that end a sentence if their parent has no other text, as in a menu."""
_SEALED = names("svg math template object canvas rt rp script style iframe noembed xmp")
"""HTML elements that are not text of the sentence, and whose content is not translated."""
_VISIBLE = names("img input svg math object canvas embed iframe")
"""HTML elements that separate two words in the same way as white space."""
_IMPLIED_ENDS = {
    **{name: frozenset((name,)) for name in ("li", "option", "tr")},
    **dict.fromkeys(("dt", "dd"), frozenset(("dt", "dd"))),
    **dict.fromkeys(("td", "th"), frozenset(("td", "th"))),
}
"""HTML elements that end at the start tag of another element, by the names of the other
elements.
"""


@dataclass(frozen=True)
class MarkupOptions:
    """Options of markup.

    `splitting_tags` end a sentence, `non_splitting_tags` do not, and `ignore_tags` are kept with
    their content. `outline` applies to XML: if True, elements among text belong to its sentence and
    all others end one; if False, only `splitting_tags` end one. Without `sentences`, the text of a
    block is one line. With `newlines`, line breaks in text end a sentence, too. Placeholders,
    addresses, code and emoji in text are kept as tags are, or, without `mark_spans`, stand in the
    lines. Elements that declare another language than `language`, that of the source, are kept with
    their content.
    """

    splitting_tags: frozenset[str] = frozenset()
    non_splitting_tags: frozenset[str] = frozenset()
    ignore_tags: frozenset[str] = frozenset()
    outline: bool = True
    sentences: bool = True
    newlines: bool = False
    mark_spans: bool = True
    language: str = ""


class Role(Enum):
    """Role of a token in the sentences around it."""

    TEXT = "text to translate"
    LINES = "text to translate, line by line"
    SKIP = "text that is not translated"
    BREAK = "ends a sentence"
    OPEN = "opens an element in a sentence"
    CLOSE = "closes an element in a sentence"
    POINT = "stands in a sentence by itself"
    VISIBLE = "stands in a sentence by itself, and parts words"
    UNIT = "opens an element that is kept whole"
    SEALED = "opens an element that is kept whole and is no text"
    FIGURE = "opens an element that is kept whole, is no text, and parts words"


@dataclass
class Elements:
    """The tokens of a text, with the role of each, and the other tag of its element (-1 if none).

    `foreign`: the start tags of elements in another language than the source, by the language that
    they or elements around them declare.
    """

    tokens: list[Token]
    partners: list[int]
    roles: list[Role]
    foreign: dict[int, str] = field(default_factory=dict)

    @property
    def foreign_starts(self) -> dict[str, int]:
        """Offset of the first element with a content in each language other than the source's, by
        the code of the language.
        """
        starts = dict[str, int]()
        for index, code in self.foreign.items():
            if self.partners[index] >= 0:
                starts.setdefault(base_language(code), self.tokens[index].start)
        return starts


@dataclass
class _Outline:
    """Facts about tokens: the start tag around each (-1 if none), and properties of start tags.

    `mixed` elements contain text, `blocks` end a sentence, `silent` ones are not translated,
    `sealed` ones are no text, and `lines` keep their line breaks. `broken` elements are silent, but
    contain something that is translated or ends a sentence. `foreign` elements are in another
    language than the source.
    """

    parents: list[int]
    partners: list[int]
    mixed: set[int] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    sealed: set[int] = field(default_factory=set)
    lines: set[int] = field(default_factory=set)
    broken: set[int] = field(default_factory=set)
    foreign: dict[int, str] = field(default_factory=dict)


def find_elements(
    text: str, tokens: list[Token], kind: Kind, options: MarkupOptions
) -> Elements:
    """Pair the tags of a text and find the role of each token."""
    outline = _pair(text, tokens, kind)
    for index, token in enumerate(tokens):
        if token.kind in ("open", "empty"):
            _classify(text, tokens, index, kind, options, outline)
        if index in outline.blocks or (
            token.kind == "open" and index not in outline.silent
        ):
            _break_around(index, outline)
    if kind == "html":
        _part_links(text, tokens, _LINKS - options.non_splitting_tags, outline)
    roles = _roles(tokens, kind, options, outline)
    return Elements(tokens, outline.partners, roles, outline.foreign)


def _pair(text: str, tokens: Sequence[Token], kind: Kind) -> _Outline:
    """Pair start and end tags.

    An end tag closes the nearest open start tag of its name, and all elements that are open in it.
    """
    outline = _Outline([-1] * len(tokens), [-1] * len(tokens))
    stack = list[int]()
    by_name = dict[str, list[int]]()
    for index, token in enumerate(tokens):
        if (
            kind == "html"
            and token.kind == "open"
            and stack
            and _is_implied_end(tokens[stack[-1]].name, token.name)
        ):
            by_name[tokens[stack.pop()].name].pop()
        if token.kind == "close" and by_name.get(token.name):
            start = by_name[token.name][-1]
            last = -1
            while last != start:
                last = stack.pop()
                by_name[tokens[last].name].pop()
            outline.partners[start], outline.partners[index] = index, start
        outline.parents[index] = stack[-1] if stack else -1
        if token.kind == "open":
            stack.append(index)
            by_name.setdefault(token.name, []).append(index)
        elif token.kind == "text" and not text[token.start : token.end].isspace():
            outline.mixed.add(outline.parents[index])
    return outline


def _is_implied_end(name: str, following: str) -> bool:
    return following in _IMPLIED_ENDS.get(name, ()) or (
        name == "p" and following in BLOCKS and following != "br"
    )


def _classify(
    text: str,
    tokens: Sequence[Token],
    index: int,
    kind: Kind,
    options: MarkupOptions,
    outline: _Outline,
) -> None:
    """Determine whether an element ends sentences, and whether it is translated.

    The facts about its parent must be known already.
    """
    token = tokens[index]
    parent = outline.parents[index]
    if _is_block(token.name, index, kind, options, outline):
        outline.blocks.add(index)
    attribute_values = (
        attributes(text, token) if "=" in text[token.start : token.end] else {}
    )
    if (
        parent in outline.lines
        or (kind == "html" and token.name in ("pre", "textarea"))
        or _is_preserved(attribute_values, kind)
    ):
        outline.lines.add(index)
    if parent in outline.sealed or (kind == "html" and token.name in _SEALED):
        outline.sealed.add(index)
    is_kept = parent in outline.silent
    declared = declared_language(attribute_values)
    if declared and options.language:
        is_foreign = not is_same_language(declared, options.language)
        # An element in the source's language, inside a foreign one, is translated.
        is_kept &= is_foreign or parent not in outline.foreign
    else:
        declared = outline.foreign.get(parent, "")
        is_foreign = bool(declared)
    if is_foreign:
        outline.foreign[index] = declared
    is_silent = (
        is_kept
        or is_foreign
        or token.name in options.ignore_tags
        or (kind == "html" and token.name in _KEPT)
    )
    translate = attribute_values.get("translate")
    if translate is not None and translate.lower() in ("yes", "no", ""):
        is_silent = translate.lower() == "no"
    if "notranslate" in attribute_values.get("class", "").split():
        is_silent = True
    if is_silent or index in outline.sealed:
        outline.silent.add(index)


def declared_language(named: dict[str, str]) -> str:
    """Return the code of the language that attributes declare; empty if they declare none."""
    return (named.get("xml:lang") or named.get("lang", "")).strip()


def _is_preserved(named: dict[str, str], kind: Kind) -> bool:
    return kind == "xml" and named.get("xml:space") == "preserve"


def _is_block(
    name: str, index: int, kind: Kind, options: MarkupOptions, outline: _Outline
) -> bool:
    if name in options.splitting_tags:
        return True
    if name in options.non_splitting_tags:
        return False
    if kind == "html":
        return name in BLOCKS
    parent = outline.parents[index]
    is_inside = parent >= 0 and parent not in outline.blocks
    return options.outline and not is_inside and parent not in outline.mixed


def _break_around(index: int, outline: _Outline) -> None:
    """Mark the silent elements around a token that is translated or ends sentences as broken."""
    parent = outline.parents[index]
    while (
        parent in outline.silent
        and parent not in outline.broken
        and parent not in outline.sealed
    ):
        outline.broken.add(parent)
        parent = outline.parents[parent]


def _part_links(
    text: str, tokens: Sequence[Token], links: frozenset[str], outline: _Outline
) -> None:
    """Let links and labels end sentences where several stand side by side without other text."""
    own_words = {
        outline.parents[index]
        for index, token in enumerate(tokens)
        if token.kind == "text" and has_letters(text[token.start : token.end])
    }
    with_words = set[int]()
    for start in own_words:
        element = start
        while element >= 0 and element not in with_words:
            with_words.add(element)
            element = outline.parents[element]
    children = dict[int, list[int]]()
    for index in sorted(with_words - outline.blocks):
        children.setdefault(outline.parents[index], []).append(index)
    for parent, inside in children.items():
        is_menu = len(inside) > 1 and parent not in own_words | outline.silent
        if is_menu and all(tokens[index].name in links for index in inside):
            outline.blocks.update(inside)


def _roles(
    tokens: Sequence[Token], kind: Kind, options: MarkupOptions, outline: _Outline
) -> list[Role]:
    roles = list[Role]()
    for index, token in enumerate(tokens):
        parent = outline.parents[index]
        if token.kind == "text":
            role = (
                Role.LINES if parent in outline.lines or options.newlines else Role.TEXT
            )
            roles.append(Role.SKIP if parent in outline.silent else role)
        elif token.kind == "close" and outline.partners[index] >= 0:
            opened = roles[outline.partners[index]]
            roles.append(Role.CLOSE if opened is Role.OPEN else Role.BREAK)
        elif token.kind == "close":
            is_block = token.name in options.splitting_tags or (
                kind == "html" and token.name in BLOCKS
            )
            roles.append(Role.BREAK if is_block else Role.POINT)
        elif token.kind == "other":
            roles.append(
                Role.VISIBLE
                if kind == "html" and token.name in _VISIBLE
                else Role.POINT
            )
        else:
            roles.append(_tag_role(token, index, kind, outline))
    return roles


def _tag_role(token: Token, index: int, kind: Kind, outline: _Outline) -> Role:
    """Return the role of a start tag or of an empty element."""
    is_open = outline.partners[index] >= 0
    is_silent = index in outline.silent
    if index in outline.blocks or index in outline.broken:
        return Role.BREAK
    if token.kind == "empty":
        return Role.VISIBLE if kind == "html" and token.name in _VISIBLE else Role.POINT
    if is_silent and (not is_open or outline.parents[index] in outline.silent):
        return Role.BREAK
    if index in outline.sealed:
        return Role.FIGURE if token.name in _VISIBLE else Role.SEALED
    if is_silent:
        return Role.UNIT
    return Role.OPEN if is_open else Role.POINT
