"""Generate captions from templates, and parse captions with the same templates.

A template is a caption with placeholders for its entities: `A` and `B`, with a role after a slash
if the language marks one ("A/subject"). A caption is parsed by replacing its entities with
placeholders and looking up the result, so a caption that fits no template has no meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.learn.samples.images.scene import Entity, Meaning


@dataclass(frozen=True)
class Caption:
    """A caption, and the word and the entity of each of its nouns."""

    text: str
    nouns: tuple[tuple[int, int], ...]  # (number of the word, number of the entity)


@dataclass(frozen=True)
class Mention:
    """An entity that a text mentions."""

    entity: Entity
    word: int  # number of its noun among the words between spaces
    role: str = ""


Phrase = tuple[list[str], int]  # the words of an entity, and the index of the noun


@dataclass(frozen=True, eq=False)
class Language:
    """The captions of a language.

    `templates` are grouped by relation. The group "at" is for one entity at a place, the group
    "alone" for entities without relation or place.
    """

    templates: Mapping[str, tuple[str, ...]]
    places: Mapping[str, str]
    # Writes an entity in a role.
    phrase: Callable[[Entity, str], Phrase]
    # Matches an entity in a text.
    pattern: re.Pattern[str]
    # Reads a match of the pattern: the entity, its role, and the index of the noun.
    read: Callable[[re.Match[str]], tuple[Entity, str, int]]
    # Maps words to the plural forms that they take if the first entity is plural: is, are.
    plurals: Mapping[str, str]

    def captions(self, meaning: Meaning) -> list[Caption]:
        """Return all captions of a meaning."""
        kind = meaning.relation or ("at" if meaning.place else "alone")
        return [self._render(template, meaning) for template in self.templates[kind]]

    def _render(self, template: str, meaning: Meaning) -> Caption:
        place = self.places[meaning.place] if meaning.place else ""
        parts = template.replace("PLACE", place).split()
        first = next(_number(part) for part in parts if _is_placeholder(part))
        is_plural = meaning.entities[first].count > 1

        words: list[str] = []
        nouns = []
        for part in parts:
            if _is_placeholder(part):
                number = _number(part)
                phrase, noun = self.phrase(meaning.entities[number], part[2:])
                nouns.append((len(words) + noun, number))
                words += phrase
            elif is_plural:
                words.append(self.plurals.get(part, part))
            else:
                words.append(part)
        return Caption(" ".join(words), tuple(nouns))

    def mentions(self, text: str) -> list[Mention]:
        """Return the entities that a text mentions, in order, even if it fits no template."""
        return list(self._mentions(text))

    def _mentions(self, text: str) -> Iterator[Mention]:
        for match in self.pattern.finditer(text):
            entity, role, noun = self.read(match)
            yield Mention(entity, text[: match.start()].count(" ") + noun, role)

    def meaning(self, text: str) -> Meaning | None:
        """Return the meaning of a caption; None if it fits no template."""
        entities = self.mentions(text)
        skeleton = self.pattern.sub(lambda match: _mark(self.read(match)[1]), text)
        for singular, plural in self.plurals.items():
            skeleton = re.sub(rf"\b{plural}\b", singular, skeleton)
        if skeleton not in self._skeletons:
            return None

        kind, order, place = self._skeletons[skeleton]
        ordered = tuple(
            entities[order.index(number)].entity for number in sorted(order)
        )
        return Meaning(ordered, None if kind in ("at", "alone") else kind, place)

    def states_exactly(self, text: str, meaning: Meaning) -> bool:
        """Return whether a caption states all facts of a meaning and no others."""
        stated = self.meaning(text)
        return stated is not None and stated.facts() == meaning.facts()

    @cached_property
    def _skeletons(self) -> dict[str, tuple[str, list[int], str | None]]:
        """Map each skeleton, a template with a mark such as "@subject" in place of every entity, to
        its kind, the order of its entities, and its place.
        """
        skeletons = {}
        for kind, templates in self.templates.items():
            places: Iterable[tuple[str | None, str]] = [(None, "")]
            if kind == "at":
                places = self.places.items()
            for template in templates:
                for place, place_words in places:
                    parts = template.replace("PLACE", place_words).split()
                    order = [_number(part) for part in parts if _is_placeholder(part)]
                    skeletons[_skeleton(parts)] = kind, order, place
        return skeletons


def _skeleton(parts: Sequence[str]) -> str:
    """Replace the placeholders of a template with marks that name the role alone."""
    return " ".join(
        _mark(part[2:]) if _is_placeholder(part) else part for part in parts
    )


def _is_placeholder(word: str) -> bool:
    return word[0] in "AB" and word[1:2] in ("", "/")


def _number(placeholder: str) -> int:
    """Return the number of the entity that a placeholder stands for: 0 for A, 1 for B."""
    return "AB".index(placeholder[0])


def _mark(role: str) -> str:
    """Return the mark of an entity in a role; the role "counted" is that of a subject too."""
    return f"@{'subject' if role == 'counted' else role}"
