"""Attention entropy against the recorded weights, without padding."""

from __future__ import annotations

import math

import pytest
import torch
from laws.models import make, pairs

from regard.attention import record_attention
from regard.data.batch import Example, collate
from regard.data.vocabulary import EOS
from regard.evaluation.entropy import attention_entropy
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
