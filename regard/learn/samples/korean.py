"""Korean clauses: particles, verb endings, politeness."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from regard.learn.samples.conjugation import Stem, conjugate
from regard.learn.samples.derivation import Clause, Frame, Word, fixed
from regard.learn.samples.hangul import particle
from regard.learn.samples.lexicon import Connective, Noun
from regard.learn.samples.verbs import Verb

POLITE = {"나": "저", "우리": "저희"}
BEFORE_GA = {"나": "내", "저": "제", "너": "네"}

PROGRESS = Stem("있", static=True)
# 않다 denotes a state after a static stem such as 있다: 먹지 않는다, but 먹고 있지 않다.
NEGATION = {
    False: Stem("않"),
    True: Stem("않", static=True),
}
UNABLE = Stem("못하", "하")
FUTURE = {"다": "것이다", "요": "거예요"}
FUTURE_STEM = {False: "것이", True: "거"}


def clause(content: Clause, connective: Connective | None, polite: bool) -> list[Word]:
    """Realise a clause.

    The order is: subject, time, companion, means, place or goal, recipient, object, manner, verb.
    """
    verb = content.verb
    subject_particle = "subject" if connective and connective.subordinate else "topic"
    words = [
        *phrase(content.subject, "subject", subject_particle, polite),
        *fixed(content.time, "time", "korean"),
    ]

    if content.companion:
        words += phrase((content.companion,), "companion", "with", polite)
        words.append(Word("함께", ("companion",)))
    if content.means:
        words += phrase((content.means,), "means", "means")
    if content.place:
        place_particle = "at" if verb.goal == "never" else "to"
        words += phrase((content.place,), "place", place_particle)
    if content.recipient:
        words += phrase((content.recipient,), "recipient", "for", polite)

    if verb.copula:
        return [*words, *_copula(content, connective, polite)]
    if content.objects:
        words += phrase(content.objects, "object", "object", polite)
    words += fixed(content.adverb, "adverb", "korean")
    words += predicate(verb, content.frame, connective, polite)
    return words


def _copula(content: Clause, connective: Connective | None, polite: bool) -> list[Word]:
    """Realise the copula with its noun, affirmative or negative: 학생이다, 학생이 아니다."""
    (noun,) = content.objects
    frame = content.frame
    stem = Stem("아니" if frame.negative else noun.korean + "이", "이")
    copula = replace(content.verb, stem=stem)
    verb_word, *other_words = predicate(copula, Frame(frame.tense), connective, polite)

    if frame.negative:
        complement = Word(particle(noun.korean, "subject"), ("object 0",))
        negated = verb_word._replace(realises=(*verb_word.realises, "polarity"))
        return [complement, negated, *other_words]
    joined = verb_word._replace(realises=("object 0", *verb_word.realises))
    return [joined, *other_words]


@cache
def phrase(
    nouns: tuple[Noun, ...], role: str, particle_role: str, polite: bool = False
) -> tuple[Word, ...]:
    """Realise one noun, or two joined by 와/과; the last bears the particle of `particle_role`."""
    forms = [noun.korean for noun in nouns]
    if polite:
        forms = [POLITE.get(form, form) for form in forms]
    *joined, last = forms
    if particle_role == "subject":
        last = BEFORE_GA.get(last, last)

    words = [
        Word(particle(form, "with"), (f"{role} 0", f"{role} and")) for form in joined
    ]
    words.append(Word(particle(last, particle_role), (f"{role} {len(joined)}", role)))
    return tuple(words)


@cache
def predicate(
    verb: Verb, frame: Frame, connective: Connective | None, polite: bool
) -> tuple[Word, ...]:
    """Realise the verb group and the connective.

    Examples: 먹는다, 먹고 있었다, 먹지 않을 것이다, 안 먹었다, 먹었기 때문에.
    """
    ending = "요" if polite else "다"
    if connective:
        ending = connective.ending

    if connective and connective.timeless:
        words = [Word(conjugate(verb.stem, ending), ("verb", "tense", "aspect"))]
    else:
        words = _verb_group(verb.stem, frame, ending, polite)

    if connective and connective.noun:
        words.append(Word(connective.noun, ("connective",)))
    elif connective:
        words[-1] = Word(words[-1].text, (*words[-1].realises, "connective"))
    return tuple(words)


def _verb_group(stem: Stem, frame: Frame, ending: str, polite: bool) -> list[Word]:
    """Realise the verb and the auxiliaries 있다, 않다 and 것이다 that the frame requires.

    Each auxiliary determines the ending of the word before it.
    """
    words: list[Word] = []
    part = "verb"

    # Short negation: 안 먹는다, 안 좋아한다, but 공부 안 한다.
    if frame.negative and frame.short:
        if stem.kind == "하" and stem.text != "좋아하":
            words = [Word(stem.text[:-1], (part,))]
            stem = Stem("하", "하")
        words.append(Word("못" if frame.able else "안", ("polarity",)))

    if frame.progressive:
        words.append(Word(conjugate(stem, "고"), (part,)))
        stem = PROGRESS
        part = "aspect"

    if frame.negative and not frame.short:
        words.append(Word(conjugate(stem, "지"), (part,)))
        stem = UNABLE if frame.able else NEGATION[stem.static]
        part = "polarity"

    if frame.tense == "future":
        future = FUTURE.get(ending, FUTURE_STEM[polite] + ending)
        return [*words, Word(conjugate(stem, "을"), (part,)), Word(future, ("tense",))]
    last = conjugate(stem, ending, past=frame.tense == "past")
    return [*words, Word(last, (part, "tense"))]
