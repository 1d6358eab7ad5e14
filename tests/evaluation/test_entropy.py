"""Attention entropy against the recorded weights, without padding."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from laws.models import make, pairs

from regard.attention import record_attention
from regard.attention.alignment import Readings
from regard.attention.alignment_choice import AlignmentChoice
from regard.data.batch import Example, collate
from regard.data.vocabulary import EOS
from regard.evaluation.entropy import attention_entropy, attention_notes
from regard.models import Batch, ModelSettings

EXAMPLES = [Example([5, 6, 7, EOS], [8, 9, 4, EOS]), Example([4, EOS], [6, EOS])]


@pytest.mark.parametrize("settings", pairs(reads=["text"]))
def test_entropy_is_the_mean_over_the_tokens_of_each_sentence_alone(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    entropy = attention_entropy(model, collate(EXAMPLES))
    sums: dict[str, list[float]] = {}
    for example in EXAMPLES:
        alone = collate([example])
        with record_attention(model) as readings, torch.no_grad():
            model(Batch(alone.source, None), alone.target_in)
        for name, weights in readings.items():
            for row in weights.transpose(1, 2).flatten(0, 1):  # (tokens, H, S)
                entropies = [
                    -sum(w * math.log(w) for w in head if w > 0)
                    for head in row.tolist()
                ]
                sums.setdefault(name, []).append(sum(entropies) / len(entropies))

    assert entropy.keys() == sums.keys()

    for name, values in sums.items():
        assert entropy[name] == pytest.approx(sum(values) / len(values), abs=1e-4)
        assert 0 <= entropy[name] <= math.log(5)


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ([[0.25] * 4] * 3, "0%"),
        ([[0.9, 0.1, 0, 0]] * 3, "0%"),
        ([[0.27, 0.23, 0.25, 0.25], [0.23, 0.27, 0.25, 0.25]], "2%"),
        ([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], ""),
        ([[1, 0, 0, 0]], ""),
    ],
)
def test_attention_that_is_the_same_for_all_words_is_said(
    rows: list[list[float]], share: str
) -> None:
    """One word cannot differ from another."""
    words = tuple(range(len(rows)))
    readings = Readings(
        ("a", "b", "c", "d"),
        tuple("word" for _ in words),
        (0, 1, 2, 3),
        words,
        {"last": np.array([rows])},
        {"last": "cross"},
    )
    choice = AlignmentChoice("last", None, False)
    notes = list(attention_notes([readings], choice))
    assert len(notes) == bool(share)
    assert all(f"they differ in {share} of it" in note for note in notes)
