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
    """Realise a clause.

    The order is: subject, verb, object, recipient, goal, manner, means, companion, place, time.
    """
    verb = content.verb
    person = agreement(content.subject)
    words = [
        *phrase(content.subject, "subject"),
        *predicate(verb, content.frame, person),
    ]
    # The only contraction of "I am not" is "I'm not"; `predicate` has left out "am".
    if person == "first" and words[1].text == "not":
        words[0] = Word("I'm", (*words[0].realises, "tense", "aspect"))

    if verb.copula:
        noun = content.objects[0].english
        words += [Word("a", ("object 0",)), Word(noun, ("object 0",))]
    elif content.objects:
        words += phrase(content.objects, "object", verb.preposition)
    if content.recipient:
        words += phrase((content.recipient,), "recipient", "to")
    if content.place and verb.goal != "never":
        preposition = "to" if content.place.article else ""
        words += phrase((content.place,), "place", preposition)

    words += fixed(content.adverb, "adverb", "english")
    words += _circumstances(content)
    return _with_connective(words, connective) if connective else words


def _circumstances(content: Clause) -> list[Word]:
    """Realise means, companion, place and time."""
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
    conjunction = Word(connective.english, ("connective",))
    if connective.subordinate:
        return [conjunction, *with_mark(words)]
    return [*with_mark(words), conjunction]


@cache
def phrase(
    nouns: tuple[Noun, ...], role: str, preposition: str = ""
) -> tuple[Word, ...]:
    """Realise one noun or two with articles and a preposition, such as "to the school"."""
    words = [Word(preposition, (role,))] if preposition else []
    for number, noun in enumerate(nouns):
        if number:
            words.append(Word("and", (f"{role} and",)))
        text = noun.english
        if role != "subject":
            text = ACCUSATIVE.get(text, text)
        words += [
            Word(word, (f"{role} {number}",))
            for word in f"{noun.article} {text}".split()
        ]
    return tuple(words)


def agreement(subject: tuple[Noun, ...]) -> str:
    """Return the form of the verb for a subject: "first" (am), "singular" (is), "plural" (are)."""
    if len(subject) > 1 or subject[0].english in PLURAL:
        return "plural"
    return "first" if subject[0].english == "I" else "singular"


@cache
def predicate(verb: Verb, frame: Frame, person: str) -> tuple[Word, ...]:
    """Realise the verb group for the `agreement` of its subject.

    Examples: eats, ate, is eating, will not eat, did not eat, didn't eat, cannot eat, is.
    """
    words = _auxiliaries(verb, frame, person)
    if verb.copula:
        return tuple(words)
    if frame.progressive:
        return (*words, Word(participle(verb.english), ("verb",)))
    if words:
        return (*words, Word(verb.english, ("verb",)))

    simple = verb.english
    if frame.tense == "past":
        simple = verb.past
    elif person == "singular":
        simple = third_person(verb.english)
    return (Word(simple, ("verb", "tense")),)


def _auxiliaries(verb: Verb, frame: Frame, person: str) -> list[Word]:
    """Realise the auxiliaries of a verb and their negation; the copula counts as an auxiliary."""
    tense, progressive, negative, short, able = frame
    be_realises = "aspect" if progressive else "verb"
    words = []
    if tense == "future":
        words.append(Word("will", ("tense",)))
    elif able:
        words.append(Word("could" if tense == "past" else "can", ("tense",)))
    elif progressive or verb.copula:
        words.append(Word(BE[tense][person], ("tense", be_realises)))
    elif negative:
        words.append(Word(DO[tense][person], ("tense",)))

    if negative:
        words = _negate(words[0], short)
    if tense == "future" and (progressive or verb.copula):
        words.append(Word("be", (be_realises,)))
    return words


def _negate(auxiliary: Word, short: bool) -> list[Word]:
    """Negate an auxiliary: did not, didn't, cannot.

    A short negation of "am" is "not" alone, which `clause` contracts with the subject to "I'm not".
    """
    text = auxiliary.text
    if text == "am" or (not short and text != "can"):
        not_word = Word("not", ("polarity",))
        return [not_word] if short else [auxiliary, not_word]
    negated = CONTRACTED.get(text, text + "n't") if short else "cannot"
    return [Word(negated, (*auxiliary.realises, "polarity"))]


def third_person(base: str) -> str:
    """Form the third person singular: goes, watches, studies, plays."""
    if re.search("(s|x|z|ch|sh|o)$", base):
        return base + "es"
    return re.sub("([^aeiou])y$", r"\1ie", base) + "s"


def participle(base: str) -> str:
    """Form the present participle: eating, writing, running.

    A verb of one short syllable doubles its last consonant.
    """
    if re.fullmatch("[^aeiou]*[aeiou][^aeiouwxy]", base):
        return base + base[-1] + "ing"
    return re.sub("([^e])e$", r"\1", base) + "ing"
