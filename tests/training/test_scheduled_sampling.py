"""Scheduled sampling: what is read is drawn from what the model predicts, for any decoder, and only in training."""

from __future__ import annotations

import pytest
import torch
from laws.models import batched, make, pairs

from regard.data.batch import Example, collate
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, Model, ModelSettings
from regard.training.scheduled_sampling import sample_target_inputs

EXAMPLES = [Example([5, 6, 7, EOS], [8, 9, 4, 5, EOS]), Example([4, EOS], [6, EOS])]


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def certain(model: Model) -> Model:
    """The same model, so sure of itself that a draw is its best guess."""
    with torch.no_grad():
        model.decoder.output.weight.mul_(1e4)
        model.decoder.output.bias.mul_(1e4)
    return model


@pytest.mark.parametrize("settings", pairs(1))
def test_probability_one_reads_own_outputs_only(settings: ModelSettings) -> None:
    model, given = certain(make(settings)), batched(settings, EXAMPLES)
    mixed = sample_target_inputs(model, given, 1.0, generator())
    with torch.no_grad():
        features = model(Batch(given.source, given.source_keep), given.target_in)
    assert torch.equal(mixed.target_in[:, 1:], model.project(features)[:, :-1].argmax(-1))
    assert mixed.target_in[:, 0].tolist() == [BOS, BOS]
    assert torch.equal(mixed.target_out, given.target_out), "what is to be said stays"
    assert not mixed.target_in.requires_grad


@pytest.mark.parametrize("settings", pairs(1))
def test_probability_nought_reads_what_was_given(settings: ModelSettings) -> None:
    given = batched(settings, EXAMPLES)
    assert torch.equal(sample_target_inputs(make(settings), given, 0.0, generator()).target_in, given.target_in)


def test_draws_follow_the_predicted_probabilities() -> None:
    settings = pairs(1, reads=["text"])[0]
    settings = getattr(settings, "values", [settings])[0]
    model = make(settings).eval()
    one = collate([Example([5, 6, EOS], [8, EOS])] * 4000)
    with torch.no_grad():
        features = model(Batch(one.source[:1], None), one.target_in[:1])
        wanted = model.project(features)[0, 0].softmax(-1)
    drawn = sample_target_inputs(model, one, 1.0, generator()).target_in[:, 1]
    found = torch.bincount(drawn, minlength=len(wanted)) / len(drawn)
    assert float((found - wanted).abs().sum()) < 0.1


def test_the_generator_decides() -> None:
    settings = pairs(1, reads=["text"])[0]
    model, given = make(getattr(settings, "values", [settings])[0]), collate(EXAMPLES)
    same = [sample_target_inputs(model, given, 0.5, generator(7)).target_in for _ in range(2)]
    assert torch.equal(*same)
    others = [sample_target_inputs(model, given, 0.5, generator(seed)).target_in for seed in range(8)]
    assert any(not torch.equal(same[0], other) for other in others)
