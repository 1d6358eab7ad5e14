"""English clauses: agreement, tense, do-support, articles, spelling."""

from __future__ import annotations

import re
from functools import cache

from regard.learn.samples.derivation import Clause, Frame, Word, fixed, with_mark
from regard.learn.samples.lexicon import Connective, Noun
from regard.learn.samples.verbs import Verb

ACCUSATIVE = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
PLURAL = ("you", "we", "they")
BE = {
    "past": {"first": "was", "singular": "was", "plural": "were"},
    "present": {"first": "am", "singular": "is", "plural": "are"},
}
CONTRACTED = {"will": "won't", "can": "can't"}
DO = {
    "past": {"first": "did", "singular": "did", "plural": "did"},
    "present": {"first": "do", "singular": "does", "plural": "do"},
}


def clause(content: Clause, connective: Connective | None) -> list[Word]:
    """Realise a clause: subject, verb, object, recipient or goal, manner, means, companion, place,
    time.
    """
    agrees = agreement(content.subject)
    words = [
        *phrase(content.subject, "subject"),
        *predicate(content.verb, content.frame, agrees),
    ]
    # "am not" has no other contraction.
    if agrees == "first" and words[1].text == "not":
        words[0] = Word("I'm", (*words[0].realises, "tense", "aspect"))
    if content.verb.copula:
        words += [
            Word(word, ("object 0",)) for word in ("a", content.objects[0].english)
        ]
    elif content.objects:
        words += phrase(content.objects, "object", content.verb.preposition)
    if content.recipient:
        words += phrase((content.recipient,), "recipient", "to")
    if content.place and content.verb.goal != "never":
        words += phrase(
            (content.place,), "place", "to" if content.place.article else ""
        )
    words += [*fixed(content.adverb, "adverb", "english"), *_circumstances(content)]
    return _with_connective(words, connective) if connective else words


def _circumstances(content: Clause) -> list[Word]:
    words: list[Word] = []
    if content.means:
        words += phrase((content.means,), "means", "by")
    if content.companion:
        words += phrase((content.companion,), "companion", "with")
    if content.place and content.verb.goal == "never":
        words += phrase((content.place,), "place", content.place.preposition)
    return [*words, *fixed(content.time, "time", "english")]


def _with_connective(words: list[Word], connective: Connective) -> list[Word]:
    """Add the connective: "When …," before a main clause, "…, and" after one."""
    joint = Word(connective.english, ("connective",))
    return (
        [joint, *with_mark(words)]
        if connective.subordinate
        else [*with_mark(words), joint]
    )


@cache
def phrase(
    nouns: tuple[Noun, ...], role: str, preposition: str = ""
) -> tuple[Word, ...]:
    """Realise one noun or two with articles and a preposition, such as "to the school"."""
    words = [Word(preposition, (role,))] if preposition else []
    for number, noun in enumerate(nouns):
        if number:
            words.append(Word("and", (f"{role} and",)))
        text = (
            noun.english
            if role == "subject"
            else ACCUSATIVE.get(noun.english, noun.english)
        )
        words += [
            Word(word, (f"{role} {number}",))
            for word in f"{noun.article} {text}".split()
        ]
    return tuple(words)


def agreement(subject: tuple[Noun, ...]) -> str:
    """Return the agreement of the verb with a subject: "first" (am), "singular" (is) or "plural"
    (are).
    """
    if len(subject) > 1 or subject[0].english in PLURAL:
        return "plural"
    return "first" if subject[0].english == "I" else "singular"


@cache
def predicate(verb: Verb, frame: Frame, agrees: str) -> tuple[Word, ...]:
    """Realise the verb group: eats, ate, is eating, will not eat, did not eat, didn't eat, cannot
    eat, is.
    """
    tense, progressive, negative, short, able = frame
    words = []
    if tense == "future":
        words.append(Word("will", ("tense",)))
    elif able:
        words.append(Word("could" if tense == "past" else "can", ("tense",)))
    elif progressive or verb.copula:
        words.append(
            Word(BE[tense][agrees], ("tense", "aspect" if progressive else "verb"))
        )
    elif negative:
        words.append(Word(DO[tense][agrees], ("tense",)))
    if negative and words[0].text != "am" and (short or words[0].text == "can"):
        form = (
            CONTRACTED.get(words[0].text, words[0].text + "n't") if short else "cannot"
        )
        words[0] = Word(form, (*words[0].realises, "polarity"))
    elif negative:
        words = [*words * (not short), Word("not", ("polarity",))]
    if tense == "future" and (progressive or verb.copula):
        words.append(Word("be", ("aspect" if progressive else "verb",)))
    if verb.copula:
        return tuple(words)
    if progressive or words:
        return (
            *words,
            Word(participle(verb.english) if progressive else verb.english, ("verb",)),
        )
    simple = (
        verb.past
        if tense == "past"
        else third_person(verb.english)
        if agrees == "singular"
        else verb.english
    )
    return (Word(simple, ("verb", "tense")),)


def third_person(base: str) -> str:
    """Form the third person singular: goes, watches, studies, plays."""
    if re.search("(s|x|z|ch|sh|o)$", base):
        return base + "es"
    return re.sub("([^aeiou])y$", r"\1ie", base) + "s"


def participle(base: str) -> str:
    """Form the present participle: eating, writing, running; one short syllable doubles its last
    consonant.
    """
    if re.fullmatch("[^aeiou]*[aeiou][^aeiouwxy]", base):
        return base + base[-1] + "ing"
    return re.sub("([^e])e$", r"\1", base) + "ing"
