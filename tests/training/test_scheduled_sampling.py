"""Scheduled sampling: decoder inputs are drawn from the model's predictions, for any decoder."""

from __future__ import annotations

import pytest
import torch
from laws.models import batched, kinds, make
from torch import Tensor

from regard.data.batch import Example, collate
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, ModelSettings
from regard.training.scheduled_sampling import sample_target_inputs

EXAMPLES = [Example([5, 6, 7, EOS], [8, 9, 4, 5, EOS]), Example([4, EOS], [6, EOS])]


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("settings", kinds())
def test_probability_one_replaces_all_inputs_and_zero_none(
    settings: ModelSettings,
) -> None:
    """Logits are scaled until a sample is the argmax."""
    model = make(settings)
    with torch.no_grad():
        model.decoder.output.weight.mul_(1e4)
        model.decoder.output.bias.mul_(1e4)

    batch = batched(settings, EXAMPLES)
    mixed = sample_target_inputs(model, batch, 1.0, generator())
    with torch.no_grad():
        features = model(Batch(batch.source, batch.source_keep), batch.target_in)
        best = model.project(features).argmax(-1)

    assert torch.equal(mixed.target_in[:, 1:], best[:, :-1])
    assert mixed.target_in[:, 0].tolist() == [BOS, BOS]
    assert torch.equal(mixed.target_out, batch.target_out), "the labels stay"
    assert not mixed.target_in.requires_grad

    unmixed = sample_target_inputs(model, batch, 0.0, generator())

    assert torch.equal(unmixed.target_in, batch.target_in)


def test_samples_follow_the_predicted_probabilities_and_the_generator() -> None:
    model = make(kinds(reads=["text"])[0].values[0])
    batch = collate([Example([5, 6, EOS], [8, EOS])] * 4000)
    with torch.no_grad():
        features = model(Batch(batch.source[:1], None), batch.target_in[:1])
        expected = model.project(features)[0, 0].softmax(-1)

    def draw(seed: int) -> Tensor:
        mixed = sample_target_inputs(model, batch, 1.0, generator(seed))
        return mixed.target_in[:, 1]

    drawn = draw(1)
    frequencies = torch.bincount(drawn, minlength=len(expected)) / len(drawn)

    assert float((frequencies - expected).abs().sum()) < 0.1
    assert torch.equal(drawn, draw(1))
    assert not torch.equal(drawn, draw(2))
