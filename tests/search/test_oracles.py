"""Constraints on a search against brute force: a beam as wide as the space finds exactly the
allowed targets.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from laws.searching import recomputed
from tables import random_table, source

from regard.search import BannedPhrase, SearchSettings, Task, Term, decode

V = 7  # PAD UNK BOS EOS and three ordinary tokens
LONGEST = 6
SYMBOLS = (4, 5, 6)
WIDE = 400  # more than there are targets: 1 + 3 + 9 + 27 + 81 + 243
Ids = tuple[int, ...]
PLAIN = SearchSettings()


@pytest.fixture(autouse=True)
def _wide_beams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow a beam as wide as the space: the limit is one of time, not of what is found."""
    monkeypatch.setattr("regard.search.settings.MAX_COMPARED", WIDE)


SPACE: list[Ids] = [
    ids for n in range(LONGEST) for ids in itertools.product(SYMBOLS, repeat=n)
]


def check(
    allowed: Callable[[Ids], bool],
    settings: SearchSettings = PLAIN,
    **constraints: Any,
) -> None:
    """Check that all allowed targets and no others were found, ordered by score."""
    alpha = 0.6
    settings = settings.with_values(beam=WIDE, length_penalty=alpha)
    table = random_table(3, V, LONGEST + 1, end=-1.0)
    tasks = [Task(n, LONGEST, **constraints) for n in range(3)]

    for sentence, hypotheses in enumerate(decode(table, source(3), tasks, settings)):
        expected = {}
        for ids in filter(allowed, SPACE):
            penalty = ((6 + len(ids)) / 6) ** alpha
            expected[ids] = recomputed(table, sentence, ids) / penalty

        assert len(expected) > 3

        ranked = sorted(expected, key=expected.__getitem__, reverse=True)
        complete = [h for h in hypotheses if h.complete]

        assert [h.ids for h in complete] == ranked

        scores = [expected[ids] for ids in ranked]

        assert [h.score for h in complete] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("min_length", [1, 3])
def test_no_target_is_shorter_than_min_length(min_length: int) -> None:
    check(
        lambda ids: len(ids) >= min_length,
        SearchSettings(min_length=min_length),
    )


@pytest.mark.parametrize("n", [1, 2])
def test_no_ngram_is_repeated(n: int) -> None:
    def allowed(ids: Ids) -> bool:
        ngrams = [ids[i : i + n] for i in range(len(ids) - n + 1)]
        return len(set(ngrams)) == len(ngrams)

    check(allowed, SearchSettings(no_repeat_ngram=n))


@pytest.mark.parametrize("prefix", [(4,), (5, 5, 6)])
def test_every_target_begins_with_the_prefix(prefix: Ids) -> None:
    check(lambda ids: ids[: len(prefix)] == prefix, prefix=prefix)


# 5 is no word boundary.
AFTER_FOUR = np.array([True, True, True, True, True, False, True])
TERMS = {
    "one token": (Term(((5,),)),),
    "a phrase": (Term(((5, 6, 5),)),),
    "a phrase that repeats its first token": (Term(((5, 5, 6),)),),
    "two": (Term(((5, 6),)), Term(((4,),))),
    "two that share a token": (Term(((5, 6),)), Term(((6, 4),))),
    "either form": (Term(((5, 6), (4, 4))),),
    "a form for the start": (Term(((5, 6),), initial_forms=((4, 5),)),),
    "the same token in another term": (Term(((5,),)), Term(((5, 5),))),
    "a whole word": (Term(((4,),), may_follow=AFTER_FOUR),),
}


def holds(
    ids: Ids,
    term: Term,
) -> bool:
    def matches(
        form: Ids,
        start: int,
    ) -> bool:
        end = start + len(form)
        if ids[start:end] != form:
            return False
        return (
            term.may_follow is None
            or end >= len(ids)
            or bool(term.may_follow[ids[end]])
        )

    anywhere = any(matches(form, n) for form in term.forms for n in range(len(ids)))
    return anywhere or any(matches(form, 0) for form in term.initial_forms)


def first_ends_its_word(ids: Ids) -> bool:
    """Return whether there is a 4 and the first of them is not followed by 5."""
    if 4 not in ids:
        return False
    return ids[ids.index(4) + 1 :][:1] != (5,)


@pytest.mark.parametrize("case", TERMS)
def test_every_target_holds_its_terms(case: str) -> None:
    terms = TERMS[case]

    def allowed(ids: Ids) -> bool:
        if case == "a whole word":  # only a later 4 may be followed by 5
            return first_ends_its_word(ids)
        return all(holds(ids, term) for term in terms)

    check(allowed, terms=terms)


SURFACES = [b"", b"", b"", b"", b" a", b"b", b" ab."]
COMPLETIONS = {
    "ab": ((b"a", 5, True), (b"", 6, False)),  # " a" + "b", " ab."
    "a": ((b"", 4, False),),
    "ab ab": ((b"ab a", 5, True), (b"ab", 6, True)),
}


@pytest.mark.parametrize("word", COMPLETIONS)
def test_no_target_holds_a_forbidden_word_in_any_tokenisation(
    word: str,
) -> None:
    def allowed(ids: Ids) -> bool:
        surfaces = [SURFACES[token].decode() for token in ids]
        texts = ["".join(surfaces[:n]) for n in range(len(ids) + 1)]
        return not any(re.search(rf"(?<!\w){word}(?!\w)", text) for text in texts)

    check(allowed, banned=(BannedPhrase(SURFACES, COMPLETIONS[word]),))


def test_all_constraints_hold_together() -> None:
    def allowed(ids: Ids) -> bool:
        bigrams = list(itertools.pairwise(ids))
        if len(ids) < 3 or ids[0] != 6 or len({*bigrams}) < len(bigrams):
            return False
        return (5, 6) in bigrams and (4, 5) not in bigrams

    check(
        allowed,
        SearchSettings(min_length=3, no_repeat_ngram=2),
        prefix=(6,),
        terms=(Term(((5, 6),)),),
        banned=(BannedPhrase(SURFACES, COMPLETIONS["ab"][:1]),),
    )


def test_a_prefix_takes_precedence_over_a_term() -> None:
    """The prefix goes on although a term requires its word to end; the term is then written once
    more.
    """
    check(
        lambda ids: ids[:2] == (4, 5) and first_ends_its_word(ids[2:]),
        prefix=(4, 5),
        terms=TERMS["a whole word"],
    )


# --- narrow beams


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("case", TERMS)
def test_terms_are_written_by_narrow_beams_too(
    width: int,
    case: str,
) -> None:
    table = random_table(8, V, 12, end=0.5)
    tasks = [Task(n, 12, terms=TERMS[case]) for n in range(8)]

    for hypotheses in decode(table, source(8), tasks, SearchSettings(beam=width)):
        assert hypotheses[0].complete
        assert all(holds(hypotheses[0].ids, term) for term in TERMS[case])


@pytest.mark.parametrize("width", [1, 4])
def test_constraints_that_cannot_be_satisfied_still_end(width: int) -> None:
    table = random_table(4, V, 9)
    banned = (BannedPhrase(SURFACES, ((b"", 5, False),)),)
    tasks = [
        Task(0, 6, terms=TERMS["one token"], banned=banned),
        Task(1, 3, prefix=(4, 4, 4, 4, 4)),
        Task(2, 3, terms=(Term(((4, 5, 6, 5, 6),)),)),
        Task(3, 40),
    ]
    settings = SearchSettings(
        beam=width,
        min_length=5,
        no_repeat_ngram=1,
    )
    forbidden, too_long, too_short, without_repeats = decode(
        table,
        source(4),
        tasks,
        settings,
    )

    assert not forbidden[0].complete
    assert too_long[0].ids == (4, 4)
    assert not too_short[0].complete
    assert all(len(h.ids) < 3 for h in too_short)
    assert 0 < max(len(h.ids) for h in without_repeats) <= 3, (
        "three tokens, used once each"
    )
