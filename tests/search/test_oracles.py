"""Constraints on a search against brute force: a beam as wide as the space finds exactly the
allowed targets.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from laws.searching import recomputed
from tables import Table, random_table, source

from regard.search import BannedPhrase, Hypothesis, SearchSettings, Task, Term, decode

V, LONGEST = 7, 6  # PAD UNK BOS EOS and three ordinary tokens
SYMBOLS = (4, 5, 6)
WIDE = 400  # more than there are targets: 1 + 3 + 9 + 27 + 81 + 243
Ids = tuple[int, ...]


@pytest.fixture(autouse=True)
def _wide_beams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow a beam as wide as the space: the limit is one of time, not of what is found."""
    monkeypatch.setattr("regard.search.settings.MAX_COMPARED", WIDE)


SPACE: list[Ids] = [ids for n in range(LONGEST) for ids in itertools.product(SYMBOLS, repeat=n)]


def assert_exhaustive(
    hypotheses: list[Hypothesis],
    table: Table,
    sentence: int,
    allowed: Callable[[Ids], bool],
    alpha: float,
) -> None:
    """Check that all allowed targets and no others were found, ordered by score."""
    expected = {
        ids: recomputed(table, sentence, ids) / ((6 + len(ids)) / 6) ** alpha
        for ids in SPACE
        if allowed(ids)
    }
    assert len(expected) > 3
    assert {h.ids for h in hypotheses if h.complete} == set(expected)
    ranked = sorted(expected, key=expected.__getitem__, reverse=True)
    complete = [h for h in hypotheses if h.complete]
    assert [h.ids for h in complete] == ranked
    assert [h.score for h in complete] == pytest.approx([expected[ids] for ids in ranked], abs=1e-4)


def check(
    settings: SearchSettings, task: Callable[[int], Task], allowed: Callable[[Ids], bool]
) -> None:
    settings = settings.with_values(beam=WIDE, length_penalty=0.6)
    table = random_table(3, V, LONGEST + 1, end=-1.0)
    for sentence, hypotheses in enumerate(
        decode(table, source(3), [task(n) for n in range(3)], settings)
    ):
        assert_exhaustive(hypotheses, table, sentence, allowed, 0.6)


def plain(name: int) -> Task:
    return Task(name, LONGEST)


def test_all_targets_are_found() -> None:
    check(SearchSettings(), plain, lambda _: True)


@pytest.mark.parametrize("min_length", [1, 3, LONGEST - 1])
def test_no_target_is_shorter_than_min_length(min_length: int) -> None:
    check(SearchSettings(min_length=min_length), plain, lambda ids: len(ids) >= min_length)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_is_repeated(n: int) -> None:
    def allowed(ids: Ids) -> bool:
        ngrams = [ids[i : i + n] for i in range(len(ids) - n + 1)]
        return len(set(ngrams)) == len(ngrams)

    check(SearchSettings(no_repeat_ngram=n), plain, allowed)


@pytest.mark.parametrize("prefix", [(4,), (5, 5, 6)])
def test_every_target_begins_with_the_prefix(prefix: Ids) -> None:
    check(
        SearchSettings(),
        lambda n: Task(n, LONGEST, prefix=prefix),
        lambda ids: ids[: len(prefix)] == prefix,
    )


AFTER_FOUR = np.array([True, True, True, True, True, False, True])  # 5 is no word boundary
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


def holds(ids: Ids, term: Term) -> bool:
    def matches(form: Ids, start: int) -> bool:
        end = start + len(form)
        return ids[start:end] == form and (
            term.may_follow is None or end >= len(ids) or bool(term.may_follow[ids[end]])
        )

    return any(matches(form, n) for form in term.forms for n in range(len(ids))) or any(
        matches(f, 0) for f in term.initial_forms
    )


@pytest.mark.parametrize("case", TERMS)
def test_every_target_holds_its_terms(case: str) -> None:
    terms = TERMS[case]

    def allowed(ids: Ids) -> bool:
        if (
            case == "a whole word"
        ):  # the first 4 must end its word; only a later 4 may be followed by 5
            first = ids.index(4) if 4 in ids else None
            return first is not None and (first + 1 == len(ids) or ids[first + 1] != 5)
        return all(holds(ids, term) for term in terms)

    check(SearchSettings(), lambda n: Task(n, LONGEST, terms=terms), allowed)


SURFACES = [b"", b"", b"", b"", b" a", b"b", b" ab."]
COMPLETIONS = {
    "ab": ((b"a", 5, True), (b"", 6, False)),  # " a" + "b", " ab."
    "a": ((b"", 4, False),),
    "ab ab": ((b"ab a", 5, True), (b"ab", 6, True)),
}


@pytest.mark.parametrize("word", COMPLETIONS)
def test_no_target_holds_a_forbidden_word_in_any_tokenisation(word: str) -> None:
    phrases = (BannedPhrase(SURFACES, COMPLETIONS[word]),)

    def allowed(ids: Ids) -> bool:
        texts = (
            "".join(SURFACES[token].decode() for token in ids[:n]) for n in range(len(ids) + 1)
        )
        return not any(re.search(rf"(?<!\w){word}(?!\w)", text) for text in texts)

    check(SearchSettings(), lambda n: Task(n, LONGEST, banned=phrases), allowed)


def test_all_constraints_hold_together() -> None:
    terms = (Term(((5, 6),)),)
    phrases = (BannedPhrase(SURFACES, COMPLETIONS["ab"][:1]),)
    settings = SearchSettings(min_length=3, no_repeat_ngram=2)

    def allowed(ids: Ids) -> bool:
        bigrams = list(itertools.pairwise(ids))
        banned = any(bigram == (4, 5) for bigram in bigrams)
        return (
            len(ids) >= 3
            and len({*bigrams}) == len(bigrams)
            and (5, 6) in bigrams
            and ids[:1] == (6,)
            and not banned
        )

    check(settings, lambda n: Task(n, LONGEST, prefix=(6,), terms=terms, banned=phrases), allowed)


def test_a_prefix_takes_precedence_over_a_term() -> None:
    """The prefix goes on although a term requires its word to end; the term is then written once
    more.
    """
    terms = (Term(((4,),), may_follow=AFTER_FOUR),)

    def allowed(ids: Ids) -> bool:
        later = ids[2:]
        first = later.index(4) if 4 in later else None
        return (
            ids[:2] == (4, 5)
            and first is not None
            and (first + 1 == len(later) or later[first + 1] != 5)
        )

    check(
        SearchSettings(no_repeat_ngram=0),
        lambda n: Task(n, LONGEST, prefix=(4, 5), terms=terms),
        allowed,
    )


# --- narrow beams


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("case", TERMS)
def test_terms_are_written_by_narrow_beams_too(width: int, case: str) -> None:
    table = random_table(8, V, 12, end=0.5)
    tasks = [Task(n, 12, terms=TERMS[case]) for n in range(8)]
    for hypotheses in decode(table, source(8), tasks, SearchSettings(beam=width)):
        assert hypotheses[0].complete
        assert all(holds(hypotheses[0].ids, term) for term in TERMS[case])


@pytest.mark.parametrize("width", [1, 3])
def test_each_sentence_has_its_own_constraints(width: int) -> None:
    """Sentences decoded together with different constraints give the same results as alone."""
    table = random_table(5, V, 9, end=0.5)
    settings = SearchSettings(beam=width)
    tasks = [
        Task(0, 9),
        Task(1, 9, prefix=(5, 5)),
        Task(2, 9, terms=TERMS["two"]),
        Task(3, 9, banned=(BannedPhrase(SURFACES, COMPLETIONS["a"]),)),
        Task(4, 9, prefix=(6,), terms=TERMS["a phrase"]),
    ]
    together = decode(table, source(5), tasks, settings)
    for n, task in enumerate(tasks):
        (separate,) = decode(table, source(5).select(torch.tensor([n])), [task], settings)
        assert [h.ids for h in separate] == [h.ids for h in together[n]]
    assert len({hypotheses[0].ids for hypotheses in together}) > 2


@pytest.mark.parametrize("width", [1, 4])
def test_constraints_that_cannot_be_satisfied_still_end(width: int) -> None:
    """A forbidden term, a prefix that is too long, a term longer than the target may be, no token
    twice.
    """
    table = random_table(4, V, 9)
    phrase = BannedPhrase(SURFACES, ((b"", 5, False),))
    tasks = [
        Task(0, 6, terms=(Term(((5,),)),), banned=(phrase,)),
        Task(1, 3, prefix=(4, 4, 4, 4, 4)),
        Task(2, 3, terms=(Term(((4, 5, 6, 5, 6),)),)),
        Task(3, 40),
    ]
    results = decode(
        table, source(4), tasks, SearchSettings(beam=width, min_length=5, no_repeat_ngram=1)
    )
    assert all(len(hypotheses) >= 1 for hypotheses in results)
    assert all(
        len(h.ids) < task.max_steps
        for hypotheses, task in zip(results, tasks, strict=True)
        for h in hypotheses
    )
    assert not results[0][0].complete
    assert results[1][0].ids == (4, 4)
    assert not results[2][0].complete
    assert all(len(h.ids) <= 3 for h in results[3]), "there are three tokens, used once each"
