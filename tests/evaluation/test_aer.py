"""Choosing the read that aligns best, and counting how often it is right."""

from __future__ import annotations

import numpy as np

from regard.attention.alignment import Readings, merge_words, pharaoh, read_pharaoh, strongest
from regard.evaluation.aer import best_choice, share_on_gold


def _readings(weights: dict[str, np.ndarray]) -> Readings:
    return Readings(
        ("▁a", "▁b", "c", "</s>"),
        ("▁x", "y", "▁z", "</s>"),
        (0, 1, 1, -1),
        (0, 0, 1, -1),
        weights,
        dict.fromkeys(weights, "cross"),
    )


def test_source_pieces_are_summed_and_target_pieces_averaged() -> None:
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.6, 0.4, 0.0], [0, 0, 0, 1]], np.float32)
    words = merge_words(weights, (0, 1, 1, -1), (0, 0, 1, -1))
    np.testing.assert_allclose(words.weights, [[0.3, 0.35], [0.0, 1.0]], atol=1e-6)
    np.testing.assert_allclose(words.elsewhere, [0.35, 0.0], atol=1e-6)
    np.testing.assert_allclose(words.weights.sum(1) + words.elsewhere, 1, atol=1e-6)


def test_the_best_head_is_found_wherever_it_is() -> None:
    gold = [frozenset({(1, 0), (0, 1)})]
    wrong, right = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.float32)
    wrong[:, 3] = 1
    right[0:2, 1], right[2:, 0] = 1, 1
    reading = _readings({"low": np.stack([wrong, wrong]), "high": np.stack([wrong, right])})
    choice, share = best_choice([reading], gold)
    assert (choice.layer, choice.head, share) == ("high", 1, 1.0)
    assert share_on_gold([reading], gold, choice) == 1.0


def test_a_consumed_read_is_that_of_the_next_row() -> None:
    rows = np.eye(4, dtype=np.float32)[None]
    reading = _readings({"only": rows})
    np.testing.assert_allclose(reading.words("only", 0, consumed=True).weights, [[0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(reading.words("only", 0, consumed=True).elsewhere, [0, 1])


def test_links_are_written_and_read_in_pharaoh_format() -> None:
    links = strongest(np.array([[0.1, 0.9], [0.8, 0.2]], np.float32))
    assert pharaoh(links) == "0-1 1-0"
    assert read_pharaoh("0-1 1-0") == frozenset(links)
    assert read_pharaoh("") == frozenset()
