"""Law 8 for search: the attention weights of a winner are those of teacher forcing with its own
tokens.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from laws.models import alone, entry_keep, in_turn, kinds, make, pairs, sources
from regard.attention import Attention, record_attention
from regard.data.vocabulary import BOS
from regard.models import Model, ModelSettings
from regard.search import SearchSettings, Task, decode
from regard.search.forced_decoding import force_decode

EXACT = 1e-5
SEARCHES = [(5, (6, 1, 4, 8, 3)), (1, (6, 1, 4, 8, 3)), (5, (5,)), (1, (5,))]
"""Widths of the beam, and lengths of the sources in a batch."""


@torch.no_grad()
def with_small_weights(settings: ModelSettings) -> Model:
    """Return a model with half the weights of other laws, so that recurrent models do not amplify
    rounding errors.
    """
    model = make(settings, ends=0.01)
    for parameter in model.parameters():
        parameter.mul_(0.5)
    return model


@torch.no_grad()
@pytest.mark.parametrize(("settings", "search"), in_turn(pairs(), SEARCHES))
def test_readings_of_winners_equal_teacher_forcing_each_alone(
    settings: ModelSettings, search: tuple[int, tuple[int, ...]]
) -> None:
    width, batch = search
    model = with_small_weights(settings)
    data = sources(settings, *batch)
    tasks = [Task(row, n + 3) for row, n in enumerate(batch)]
    beams = decode(model, model.encode(data), tasks, SearchSettings(beam=width, min_length=2))
    winners = [hypotheses[0].ids for hypotheses in beams]
    rows = [alone(data, row) for row in range(len(batch))]
    results = force_decode(
        model,
        [row.data[0] if row.data.dim() == 4 else row.data[0].tolist() for row in rows],
        winners,
    )
    assert min(map(len, winners)) >= 2
    for sentence, ids, S, forced in zip(
        rows, winners, entry_keep(model, data).sum(1).tolist(), results, strict=True
    ):
        with record_attention(model) as expected:
            features = model(sentence, torch.tensor([[BOS, *ids]]))
        assert set(forced.weights) == set(forced.roles) == set(expected)
        assert forced.grid == model.encode(sentence).grid
        T = len(ids) + 1
        log_probs = model.project(features)[0].log_softmax(-1)[: len(ids)]
        expected_log_probs = (
            log_probs.gather(1, torch.tensor([*ids])[:, None])[:, 0].numpy() if ids else np.zeros(0)
        )
        np.testing.assert_allclose(forced.log_probs[:-1], expected_log_probs, rtol=0, atol=1e-4)
        for name, weights in forced.weights.items():
            size = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}[forced.roles[name]]
            assert weights.shape[1:] == size, "the padding is removed"
            np.testing.assert_allclose(weights, expected[name][0].numpy(), rtol=0, atol=EXACT)
            np.testing.assert_allclose(weights.sum(-1), 1, rtol=0, atol=EXACT)


@torch.no_grad()
@pytest.mark.parametrize("settings", kinds())
def test_padding_gets_weights_of_exactly_zero(settings: ModelSettings) -> None:
    model = make(settings)
    data = sources(settings, 6, 1, 4)
    targets = torch.tensor([[BOS, 5, 6, 7], [BOS, 6, 5, 4], [BOS, 7, 7, 5]])
    with record_attention(model) as readings:
        model(data, targets)
    roles = {
        name: module.role for name, module in model.named_modules() if isinstance(module, Attention)
    }
    for name, weights in readings.items():
        for row, keep in enumerate(entry_keep(model, data)):
            if roles[name] != "decoder":
                queries = keep if roles[name] == "encoder" else torch.ones(4, dtype=torch.bool)
                assert float(weights[row][:, queries][..., ~keep].abs().sum()) == 0
