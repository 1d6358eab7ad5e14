"""Limits of the search, and costs that grow no faster than what is asked for."""

from __future__ import annotations

import random

import numpy as np
import pytest
from helpers.time_limits import time_limit
from tables import random_table, source

from regard.common.errors import ConfigurationError, UsageError
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.search import (
    ConstraintEncoder,
    Constraints,
    SearchSettings,
    Task,
    check_constraints,
    decode,
    mbr_utility,
    search,
)
from regard.search.candidate_selection import Candidates, select_diverse, select_top


@pytest.fixture(scope="module")
def encoder() -> ConstraintEncoder:
    text = ["I was eating bread at home", "나는 집에 간다", "we bake breads"]
    return ConstraintEncoder(Tokenizer.train(text, text, TokenizerSettings()).target)


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
    ("constraints", "message"),
    TOO_MANY,
    ids=["terms", "prefix", "forbid"],
)
def test_too_many_constraints_are_refused_in_a_short_sentence(
    encoder: ConstraintEncoder,
    constraints: Constraints,
    message: str,
) -> None:
    with pytest.raises(UsageError) as refused:
        check_constraints([constraints], encoder, SearchSettings())

    (cause,) = refused.value.causes

    assert cause.startswith(message)
    assert "raise that limit (`max_" in cause
    assert len(cause) < 200

    raised = SearchSettings(max_required=10**6, max_forbidden=10**6)

    assert encoder.check(constraints, "", raised) == []


@pytest.mark.slow
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
        zeros = np.zeros((1, 1000))
        select_diverse(zeros, zeros, candidates, 1000, 1000, 0.5)
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

    expected = np.take_along_axis(tokens.reshape(2, -1), order, 1)

    assert np.array_equal(best.beam_indices, order // 41)
    assert np.array_equal(best.tokens, expected)
    assert np.array_equal(best.log_probs, np.take_along_axis(totals, order, 1))


def test_the_history_grows_for_long_prefixes() -> None:
    model = random_table(2, 9, end=-60.0)
    tasks = [Task(0, 100), Task(1, 41)]
    results = decode(model, source(2), tasks, SearchSettings(beam=2))

    assert [len(hypotheses[0].ids) for hypotheses in results] == [99, 40]


def test_a_search_of_no_sentences_is_empty() -> None:
    assert search(random_table(1, 9), source(0), [], SearchSettings()) == []
