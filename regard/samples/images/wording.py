"""From what is seen to captions in a language, and back: the same table of templates writes and reads.

A template is a caption with marks for its things: `A` and `B`, with a role after a stroke where the language marks
one ("A/subject"). What a caption says is found by putting such marks in the places of its things again, and looking
up what is left; so a caption in any other wording says nothing that is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from regard.samples.images.scene import Meaning, Thing

__all__ = ["Caption", "Language", "Named"]


@dataclass(frozen=True)
class Caption:
    """A caption, and for each of its nouns which word it is and which of the meaning's things it names."""

    text: str
    nouns: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Named:
    """A thing as a text names it: which word (between spaces) its noun is, and its role."""

    thing: Thing
    word: int
    role: str = ""


Phrase = tuple[list[str], int]  # the words of a thing, and which of them is the noun


@dataclass(frozen=True, eq=False)
class Language:
    """How a language speaks of pictures.

    `templates` are listed by relation, those of one thing at a place under "at", those of things alone under "alone".
    """

    templates: Mapping[str, tuple[str, ...]]
    places: Mapping[str, str]
    phrase: Callable[[Thing, str], Phrase]  # a thing in a role
    pattern: re.Pattern[str]  # a thing in a text
    read: Callable[[re.Match[str]], tuple[Thing, str, int]]  # the thing, its role, and which of its words is the noun
    plurals: Mapping[str, str]  # what a word becomes after a first thing of several: is, are

    def captions(self, meaning: Meaning) -> list[Caption]:
        """All its wordings."""
        kind = meaning.relation or ("at" if meaning.place else "alone")
        return [self._say(template, meaning) for template in self.templates[kind]]

    def _say(self, template: str, meaning: Meaning) -> Caption:
        words: list[str] = []
        nouns = []
        marks = template.replace("PLACE", self.places[meaning.place] if meaning.place else "").split()
        first = next(_number(mark) for mark in marks if _is_mark(mark))
        several = meaning.things[first].count > 1
        for mark in marks:
            if _is_mark(mark):
                phrase, noun = self.phrase(meaning.things[_number(mark)], mark[2:])
                nouns.append((len(words) + noun, _number(mark)))
                words += phrase
            else:
                words.append(self.plurals.get(mark, mark) if several else mark)
        return Caption(" ".join(words), tuple(nouns))

    def named(self, text: str) -> list[Named]:
        """The things that a text names, in its order; also of a text that makes no sense as a whole."""
        return list(self._named(text))

    def _named(self, text: str) -> Iterator[Named]:
        for match in self.pattern.finditer(text):
            thing, role, noun = self.read(match)
            yield Named(thing, text[: match.start()].count(" ") + noun, role)

    def meaning(self, text: str) -> Meaning | None:
        """What a caption says; None where it is in no wording of ours."""
        things = self.named(text)
        rest = self.pattern.sub(lambda match: _mark(self.read(match)[1]), text)
        for one, many in self.plurals.items():
            rest = re.sub(rf"\b{many}\b", one, rest)
        if rest not in self._skeletons:
            return None
        kind, order, place = self._skeletons[rest]
        found = tuple(things[order.index(number)].thing for number in sorted(order))
        return Meaning(found, None if kind in ("at", "alone") else kind, place)

    def is_true(self, text: str, meaning: Meaning) -> bool:
        """Whether a caption states exactly the facts of a meaning: no fewer, no more."""
        found = self.meaning(text)
        return found is not None and found.facts() == meaning.facts()

    @cached_property
    def _skeletons(self) -> dict[str, tuple[str, list[int], str | None]]:
        """Templates with the same mark for every thing → their kind, which thing comes when, and the place."""
        found = {}
        for kind, templates in self.templates.items():
            for template in templates:
                for place, words in self.places.items() if kind == "at" else [(None, "")]:
                    marks = template.replace("PLACE", words).split()
                    order = [_number(mark) for mark in marks if _is_mark(mark)]
                    text = " ".join(_mark(mark[2:]) if _is_mark(mark) else mark for mark in marks)
                    found[text] = kind, order, place
        return found


def _is_mark(word: str) -> bool:
    return word[0] in "AB" and word[1:2] in ("", "/")


def _number(mark: str) -> int:
    return "AB".index(mark[0])


def _mark(role: str) -> str:
    """The mark of a thing in a role; who is counted after its particle is a subject too."""
    return f"@{'subject' if role == 'counted' else role}"
