"""Find the elements of HTML and XML, and their roles: end of a sentence, part of one, not
translated.
"""

from __future__ import annotations

import html
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

from regard.common.lazy import lazy_pattern
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
_ENTITY = lazy_pattern(r"&#?\w{1,19};")
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


Role = Literal[
    "text",
    "lines",
    "skip",
    "break",
    "open",
    "close",
    "point",
    "visible",
    "unit",
    "sealed",
    "figure",
]
"""Role of a token in the sentences around it.

- `text`, `lines`: text to translate, with `lines` line by line; `skip`: text that is not translated
- `break`: ends a sentence
- `open`, `close`: opens or closes an element in a sentence
- `point`: stands in a sentence by itself; `visible`: the same, and parts words
- `unit`: opens an element that is kept whole; `sealed`: one that is no text; `figure`: one that is
  no text, and parts words
"""


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


def find_elements(
    text: str, tokens: list[Token], kind: Kind, options: MarkupOptions
) -> Elements:
    """Pair the tags of a text and find the role of each token."""
    count = len(tokens)
    outline = _Outline(tokens, [-1] * count, [], text=text, kind=kind, options=options)
    outline.pair()
    for index, token in enumerate(tokens):
        if token.kind in ("open", "empty"):
            outline.classify(index)
        if index in outline.blocks or (
            token.kind == "open" and index not in outline.silent
        ):
            outline.break_around(index)
    if kind == "html":
        outline.part_links(_LINKS - options.non_splitting_tags)
    for index in range(count):
        outline.roles.append(outline.role(index))
    return outline


@dataclass(kw_only=True)
class _Outline(Elements):
    """Facts about tokens: the start tag around each (-1 if none), and properties of start tags.

    `mixed` elements contain text, `blocks` end a sentence, `silent` ones are not translated,
    `sealed` ones are no text, and `lines` keep their line breaks. `broken` elements are silent, but
    contain something that is translated or ends a sentence.
    """

    text: str
    kind: Kind
    options: MarkupOptions
    parents: list[int] = field(default_factory=list)
    mixed: set[int] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    sealed: set[int] = field(default_factory=set)
    lines: set[int] = field(default_factory=set)
    broken: set[int] = field(default_factory=set)

    def _html_name(self, token: Token) -> str:
        """Return the name of a tag of HTML; empty in XML."""
        return token.name if self.kind == "html" else ""

    def pair(self) -> None:
        """Pair start and end tags.

        An end tag closes the nearest open start tag of its name, and all elements that are open in
        it.
        """
        stack = list[int]()
        by_name = defaultdict[str, list[int]](list)
        for index, token in enumerate(self.tokens):
            if token.kind == "open" and stack and self._ends_at(stack[-1], token):
                by_name[self.tokens[stack.pop()].name].pop()
            if token.kind == "close" and by_name[token.name]:
                start = by_name[token.name][-1]
                last = -1
                while last != start:
                    last = stack.pop()
                    by_name[self.tokens[last].name].pop()
                self.partners[start], self.partners[index] = index, start
            self.parents.append(stack[-1] if stack else -1)
            if token.kind == "open":
                stack.append(index)
                by_name[token.name].append(index)
            elif (
                token.kind == "text"
                and not self.text[token.start : token.end].isspace()
            ):
                self.mixed.add(self.parents[index])

    def _ends_at(self, index: int, token: Token) -> bool:
        """Return whether an element ends at a start tag, without a tag of its own."""
        name = self.tokens[index].name
        following = self._html_name(token)
        if name == "p":
            return following in BLOCKS and following != "br"
        return following in _IMPLIED_ENDS.get(name, ())

    def classify(self, index: int) -> None:
        """Determine whether an element ends sentences, and whether it is translated.

        The facts about its parent must be known already.
        """
        token = self.tokens[index]
        name = self._html_name(token)
        parent = self.parents[index]
        if self._is_block(index):
            self.blocks.add(index)
        has_values = "=" in self.text[token.start : token.end]
        named = attributes(self.text, token) if has_values else {}
        if (
            parent in self.lines
            or name in ("pre", "textarea")
            or (self.kind == "xml" and named.get("xml:space") == "preserve")
        ):
            self.lines.add(index)
        if parent in self.sealed or name in _SEALED:
            self.sealed.add(index)
        is_kept = parent in self.silent
        declared = (named.get("xml:lang") or named.get("lang", "")).strip()
        if declared and self.options.language:
            is_foreign = not is_same_language(declared, self.options.language)
            # An element in the source's language, inside a foreign one, is translated.
            is_kept &= is_foreign or parent not in self.foreign
        else:
            declared = self.foreign.get(parent, "")
            is_foreign = bool(declared)
        if is_foreign:
            self.foreign[index] = declared
        is_silent = (
            is_kept
            or is_foreign
            or token.name in self.options.ignore_tags
            or name in _KEPT
        )
        translate = named.get("translate", "-").lower()
        if translate in ("yes", "no", ""):
            is_silent = translate == "no"
        if "notranslate" in named.get("class", "").split():
            is_silent = True
        if is_silent or index in self.sealed:
            self.silent.add(index)

    def _is_block(self, index: int) -> bool:
        name = self.tokens[index].name
        if name in self.options.splitting_tags:
            return True
        if name in self.options.non_splitting_tags:
            return False
        if self.kind == "html":
            return name in BLOCKS
        parent = self.parents[index]
        is_inside = parent >= 0 and parent not in self.blocks
        return self.options.outline and not is_inside and parent not in self.mixed

    def break_around(self, index: int) -> None:
        """Mark the silent elements around a token that is translated or ends sentences as
        broken.
        """
        parent = self.parents[index]
        while (
            parent in self.silent
            and parent not in self.broken
            and parent not in self.sealed
        ):
            self.broken.add(parent)
            parent = self.parents[parent]

    def part_links(self, links: frozenset[str]) -> None:
        """Let links and labels end sentences where several stand side by side without other
        text, and other elements beside a link if each begins with a capital, as in a menu.
        """
        own_words = set[int]()
        first_letters = dict[int, str]()
        for index, token in enumerate(self.tokens):
            if token.kind != "text":
                continue
            raw = self.text[token.start : token.end]
            text = _ENTITY.sub(lambda match: html.unescape(match[0]), raw)
            if not has_letters(text):
                continue
            element = self.parents[index]
            own_words.add(element)
            while element >= 0 and element not in first_letters:
                first_letters[element] = next(filter(str.isalpha, text))
                element = self.parents[element]
        children = defaultdict[int, list[int]](list)
        for index in sorted(first_letters.keys() - self.blocks):
            children[self.parents[index]].append(index)
        no_row = own_words | self.silent
        for parent, inside in children.items():
            is_row = len(inside) > 1 and parent not in no_row
            are_links = [self.tokens[index].name in links for index in inside]
            is_menu = all(first_letters[index].isupper() for index in inside)
            if is_row and (all(are_links) or (any(are_links) and is_menu)):
                self.blocks.update(inside)

    def role(self, index: int) -> Role:
        """Return the role of a token; those of the tokens before it must be known already."""
        token = self.tokens[index]
        parent = self.parents[index]
        if token.kind == "text":
            if parent in self.silent:
                return "skip"
            has_lines = parent in self.lines or self.options.newlines
            return "lines" if has_lines else "text"
        name = self._html_name(token)
        partner = self.partners[index]
        if token.kind == "close" and partner >= 0:
            return "close" if self.roles[partner] == "open" else "break"
        if token.kind == "close":
            is_splitting = token.name in self.options.splitting_tags
            is_block = is_splitting or name in BLOCKS
            return "break" if is_block else "point"
        if index in self.blocks or index in self.broken:
            return "break"
        if token.kind in ("other", "empty"):
            return "visible" if name in _VISIBLE else "point"
        is_silent = index in self.silent
        if is_silent and (partner < 0 or parent in self.silent):
            return "break"
        if index in self.sealed:
            return "figure" if token.name in _VISIBLE else "sealed"
        if is_silent:
            return "unit"
        return "open" if partner >= 0 else "point"
