"""Watching changes no output, to the bit; the attention weights of a search are those of teacher
forcing each sentence alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from laws.models import (
    alone,
    in_turn,
    make,
    pairs,
    sources,
    targets,
)
from laws.searching import beam
from regard.attention import Attention, record_attention
from regard.data.vocabulary import BOS, EOS
from regard.models import Model, ModelSettings
from regard.search import LengthPenalty, SearchSettings, Task, decode
from regard.search.forced_decoding import force_decode

LENGTHS = (6, 1, 4, 8)
T = 7
SEARCHES = [(5, (6, 1, 4, 8, 3)), (1, (6, 1, 4, 8, 3)), (5, (5,)), (1, (5,))]
"""Widths of the beam, and lengths of the sources in a batch."""


def roles(model: Model) -> dict[str, str]:
    """Return the role of each attention by its name."""
    return {
        name: module.role
        for name, module in model.named_modules()
        if isinstance(module, Attention)
    }


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_watching_changes_no_output_to_the_bit(settings: ModelSettings) -> None:
    model = make(settings)
    target = targets(4, T)
    longest = torch.tensor([6, 5, 4, 6])
    batch = sources(settings, *LENGTHS)
    source = model.encode(batch)
    features = model(batch, target)
    beams = beam(model, source, longest, 3, LengthPenalty(1.0))
    with record_attention(model) as readings:
        watched = model(batch, target)
    with record_attention(model):
        watched_beams = beam(model, source, longest, 3, LengthPenalty(1.0))

    assert torch.equal(watched, features)
    assert watched_beams == beams
    assert set(readings) == set(roles(model)), "every attention is recorded"


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_readings_step_by_step_equal_those_of_all_at_once(
    settings: ModelSettings,
) -> None:
    """Beams that share a source have readings of their own."""
    model = make(settings)
    target = targets(8, T)
    source = model.encode(sources(settings, *LENGTHS))
    rows = torch.arange(4).repeat_interleave(2)

    with record_attention(model) as whole:
        own = source.select(rows)
        model.step(target, model.begin(own), own)

    with record_attention(model) as stepwise:
        state = model.begin(source).select(rows)
        for portion in target.split([1, 3, 1, 2], 1):
            _, state = model.step(portion, state, source)

    names = {name: role for name, role in roles(model).items() if role != "encoder"}

    assert set(whole) == set(stepwise) == set(names)

    for name, role in names.items():
        assert whole[name].shape[2] == T
        torch.testing.assert_close(stepwise[name], whole[name], rtol=0, atol=1e-4)
        if role == "decoder":
            assert not whole[name].triu(1).any(), "no attention to later tokens"


@torch.no_grad()
@pytest.mark.parametrize(("settings", "search"), in_turn(pairs(), SEARCHES))
def test_readings_of_winners_equal_teacher_forcing_each_alone(
    settings: ModelSettings, search: tuple[int, tuple[int, ...]]
) -> None:
    """The model has half the weights of other laws, so that recurrent models do not amplify
    rounding errors.
    """
    width, lengths = search
    model = make(settings, ends=0.01)

    for parameter in model.parameters():
        parameter.mul_(0.5)

    batch = sources(settings, *lengths)
    tasks = [Task(row, n + 3) for row, n in enumerate(lengths)]
    search_settings = SearchSettings(beam=width, min_length=2)
    beams = decode(model, model.encode(batch), tasks, search_settings)
    winners = [hypotheses[0].ids for hypotheses in beams]
    rows = [alone(batch, row) for row in range(len(lengths))]
    given: list[Any] = [row.data[0] for row in rows]
    if settings.encoder.reads == "text":
        given = [data.tolist() for data in given]

    for sentence, ids, forced in zip(
        rows, winners, force_decode(model, given, winners), strict=True
    ):
        assert len(ids) >= 2
        with record_attention(model) as expected:
            features = model(sentence, torch.tensor([[BOS, *ids]]))
        log_probs = model.project(features)[0].log_softmax(-1)
        of_tokens = log_probs[torch.arange(len(ids) + 1), [*ids, EOS]]
        np.testing.assert_allclose(forced.log_probs, of_tokens, rtol=0, atol=1e-4)
        assert forced.grid == model.encode(sentence).grid
        assert forced.roles == {name: roles(model)[name] for name in expected}
        assert set(forced.weights) == set(expected)

        for name, weights in forced.weights.items():
            reference = expected[name][0]
            assert weights.shape == reference.shape, "the padding is removed"
            np.testing.assert_allclose(weights, reference, rtol=0, atol=1e-5)
