"""Scheduled sampling: decoder inputs are drawn from the model's predictions, for any decoder."""

from __future__ import annotations

import pytest
import torch
from laws.models import batched, kinds, make

from regard.data.batch import Example, collate
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Model, ModelSettings
from regard.training.scheduled_sampling import sample_target_inputs

EXAMPLES = [Example([5, 6, 7, EOS], [8, 9, 4, 5, EOS]), Example([4, EOS], [6, EOS])]


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def certain(model: Model) -> Model:
    """Scale the logits of a model until a sample is the argmax; return the model."""
    with torch.no_grad():
        model.decoder.output.weight.mul_(1e4)
        model.decoder.output.bias.mul_(1e4)
    return model


@pytest.mark.parametrize("settings", kinds())
def test_probability_one_replaces_all_inputs(settings: ModelSettings) -> None:
    model = certain(make(settings))
    batch = batched(settings, EXAMPLES)
    mixed = sample_target_inputs(model, batch, 1.0, generator())
    with torch.no_grad():
        features = model(Batch(batch.source, batch.source_keep), batch.target_in)
    assert torch.equal(mixed.target_in[:, 1:], model.project(features)[:, :-1].argmax(-1))
    assert mixed.target_in[:, 0].tolist() == [BOS, BOS]
    assert torch.equal(mixed.target_out, batch.target_out), "the labels stay"
    assert not mixed.target_in.requires_grad


@pytest.mark.parametrize("settings", kinds())
def test_probability_zero_replaces_nothing(settings: ModelSettings) -> None:
    batch = batched(settings, EXAMPLES)
    assert torch.equal(
        sample_target_inputs(make(settings), batch, 0.0, generator()).target_in, batch.target_in
    )


def test_samples_follow_the_predicted_probabilities() -> None:
    settings = kinds(reads=["text"])[0]
    settings = getattr(settings, "values", [settings])[0]
    model = make(settings).eval()
    batch = collate([Example([5, 6, EOS], [8, EOS])] * 4000)
    with torch.no_grad():
        features = model(Batch(batch.source[:1], None), batch.target_in[:1])
        expected = model.project(features)[0, 0].softmax(-1)
    drawn = sample_target_inputs(model, batch, 1.0, generator()).target_in[:, 1]
    frequencies = torch.bincount(drawn, minlength=len(expected)) / len(drawn)
    assert float((frequencies - expected).abs().sum()) < 0.1


def test_samples_depend_on_the_generator() -> None:
    settings = kinds(reads=["text"])[0]
    model = make(getattr(settings, "values", [settings])[0])
    batch = collate(EXAMPLES)
    repeated = [sample_target_inputs(model, batch, 0.5, generator(7)).target_in for _ in range(2)]
    assert torch.equal(*repeated)
    samples = [
        sample_target_inputs(model, batch, 0.5, generator(seed)).target_in for seed in range(8)
    ]
    assert any(not torch.equal(repeated[0], sample) for sample in samples)
