"""Law 8: watching changes no output, to the bit; readings of a search are those of teacher forcing
alone.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from laws.models import alone, entries, entry_keep, kinds, make, pairs, sentences, sources, targets
from laws.searching import beam, greedy
from regard.attention import Attention, record_attention
from regard.data.batch import pad
from regard.data.vocabulary import BOS, EOS
from regard.models import Model, ModelSettings
from regard.models.transformer import TransformerDecoderSettings, TransformerEncoderSettings
from regard.search import LengthPenalty

LENGTHS = (6, 1, 4, 8)
BATCH = sentences(*LENGTHS)
T = 7


def roles(model: Model) -> dict[str, str]:
    """Return the role of each attention by its name."""
    return {
        name: module.role for name, module in model.named_modules() if isinstance(module, Attention)
    }


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_watching_changes_no_output_to_the_bit(settings: ModelSettings) -> None:
    model = make(settings)
    target = targets(4, T)
    longest = torch.tensor([6, 5, 4, 6])
    batch = sources(settings, *LENGTHS)
    source = model.encode(batch)
    penalty = LengthPenalty(1.0)
    plain = [
        model(batch, target),
        greedy(model, source, longest, penalty),
        beam(model, source, longest, 3, penalty),
    ]
    with record_attention(model) as readings:
        assert torch.equal(model(batch, target), plain[0])
    assert set(readings) == set(roles(model)), "every attention is recorded"
    with record_attention(model):
        assert greedy(model, source, longest, penalty) == plain[1]
    with record_attention(model):
        assert beam(model, source, longest, 3, penalty) == plain[2]
    recorded = {name: weights.clone() for name, weights in readings.items()}
    assert torch.equal(model(batch, target), plain[0])
    assert all(torch.equal(weights, recorded[name]) for name, weights in readings.items()), (
        "recording has ended"
    )


@pytest.mark.parametrize("settings", kinds())
def test_watching_changes_no_gradient_to_the_bit(settings: ModelSettings) -> None:
    model = make(settings)
    target = targets(4, T)
    batch = sources(settings, *LENGTHS)

    def gradients() -> list[Tensor | None]:
        features = model(batch, target)
        trainable = [
            p
            for name, p in model.named_parameters()
            if p.requires_grad and not name.startswith("decoder.output")
        ]
        return list(torch.autograd.grad(features.square().sum(), trainable))

    plain = gradients()
    with record_attention(model):
        watched = gradients()
    assert all(
        torch.equal(expected, actual) for expected, actual in zip(plain, watched, strict=True)
    )


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_readings_of_a_batch_equal_those_of_each_sentence_alone(settings: ModelSettings) -> None:
    model = make(settings)
    lengths = [5, T, 3, 6]
    batch = sources(settings, *LENGTHS)
    rows = targets(4, T).tolist()
    target, _ = pad([row[:n] for row, n in zip(rows, lengths, strict=True)])
    with record_attention(model) as together:
        model(batch, target)
    for row, (source_keep, n) in enumerate(zip(entry_keep(model, batch), lengths, strict=True)):
        with record_attention(model) as own:
            model(alone(batch, row), target[row : row + 1, :n])
        target_keep = torch.arange(T) < n
        for name, role in roles(model).items():
            queries, keys = {
                "encoder": (source_keep, source_keep),
                "decoder": (target_keep, target_keep),
                "cross": (target_keep, source_keep),
            }[role]
            actual = together[name][row][:, queries]
            expected = own[name][0]
            assert expected.shape[1:] == (queries.sum(), keys.sum())
            torch.testing.assert_close(actual[:, :, keys], expected, rtol=0, atol=1e-4)
            assert float(actual[:, :, ~keys].abs().sum()) == 0, (
                "padding gets weights of exactly zero"
            )
            ones = torch.ones(expected.shape[:2])
            torch.testing.assert_close(expected.sum(-1), ones, rtol=0, atol=1e-5)
            torch.testing.assert_close(actual.sum(-1), ones, rtol=0, atol=1e-5)
            assert bool((actual >= 0).all())


@torch.no_grad()
@pytest.mark.parametrize("settings", pairs())
def test_readings_step_by_step_equal_those_of_all_at_once(settings: ModelSettings) -> None:
    model = make(settings)
    target = targets(4, T)
    source = model.encode(sources(settings, *LENGTHS))
    with record_attention(model) as whole:
        model.step(target, model.begin(source), source)
    with record_attention(model) as stepwise:
        state = model.begin(source)
        for portion in target.split([1, 3, 1, 2], 1):
            _, state = model.step(portion, state, source)
    assert (
        set(whole)
        == set(stepwise)
        == {name for name, role in roles(model).items() if role != "encoder"}
    )
    for name in whole:
        assert whole[name].shape[2] == T
        torch.testing.assert_close(stepwise[name], whole[name], rtol=0, atol=1e-4)
    for name, role in roles(model).items():
        if role == "decoder":
            assert float(whole[name].triu(1).abs().max()) == 0, "no attention to later tokens"


@torch.no_grad()
@pytest.mark.parametrize("settings", kinds())
def test_readings_of_a_greedy_search_equal_teacher_forcing_its_output(
    settings: ModelSettings,
) -> None:
    model = make(settings, ends=0.05)
    sentence = alone(sources(settings, *LENGTHS), 3)
    model.decoder.output.bias[EOS] -= 5
    source = model.encode(sentence)
    with record_attention(model) as searched:
        (best,) = greedy(model, source, torch.tensor([6]), LengthPenalty(1.0))
    with record_attention(model) as forced:
        model(sentence, torch.tensor([[BOS, *best.ids]]))
    assert len(best.ids) >= 1
    for name in searched:
        assert searched[name].shape[2] == len(best.ids) + 1, (
            "a row for each token, end of sentence last"
        )
        torch.testing.assert_close(searched[name], forced[name], rtol=0, atol=1e-4)


def test_another_model_is_not_recorded() -> None:
    for parameter in kinds():
        model = make(parameter.values[0], 1)
        unwatched = make(parameter.values[0], 2)
        with record_attention(model) as readings:
            unwatched(sources(parameter.values[0], *LENGTHS), targets(4, T))
        assert len(readings) == 0


@torch.no_grad()
def test_beams_that_share_a_source_have_readings_of_their_own() -> None:
    for parameter in kinds():
        model = make(parameter.values[0])
        target = targets(8, T)
        source = model.encode(sources(parameter.values[0], *LENGTHS))
        rows = torch.arange(4).repeat_interleave(2)
        with record_attention(model) as shared:
            model.step(target, model.begin(source).select(rows), source)
        with record_attention(model) as separate:
            model.step(target, model.begin(source.select(rows)), source.select(rows))
        for name in shared:
            torch.testing.assert_close(shared[name], separate[name], rtol=0, atol=1e-4)


# --- by hand


def linear(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def normed(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    deviation = x - x.mean(-1, keepdim=True)
    scale = (deviation.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return deviation / scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def attention_weights(
    query: Tensor, keys: Tensor, weights: dict[str, Tensor], name: str, heads: int
) -> Tensor:
    """Return the weights (H, T, S) of one scaled dot-product attention of one sentence."""
    q = linear(query, weights, f"{name}.query")
    k = linear(keys, weights, f"{name}.key")
    size = q.shape[-1] // heads
    parts = [slice(h * size, (h + 1) * size) for h in range(heads)]
    return torch.stack(
        [(q[:, part] @ k[:, part].T / math.sqrt(size)).softmax(-1) for part in parts]
    )


def positions(length: int, size: int) -> Tensor:
    """Return sinusoidal positions by section 3.5 of Vaswani et al. (2017), but all sines before all
    cosines.
    """
    table = torch.zeros(length, size)
    for position in range(length):
        for i in range(size // 2):
            angle = position / 10000 ** (2 * i / size)
            table[position, i], table[position, size // 2 + i] = math.sin(angle), math.cos(angle)
    return table


@torch.no_grad()
def test_readings_of_a_transformer_equal_those_computed_by_hand() -> None:
    encoder = TransformerEncoderSettings(
        layers=1, size=16, heads=2, feedforward=24, dropout=0.0, norm="pre"
    )
    decoder = TransformerDecoderSettings(
        layers=1, size=16, heads=2, feedforward=24, dropout=0.0, norm="pre"
    )
    model = make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))
    w = {name: p.detach() for name, p in model.named_parameters()}
    target = targets(4, T)
    with record_attention(model) as readings:
        outputs = model.encoder(BATCH).outputs
        model(BATCH, target)
    for row, S in enumerate(entries(BATCH)):
        x = w["encoder.input_embedding.embedding.weight"][BATCH.data[row, :S]] * 4 + positions(
            S, 16
        )
        y = normed(x, w, "encoder.layers.0.self_attention_residual.norm")
        expected = attention_weights(y, y, w, "encoder.layers.0.self_attention", 2)
        torch.testing.assert_close(
            readings["encoder.layers.0.self_attention"][row, :, :S, :S], expected, rtol=0, atol=1e-4
        )

        name = "decoder.layers.0"
        x = w["decoder.input_embedding.embedding.weight"][target[row]] * 4 + positions(T, 16)
        y = normed(x, w, f"{name}.self_attention_residual.norm")
        past = torch.zeros(2, T, T)
        for t in range(T):
            past[:, t, : t + 1] = attention_weights(
                y[t : t + 1], y[: t + 1], w, f"{name}.self_attention", 2
            )[:, 0]
        torch.testing.assert_close(readings[f"{name}.self_attention"][row], past, rtol=0, atol=1e-4)

        values = linear(y, w, f"{name}.self_attention.value")
        attended = torch.cat([past[h] @ values[:, h * 8 : h * 8 + 8] for h in range(2)], -1)
        x = x + linear(attended, w, f"{name}.self_attention.output")
        y = normed(x, w, f"{name}.cross_attention_residual.norm")
        expected = attention_weights(y, outputs[row, :S], w, f"{name}.cross_attention", 2)
        torch.testing.assert_close(
            readings[f"{name}.cross_attention"][row, :, :, :S], expected, rtol=0, atol=1e-4
        )
