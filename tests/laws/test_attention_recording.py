"""Watching changes no output, to the bit; the attention weights of a search are those of teacher
forcing each sentence alone.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from laws.models import (
    alone,
    entry_keep,
    in_turn,
    kinds,
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
        assert torch.equal(model(batch, target), features)

    assert set(readings) == set(roles(model)), "every attention is recorded"

    with record_attention(model):
        assert beam(model, source, longest, 3, LengthPenalty(1.0)) == beams


@pytest.mark.parametrize("settings", kinds())
def test_watching_changes_no_gradient_to_the_bit(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    target = targets(4, T)
    batch = sources(settings, *LENGTHS)
    trainable = [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and not name.startswith("decoder.output")
    ]

    def gradients() -> tuple[Tensor, ...]:
        return torch.autograd.grad(model(batch, target).square().sum(), trainable)

    plain = gradients()
    with record_attention(model):
        watched = gradients()

    assert all(map(torch.equal, plain, watched))


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
    beams = decode(
        model,
        model.encode(batch),
        tasks,
        SearchSettings(beam=width, min_length=2),
    )
    winners = [hypotheses[0].ids for hypotheses in beams]
    rows = [alone(batch, row) for row in range(len(lengths))]
    reads_text = settings.encoder.reads == "text"
    given = [row.data[0].tolist() if reads_text else row.data[0] for row in rows]
    results = force_decode(model, given, winners)
    counts = entry_keep(model, batch).sum(1).tolist()

    for sentence, ids, S, forced in zip(rows, winners, counts, results, strict=True):
        assert len(ids) >= 2
        with record_attention(model) as expected:
            features = model(sentence, torch.tensor([[BOS, *ids]]))
        assert set(forced.weights) == set(forced.roles) == set(expected)
        assert forced.grid == model.encode(sentence).grid
        log_probs = model.project(features)[0].log_softmax(-1)
        of_tokens = log_probs.gather(1, torch.tensor([*ids, EOS])[:, None])[:, 0]
        np.testing.assert_allclose(
            forced.log_probs, of_tokens.numpy(), rtol=0, atol=1e-4
        )
        length = len(ids) + 1
        sizes = {
            "encoder": (S, S),
            "decoder": (length, length),
            "cross": (length, S),
        }

        for name, weights in forced.weights.items():
            assert weights.shape[1:] == sizes[forced.roles[name]], (
                "the padding is removed"
            )
            np.testing.assert_allclose(
                weights, expected[name][0].numpy(), rtol=0, atol=1e-5
            )
            np.testing.assert_allclose(weights.sum(-1), 1, rtol=0, atol=1e-5)
