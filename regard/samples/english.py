"""A clause in English: agreement, tense, do-support, articles, spelling."""

from __future__ import annotations

import re
from functools import cache

from regard.samples.derivation import Clause, Frame, Word, fixed
from regard.samples.lexicon import Connective, Noun
from regard.samples.verbs import Verb

__all__ = ["agreement", "clause", "participle", "phrase", "predicate", "third_person"]

ACCUSATIVE = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
PLURAL = ("you", "we", "they")
BE = {
    "past": {"first": "was", "singular": "was", "plural": "were"},
    "present": {"first": "am", "singular": "is", "plural": "are"},
}
DO = {
    "past": {"first": "did", "singular": "did", "plural": "did"},
    "present": {"first": "do", "singular": "does", "plural": "do"},
}


def clause(said: Clause, connective: Connective | None) -> list[Word]:
    """Subject, verb, object, recipient or goal, then how, by what means, with whom, where and when."""
    words = [*phrase(said.subject, "subject"), *predicate(said.verb, said.frame, agreement(said.subject))]
    if said.objects:
        words += phrase(said.objects, "object", said.verb.preposition)
    if said.recipient:
        words += phrase((said.recipient,), "recipient", "to")
    if said.place and said.verb.goal != "never":
        words += phrase((said.place,), "place", "to" if said.place.article else "")
    words += [*fixed(said.adverb, "adverb", "english"), *_circumstances(said)]
    return _joined(words, connective) if connective else words


def _circumstances(said: Clause) -> list[Word]:
    words: list[Word] = []
    if said.means:
        words += phrase((said.means,), "means", "by")
    if said.companion:
        words += phrase((said.companion,), "companion", "with")
    if said.place and said.verb.goal == "never":
        words += phrase((said.place,), "place", said.place.preposition)
    return [*words, *fixed(said.time, "time", "english")]


def _joined(words: list[Word], connective: Connective) -> list[Word]:
    """The clause with what leads on: "When …," before a main clause, "…, and" after one."""
    joint = Word(connective.english, ("connective",))
    words = [*words[:-1], words[-1]._replace(text=words[-1].text + ",")]
    return [joint, *words] if connective.subordinate else [*words, joint]


@cache
def phrase(nouns: tuple[Noun, ...], role: str, preposition: str = "") -> tuple[Word, ...]:
    """One noun or two with articles and a preposition, such as "to the school"."""
    words = [Word(preposition, (role,))] if preposition else []
    for number, noun in enumerate(nouns):
        if number:
            words.append(Word("and", (f"{role} and",)))
        text = noun.english if role == "subject" else ACCUSATIVE.get(noun.english, noun.english)
        words += [Word(word, (f"{role} {number}",)) for word in f"{noun.article} {text}".split()]
    return tuple(words)


def agreement(subject: tuple[Noun, ...]) -> str:
    """How the verb agrees with a subject: "first" (am), "singular" (is) or "plural" (are)."""
    if len(subject) > 1 or subject[0].english in PLURAL:
        return "plural"
    return "first" if subject[0].english == "I" else "singular"


@cache
def predicate(verb: Verb, frame: Frame, agrees: str) -> tuple[Word, ...]:
    """The verb group: eats, ate, is eating, will not eat, did not eat."""
    tense, progressive, negative = frame
    words = []
    if tense == "future":
        words.append(Word("will", ("tense",)))
    elif progressive:
        words.append(Word(BE[tense][agrees], ("tense", "aspect")))
    elif negative:
        words.append(Word(DO[tense][agrees], ("tense",)))
    if negative:
        words.append(Word("not", ("polarity",)))
    if tense == "future" and progressive:
        words.append(Word("be", ("aspect",)))
    if progressive or words:
        return (*words, Word(participle(verb.english) if progressive else verb.english, ("verb",)))
    simple = verb.past if tense == "past" else third_person(verb.english) if agrees == "singular" else verb.english
    return (Word(simple, ("verb", "tense")),)


def third_person(base: str) -> str:
    """He goes, watches, studies, plays."""
    if re.search("(s|x|z|ch|sh|o)$", base):
        return base + "es"
    return re.sub("([^aeiou])y$", r"\1ie", base) + "s"


def participle(base: str) -> str:
    """Eating, writing, running. One syllable with one vowel and one consonant doubles that consonant."""
    if re.fullmatch("[^aeiou]*[aeiou][^aeiouwxy]", base):
        return base + base[-1] + "ing"
    return re.sub("([^e])e$", r"\1", base) + "ing"
