"""Alignment error rate, symmetrisation, and the choice of layer, head and row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from regard.attention.alignment import (
    Readings,
    argmax_links,
    extract_links,
    merge_words,
    symmetrise,
)
from regard.data.word_alignments import format_pharaoh, read_gold
from regard.evaluation.aer import (
    Gold,
    alignment_scores,
    argmax_accuracy,
    best_choice,
    extract_choice_links,
    most_agreeing_pair,
    most_consistent_choice,
)
from regard.pipeline import Translation


def matrix(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the numbers of a text, whose rows end in semicolons."""
    return np.array([row.split() for row in text.split(";")], np.float32)


def one_hot(indices: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return attention of four target tokens that each read one of four source tokens."""
    return np.eye(4, dtype=np.float32)[[*map(int, indices.split())]]


def readings(**weights: np.ndarray[Any, Any]) -> Readings:
    """Return attention between "a bc" and "xy z"."""
    return Readings(
        ("▁a", "▁b", "c", "</s>"),
        ("▁x", "y", "▁z", "</s>"),
        (0, 1, 1, -1),
        (0, 0, 1, -1),
        weights,
        dict.fromkeys(weights, "cross"),
    )


def test_source_tokens_are_summed_and_target_tokens_averaged() -> None:
    weights = matrix("0.1 0.2 0.3 0.4; 0.5 0.1 0.1 0.3; 0 0.6 0.4 0; 0 0 0 1")
    words = merge_words(weights, (0, 1, 1, -1), (0, 0, 1, -1))
    assert_allclose(words.weights, matrix("0.3 0.35; 0 1"), atol=1e-6)
    assert_allclose(words.special_weights, [0.35, 0.0], atol=1e-6)


def test_the_best_head_is_found_in_any_layer() -> None:
    links = frozenset({(1, 0), (0, 1)})
    wrong = one_hot("3 3 3 3")
    right = one_hot("1 1 0 0")
    reading = readings(low=np.stack([wrong, wrong]), high=np.stack([wrong, right]))
    choice, scores = best_choice([reading], [Gold.of(links)])

    assert (choice.layer, choice.head, scores.aer) == ("high", 1, 0.0)
    assert argmax_accuracy([reading], [links], choice) == 1.0


def test_a_shifted_row_is_the_next_one() -> None:
    words = readings(only=one_hot("0 1 2 3")[None]).words("only", 0, shifted=True)
    assert_allclose(words.weights, matrix("0 1; 0 0"))
    assert_allclose(words.special_weights, [0, 1])


def test_links_are_written_and_read_in_pharaoh_format() -> None:
    links = argmax_links(matrix("0.1 0.9; 0.8 0.2"))
    assert format_pharaoh(links) == "0-1 1-0"
    assert read_gold("0-1 1-0") == (frozenset(links), frozenset(links))
    assert read_gold("") == (frozenset(), frozenset())


def test_the_error_rate_is_that_of_the_paper() -> None:
    """Counted by hand with the formula of Och and Ney 2003: |A∩S| = 1, |A∩P| = 2, |A| = 3, |S| =
    2.
    """
    sure, possible = read_gold("0-0 1-1 2p1")
    assert sure == {(0, 0), (1, 1)}
    assert possible == {(0, 0), (1, 1), (2, 1)}

    scores = alignment_scores([[(0, 0), (2, 1), (2, 2)]], [Gold(sure, possible)])
    assert scores.aer == pytest.approx(1 - 3 / 5)
    assert scores.precision == pytest.approx(2 / 3)
    assert scores.recall == 0.5
    assert alignment_scores([[]], [Gold.of([])]).aer == 0


@pytest.mark.parametrize("line", ["0-", "1", "a-b", "0-0,1-1", "0~1", "²-0"])
def test_malformed_links_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="wanted pairs such as 0-0"):
        read_gold(line)


def test_two_directions_make_one_alignment() -> None:
    def linked(text: str) -> list[tuple[int, int]]:
        return sorted(read_gold(text)[0])

    forward = {*linked("0-0 1-1 2-1 4-3")}
    backward = {*linked("0-0 1-1 1-2 3-4")}
    for method, expected in (
        ("intersection", "0-0 1-1"),
        ("union", "0-0 1-1 1-2 2-1 3-4 4-3"),
        # (2, 1) and (1, 2) are neighbours of (1, 1), and each adds an unlinked word; (4, 3) has no
        # linked neighbour.
        ("grow-diag", "0-0 1-1 1-2 2-1"),
        # Of the rest in order: (3, 4) links two unlinked words, and so does (4, 3).
        ("grow-diag-final", "0-0 1-1 1-2 2-1 3-4 4-3"),
    ):
        assert symmetrise(forward, backward, method) == linked(expected)


def test_links_can_be_extracted_from_both_axes() -> None:
    weights = matrix("0.6 0.3 0.1; 0.5 0.4 0.1")
    assert extract_links(weights) == [(0, 0), (0, 1)]
    assert extract_links(weights, "intersection") == [(0, 0)]
    assert extract_links(weights, "union") == [(0, 0), (0, 1), (1, 1), (2, 0)]
    assert extract_links(weights[:0], "union") == []


def test_without_gold_the_heads_of_two_directions_that_agree_are_chosen() -> None:
    # X y → b c, z → a.
    forward = readings(f=np.stack([one_hot("0 0 1 3"), one_hot("1 1 0 3")]))
    weights = np.stack([one_hot("2 0 0 3"), one_hot("3 3 3 3")])
    tokens = (forward.target, forward.source)
    words = (forward.target_words, forward.source_words)
    reverse = Readings(*tokens, *words, {"g": weights}, {"g": "cross"})
    choice, other, agreement = most_agreeing_pair([forward], [reverse])

    assert (choice.layer, choice.head, choice.shifted) == ("f", 1, False)
    assert (other.layer, other.head, agreement) == ("g", 0, 1.0)
    assert extract_choice_links([forward], choice) == [[(1, 0), (0, 1)]]


def test_with_one_model_a_head_agrees_with_itself() -> None:
    heads = np.stack([one_hot("0 0 0 3"), one_hot("1 1 0 3")])
    choice, agreement = most_consistent_choice([readings(f=heads)])
    assert (choice.head, choice.shifted, agreement) == (1, False, 1.0)


def test_self_attention_is_merged_into_words_too() -> None:
    encoder = np.full((1, 4, 4), 0.25, np.float32)
    decoder = np.tril(np.ones((4, 4), np.float32))[None]
    decoder /= decoder.sum(-1, keepdims=True)
    roles: Any = {"e": "encoder", "d": "decoder"}
    reading = replace(readings(e=encoder, d=decoder), roles=roles)

    words = reading.words("e")
    assert_allclose(words.weights, matrix("0.25 0.5; 0.25 0.5"))
    assert_allclose(words.special_weights, 0.25)

    # X and y are one word: it attends to the beginning, then to the beginning and x.
    past = reading.words("d")
    assert_allclose(past.weights, [[0.25, 0.0], [2 / 3, 0.0]], atol=1e-6)
    assert_allclose(past.special_weights, [0.75, 1 / 3], atol=1e-6)


def test_a_notebook_shows_words_and_weights() -> None:
    lower = one_hot("0 0 0 3")[None]
    reading = readings(lower=lower, upper=one_hot("1 1 0 3")[None])
    reading = replace(reading, source_text=("<a>", "bc"), target_text=("xy", "z"))
    html = reading._repr_html_()

    assert "&lt;a&gt;" in html
    assert "<a>" not in html
    assert 'title="xy ← bc 1.000"' in html

    without = replace(reading, weights={}, roles={})
    assert "no cross-attention" in without._repr_html_()

    translation = Translation("a < b", ("a",), -1.5, readings=reading)
    start = "<p>a &lt; b <small>-1.500</small></p><table>"
    assert translation._repr_html_().startswith(start)
