"""Limits of the search, and costs that grow no faster than what is asked for."""

from __future__ import annotations

import random

import numpy as np
import pytest
from helpers.time_limits import time_limit

from regard.common.errors import ConfigurationError, UsageError
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.search import (
    ConstraintEncoder,
    Constraints,
    SearchSettings,
    Term,
    check_constraints,
    mbr_utility,
)
from regard.search.candidate_selection import Candidates, select_diverse, select_top
from regard.search.constraints import ConstraintState, contains


@pytest.fixture(scope="module")
def encoder() -> ConstraintEncoder:
    text = ["I was eating bread at home", "나는 집에 간다", "we bake breads"]
    return ConstraintEncoder(Tokenizer.train(text, text, TokenizerSettings()).target)


def random_term(rng: random.Random, V: int) -> Term:
    def word() -> tuple[int, ...]:
        return tuple(rng.randrange(V) for _ in range(rng.randint(1, 4)))

    forms = {word(): None for _ in range(rng.randint(1, 2))}
    initial_forms = (word(),) if rng.random() < 0.5 else ()
    may_follow = (
        None if rng.random() < 0.4 else np.array([rng.random() < 0.5 for _ in range(V)])
    )
    return Term(tuple(forms), initial_forms, may_follow)


def test_progress_through_terms_is_that_of_their_definition() -> None:
    rng = random.Random(3)
    for _ in range(300):
        V = rng.randint(2, 5)
        terms = tuple(random_term(rng, V) for _ in range(rng.randint(1, 4)))
        ids = ()
        state = ConstraintState.initial(terms)

        for _ in range(12):
            done = {t for t, term in enumerate(terms) if contains(ids, term)}
            new = {t for t in done if not contains(ids[:-1], terms[t])}
            masks = [mask for t in new if (mask := terms[t].may_follow) is not None]
            assert state.done == done
            assert state.tokens_done == sum(len(terms[t].forms[0]) for t in done)
            assert state.is_complete == (len(done) == len(terms))
            if masks:
                assert np.array_equal(state.may_follow, np.logical_and.reduce(masks))  # type: ignore[arg-type]
            else:
                assert state.may_follow is None

            token = rng.randrange(V)
            for t, term in enumerate(terms):
                assert (
                    t in done or {form[0] for form in term.forms} <= state.next_tokens()
                )
            assert state.tokens_done <= state.bank(token)
            ids = (*ids, token)
            state = state.advance(token)


def test_a_step_does_not_look_back_at_the_target() -> None:
    state = ConstraintState.initial(tuple(Term(((t, t + 1),)) for t in range(100)))
    for step in range(2000):
        state = state.advance(step % 7)
        assert len(state.partial) <= 2


TOO_MANY = [
    (
        Constraints(terms=("a" * 20_000,)),
        "term: wanted at most 200 tokens in all, got 20,0",
    ),
    (
        Constraints("I " * 300, ("a",)),
        "prefix and term: wanted at most 200 tokens in all, got ",
    ),
    (
        Constraints(forbid=tuple(map(str, range(10_001)))),
        "forbid: wanted at most 10,000 words and phrases",
    ),
]


@pytest.mark.parametrize(
    ("constraints", "message"), TOO_MANY, ids=["terms", "prefix", "forbid"]
)
def test_too_many_constraints_are_refused_in_a_short_sentence(
    encoder: ConstraintEncoder, constraints: Constraints, message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        check_constraints([constraints], encoder, SearchSettings())

    (cause,) = refused.value.causes

    assert cause.startswith(message)
    assert "raise that limit (`max_" in cause
    assert len(cause) < 200

    raised = SearchSettings(max_required=10**6, max_forbidden=10**6)

    assert encoder.check(constraints, "", raised) == []


def test_messages_quote_long_constraints_in_part(
    encoder: ConstraintEncoder,
) -> None:
    word = "bread" * 30
    (cause,) = encoder.check(Constraints(terms=(word,), forbid=(word,)))

    assert "is also required, by 'breadbread" in cause
    assert len(cause) < 250


@pytest.mark.system
def test_time_grows_with_what_is_asked_for(encoder: ConstraintEncoder) -> None:
    """No candidate of groups is compared with each token that earlier groups took, and no n-gram of
    a text is kept for that text alone.
    """
    words = tuple(f"word{n}" for n in range(20_000))
    tokens = np.arange(200_000).reshape(1, 1000, 200) % 1000
    candidates = Candidates(-tokens / 1000.0, -tokens / 1000.0, tokens)
    rng = random.Random(0)
    letters = [chr(0xAC00 + rng.randrange(11_000)) for _ in range(40_000)]
    texts = ["".join(letters[start : start + 200]) for start in range(0, 40_000, 200)]

    with time_limit():
        encoder.encode_forbidden(("bread" * 50_000,))
        encoder.check(Constraints(terms=("bread",) * 50, forbid=words))
        select_diverse(
            np.zeros((1, 1000)),
            np.zeros((1, 1000)),
            candidates,
            1000,
            1000,
            0.5,
        )
        mbr_utility(texts, [1.0] * 200)


def test_a_beam_has_a_limit_and_samples_have_another() -> None:
    with pytest.raises(ConfigurationError, match="take at most 250"):
        SearchSettings.parse({"beam": 5000}, "test")
    with pytest.raises(ConfigurationError, match="take at most 250"):
        SearchSettings.parse({"beam": 5000, "sample": True, "mbr": True}, "test")
    assert SearchSettings.parse({"beam": 5000, "sample": True}, "test").beam == 5000
    with pytest.raises(ConfigurationError, match="20000"):
        SearchSettings.parse({"beam": 10**9, "sample": True}, "test")


def test_a_wide_beam_selects_as_a_full_sort_does() -> None:
    """Of many equals, too; so many candidates are not sorted as a whole."""
    rng = np.random.default_rng(0)
    log_probs = rng.integers(-9, 0, (2, 120)).astype(float)
    token_log_probs = rng.integers(-9, 0, (2, 120, 41)).astype(float)
    tokens = rng.integers(4, 300, (2, 120, 41))
    candidates = Candidates(token_log_probs, token_log_probs, tokens)
    best = select_top(log_probs, log_probs, candidates, 120).best
    totals = (log_probs[:, :, None] + token_log_probs).reshape(2, -1)
    order = np.argsort(-totals, axis=1, kind="stable")[:, : best.tokens.shape[1]]

    assert np.array_equal(best.beam_indices, order // 41)
    assert np.array_equal(
        best.tokens, np.take_along_axis(tokens.reshape(2, -1), order, 1)
    )
    assert np.array_equal(best.log_probs, np.take_along_axis(totals, order, 1))
