"""Limits of the search, and costs that grow no faster than what is asked for."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest
from limits import time_limit

from regard.common.errors import ConfigurationError, UsageError
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import Vocabulary
from regard.search import (
    ConstraintEncoder,
    Constraints,
    SearchSettings,
    Term,
    check_constraints,
    mbr_utility,
)
from regard.search.constraints import ConstraintState, contains
from regard.search.selection import Candidates, select_diverse, select_top

TEXT = ["I was eating bread at home", "나는 집에 간다", "we bake breads"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Tokenizer.train(TEXT, TEXT, TokenizerSettings()).target


def test_progress_through_terms_is_that_of_their_definition() -> None:
    rng = random.Random(3)
    for _ in range(300):
        V = rng.randint(2, 5)

        def words(V: int = V) -> tuple[int, ...]:
            return tuple(rng.randrange(V) for _ in range(rng.randint(1, 4)))

        terms = tuple(
            Term(
                tuple(dict.fromkeys(words() for _ in range(rng.randint(1, 2)))),
                (words(),) if rng.random() < 0.5 else (),
                None if rng.random() < 0.4 else np.array([rng.random() < 0.5 for _ in range(V)]),
            )
            for _ in range(rng.randint(1, 4))
        )
        ids = ()
        state = ConstraintState.initial(terms)
        for _ in range(12):
            done = [contains(ids, term) for term in terms]
            assert state.done == {t for t, is_done in enumerate(done) if is_done}
            assert state.tokens_done == sum(len(terms[t].forms[0]) for t in state.done)
            assert state.is_complete == all(done)
            new = [term.may_follow for term, is_done in zip(terms, done, strict=True) if is_done]
            before = [contains(ids[:-1], term) for term in terms if contains(ids, term)]
            masks = [
                mask for mask, was in zip(new, before, strict=True) if mask is not None and not was
            ]
            assert (state.may_follow is None) == (not masks)
            assert not masks or np.array_equal(state.may_follow, np.logical_and.reduce(masks))  # type: ignore[arg-type]
            starts = {form[0] for t, term in enumerate(terms) if not done[t] for form in term.forms}
            assert starts <= state.next_tokens()
            token = rng.randrange(V)
            assert state.tokens_done <= state.bank(token)
            ids = (*ids, token)
            state = state.advance(token)


def test_a_step_does_not_look_back_at_the_target() -> None:
    terms = tuple(Term(((t, t + 1),)) for t in range(100))
    state = ConstraintState.initial(terms)
    for step in range(2000):
        state = state.advance(step % 7)
        assert len(state.partial) <= 2


LIMITS = {
    "terms": (
        Constraints(terms=tuple(f"bread {n}" for n in range(300))),
        "term: wanted at most 200 tokens in all, got ",
    ),
    "long term": (
        Constraints(terms=("a" * 20_000,)),
        "term: wanted at most 200 tokens in all, got 20,0",
    ),
    "prefix": (
        Constraints("I " * 300, ("a",)),
        "prefix and term: wanted at most 200 tokens in all, got ",
    ),
    "forbid": (
        Constraints(forbid=tuple(map(str, range(10_001)))),
        "forbid: wanted at most 10,000 words and phrases",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_too_many_constraints_are_refused_in_a_short_sentence(
    vocabulary: Vocabulary, name: str
) -> None:
    constraints, message = LIMITS[name]
    with pytest.raises(UsageError) as refused:
        check_constraints([constraints], ConstraintEncoder(vocabulary), SearchSettings())
    (cause,) = refused.value.causes
    assert cause.startswith(message)
    assert "raise that limit (`max_" in cause
    assert len(cause) < 200
    raised = SearchSettings(max_required=10**6, max_forbidden=10**6)
    assert ConstraintEncoder(vocabulary).check(constraints, "", raised) == []


def test_messages_quote_long_constraints_in_part(vocabulary: Vocabulary) -> None:
    word = "bread" * 30
    causes = ConstraintEncoder(vocabulary).check(Constraints(terms=(word,), forbid=(word,)))
    assert len(causes) == 1
    assert "is also required, by 'breadbread" in causes[0]
    assert len(causes[0]) < 250


def test_forbidden_phrases_take_time_with_their_length(vocabulary: Vocabulary) -> None:
    words = tuple(f"word{n}" for n in range(20_000))
    with time_limit():
        ConstraintEncoder(vocabulary).encode_forbidden(("bread" * 50_000,))
        ConstraintEncoder(vocabulary).check(Constraints(terms=("bread",) * 50, forbid=words))


def test_a_beam_has_a_limit_and_samples_have_another() -> None:
    with pytest.raises(ConfigurationError, match="take at most 250"):
        SearchSettings.parse({"beam": 5000}, "test")
    with pytest.raises(ConfigurationError, match="take at most 250"):
        SearchSettings.parse({"beam": 5000, "sample": True, "mbr": True}, "test")
    assert SearchSettings.parse({"beam": 5000, "sample": True}, "test").beam == 5000
    with pytest.raises(ConfigurationError, match="20000"):
        SearchSettings.parse({"beam": 10**9, "sample": True}, "test")


def test_a_wide_beam_selects_as_a_full_sort_does(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    log_probs = rng.integers(-9, 0, (2, 40)).astype(float)  # many equals
    token_log_probs = rng.integers(-9, 0, (2, 40, 41)).astype(float)
    candidates = Candidates(token_log_probs, token_log_probs, rng.integers(4, 300, (2, 40, 41)))
    results = []
    for many in (10, 10**6):
        monkeypatch.setattr("regard.search.selection._MANY", many)
        results.append(select_top(log_probs, log_probs, candidates, 40).best)
    assert all(np.array_equal(one, other) for one, other in zip(*results, strict=True))


def test_groups_take_time_and_memory_with_their_number() -> None:
    """No candidate is compared with each token that earlier groups took: a count of these is
    enough.
    """

    def select(width: int, groups: int) -> None:
        log_probs = np.zeros((1, width))
        tokens = np.arange(width * 200).reshape(1, width, 200) % 1000
        candidates = Candidates(-tokens / 1000.0, -tokens / 1000.0, tokens)
        select_diverse(log_probs, log_probs, candidates, width, groups, 0.5)

    with time_limit():
        select(1000, 1000)
    tracemalloc.start()
    select(1000, 2)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 20_000_000, (
        "of 200,000 candidates; compared with 500 tokens each, 50 million bytes at the least"
    )


def test_mbr_keeps_no_ngram_of_one_text_alone() -> None:
    rng = random.Random(0)
    texts = ["".join(chr(0xAC00 + rng.randrange(11_000)) for _ in range(200)) for _ in range(200)]
    with time_limit():
        mbr_utility(texts, [1.0] * 200)
