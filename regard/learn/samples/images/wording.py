"""Captions from templates, and their meaning: the same table of templates generates and parses.

A template is a caption with placeholders for its entities: `A` and `B`, with a role after a slash
if the language marks one ("A/subject"). A caption is parsed by replacing its entities by
placeholders and looking up the result; so a caption in any other wording has no known meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from regard.learn.samples.images.scene import Entity, Meaning


@dataclass(frozen=True)
class Caption:
    """A caption, and for each of its nouns the number of its word and of the entity that it
    names.
    """

    text: str
    nouns: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Mention:
    """An entity that a text mentions: the number of its noun's word (between spaces), and its
    role.
    """

    entity: Entity
    word: int
    role: str = ""


Phrase = tuple[list[str], int]  # the words of an entity, and the index of the noun


@dataclass(frozen=True, eq=False)
class Language:
    """The captions of a language.

    `templates` are grouped by relation; "at" is one entity at a place, "alone" entities without
    relation or place.
    """

    templates: Mapping[str, tuple[str, ...]]
    places: Mapping[str, str]
    phrase: Callable[[Entity, str], Phrase]  # an entity in a role
    pattern: re.Pattern[str]  # an entity in a text
    # The entity, its role, and the index of the noun.
    read: Callable[[re.Match[str]], tuple[Entity, str, int]]
    # Plural forms of words if the first entity has a count: is, are.
    plurals: Mapping[str, str]

    def captions(self, meaning: Meaning) -> list[Caption]:
        """Return all captions of a meaning."""
        kind = meaning.relation or ("at" if meaning.place else "alone")
        return [self._render(template, meaning) for template in self.templates[kind]]

    def _render(self, template: str, meaning: Meaning) -> Caption:
        words: list[str] = []
        nouns = []
        marks = template.replace(
            "PLACE", self.places[meaning.place] if meaning.place else ""
        ).split()
        first = next(_number(mark) for mark in marks if _is_mark(mark))
        is_plural = meaning.entities[first].count > 1
        for mark in marks:
            if _is_mark(mark):
                phrase, noun = self.phrase(meaning.entities[_number(mark)], mark[2:])
                nouns.append((len(words) + noun, _number(mark)))
                words += phrase
            else:
                words.append(self.plurals.get(mark, mark) if is_plural else mark)
        return Caption(" ".join(words), tuple(nouns))

    def mentions(self, text: str) -> list[Mention]:
        """Return the entities that a text mentions, in order; also of a text without a meaning as a
        whole.
        """
        return list(self._mentions(text))

    def _mentions(self, text: str) -> Iterator[Mention]:
        for match in self.pattern.finditer(text):
            entity, role, noun = self.read(match)
            yield Mention(entity, text[: match.start()].count(" ") + noun, role)

    def meaning(self, text: str) -> Meaning | None:
        """Return the meaning of a caption; None if it fits no template."""
        entities = self.mentions(text)
        rest = self.pattern.sub(lambda match: _mark(self.read(match)[1]), text)
        for singular, plural in self.plurals.items():
            rest = re.sub(rf"\b{plural}\b", singular, rest)
        if rest not in self._skeletons:
            return None
        kind, order, place = self._skeletons[rest]
        ordered = tuple(
            entities[order.index(number)].entity for number in sorted(order)
        )
        return Meaning(ordered, None if kind in ("at", "alone") else kind, place)

    def states_exactly(self, text: str, meaning: Meaning) -> bool:
        """Return whether a caption states exactly the facts of a meaning: no fewer, no more."""
        stated = self.meaning(text)
        return stated is not None and stated.facts() == meaning.facts()

    @cached_property
    def _skeletons(self) -> dict[str, tuple[str, list[int], str | None]]:
        """Map from templates with one mark for every entity to their kind, the order of entities,
        and the place.
        """
        skeletons = {}
        for kind, templates in self.templates.items():
            for template in templates:
                for place, words in (
                    self.places.items() if kind == "at" else [(None, "")]
                ):
                    marks = template.replace("PLACE", words).split()
                    order = [_number(mark) for mark in marks if _is_mark(mark)]
                    text = " ".join(
                        _mark(mark[2:]) if _is_mark(mark) else mark for mark in marks
                    )
                    skeletons[text] = kind, order, place
        return skeletons


def _is_mark(word: str) -> bool:
    return word[0] in "AB" and word[1:2] in ("", "/")


def _number(mark: str) -> int:
    return "AB".index(mark[0])


def _mark(role: str) -> str:
    """Return the mark of an entity in a role; an entity counted after its particle is a subject
    too.
    """
    return f"@{'subject' if role == 'counted' else role}"
