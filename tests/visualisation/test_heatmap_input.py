"""Alignments: accepted and refused input."""

import numpy as np
import pytest

from regard.common.errors import UsageError
from regard.visualisation import Alignment
from regard.visualisation.heatmap import ceiling_of

GOOD = np.full((2, 3), 0.25)


def make(weights: object = GOOD, **options: object) -> Alignment:
    return Alignment(("a", "b", "c"), ("x", "y"), weights, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (GOOD.T, r"\(2, 3\).*\(3, 2\)"),
        (np.array([["a"] * 3] * 2), r"array of numbers of shape \(2, 3\)"),
        (np.full((2, 3), np.nan), r"weights\[0, 0\] is nan"),
        (np.array([[0, 0, -0.5], [0, 0, 0]]), r"weights\[0, 2\] is -0.5"),
        (np.array([[0, 0, 0], [0.5, 0.5, 0.5]]), "word 1 sum to 1.500"),
    ],
)
def test_wrong_weights_are_refused_with_expected_and_actual_values(
    weights: object, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make(weights)


def test_weight_on_special_tokens_is_validated_and_counts() -> None:
    assert make(special_weights=np.array([0.25, 0.25])).special_weights is not None

    message = r"special_weights must have the shape \(2,\).*\(3,\)"
    with pytest.raises(UsageError, match=message):
        make(special_weights=np.full(3, 0.1))

    with pytest.raises(UsageError, match=r"sum to 1\.250"):
        make(special_weights=np.array([0.5, 0.0]))


def test_links_must_join_words() -> None:
    assert make(links=frozenset({(2, 1)})).links

    message = "link 1-2 lies outside 3 source words and 2 target words"
    with pytest.raises(UsageError, match=message):
        make(links=frozenset({(1, 2)}))


def test_a_sentence_without_words_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one"):
        Alignment((), ("x",), np.zeros((1, 0)))
    with pytest.raises(UsageError, match="at least one"):
        Alignment(("a",), (), np.zeros((0, 1)))


def test_the_weights_are_a_copy_that_cannot_be_written() -> None:
    weights = GOOD.copy()
    alignment = make(weights)
    weights[0, 0] = 9

    assert alignment.weights[0, 0] == 0.25
    assert not alignment.weights.flags.writeable


def test_words_are_normalised_without_control_characters() -> None:
    source = ("\u1112\u1161\u11ab", "a\x00b\x1b")
    alignment = Alignment(source, ("한\n줄",), np.zeros((1, 2)))
    assert alignment.source == ("한", "a\ufffdb\ufffd")
    assert alignment.target == ("한 줄",)


def test_the_scale_ends_at_the_next_round_number() -> None:
    nothing = make(np.zeros((2, 3)))
    assert ceiling_of([make(np.full((2, 3), 0.33))]) == 0.4
    assert ceiling_of([nothing, make(np.eye(3)[:2])]) == 1.0

    on_end = make(np.full((2, 3), 0.1), special_weights=np.array([0.55, 0]))
    assert ceiling_of([on_end]) == 0.6
