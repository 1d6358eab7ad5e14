"""Layers and models equal PyTorch's own Transformer and recurrent networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from broad import broad
from torch import Tensor, nn

from laws.models import SOURCE_VOCABULARY, alone, entries, make, sentences, targets, variants
from regard.attention import Attention
from regard.common.settings import Settings
from regard.models import EncoderSizes, Model, ModelSettings
from regard.models.recurrent import (
    NoAttentionDecoder,
    NoAttentionDecoderSettings,
    RecurrentDecoder,
    RecurrentDecoderSettings,
    RecurrentEncoder,
    RecurrentEncoderSettings,
)
from regard.models.transformer import (
    DecoderLayer,
    EncoderLayer,
    TransformerDecoderSettings,
    TransformerEncoderSettings,
)

D = 16
HEADS = 4
INNER = 24
NETWORKS = {"gru": nn.GRU, "lstm": nn.LSTM, "tanh": nn.RNN}
CELLS = {"gru": nn.GRUCell, "lstm": nn.LSTMCell, "tanh": nn.RNNCell}
LAYERS: list[tuple[str, Any]] = [("pre", F.relu), ("post", F.gelu), ("pre", F.silu)]
"""Norms and activations of a Transformer's layer."""
SMALL: dict[str, Any] = {"size": 6, "embedding": 5, "dropout": 0.0}
"""Sizes of recurrent networks."""


def perturbed(module: nn.Module) -> nn.Module:
    """Add noise to the parameters of a module, so that biases and norms are not at their initial
    values.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return module.eval()


def layer_options(norm: str, activation: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the same options of a layer for Regard and for PyTorch."""
    own = {
        "size": D,
        "heads": HEADS,
        "feedforward": INNER,
        "norm": norm,
        "activation": activation.__name__,
        "dropout": 0.0,
    }
    of_torch = {
        "d_model": D,
        "nhead": HEADS,
        "dim_feedforward": INNER,
        "dropout": 0.0,
        "activation": activation,
        "batch_first": True,
        "norm_first": norm == "pre",
    }
    return own, of_torch


@torch.no_grad()
def copy_layer(
    layer: Any, reference: Any, attentions: dict[Attention, nn.MultiheadAttention]
) -> None:
    """Give PyTorch's layer the weights of a layer."""
    for attention, counterpart in attentions.items():
        projections = (attention.query, attention.key, attention.value)
        counterpart.in_proj_weight.copy_(torch.cat([one.weight for one in projections]))
        counterpart.in_proj_bias.copy_(torch.cat([one.bias for one in projections]))
        counterpart.out_proj.load_state_dict(attention.output.state_dict())
    reference.linear1.load_state_dict(layer.feedforward.widen.state_dict())
    reference.linear2.load_state_dict(layer.feedforward.narrow.state_dict())
    residuals = [layer.self_attention_residual, layer.feedforward_residual]
    if len(attentions) == 2:
        residuals.insert(1, layer.cross_attention_residual)
    for number, residual in enumerate(residuals, 1):
        norm = getattr(reference, f"norm{number}")
        norm.load_state_dict(residual.norm.state_dict())


def assert_close_with_gradients(actual: Tensor, expected: Tensor, inputs: list[Tensor]) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)
    direction = torch.randn_like(actual)
    gradients = torch.autograd.grad((actual * direction).sum(), inputs)
    references = torch.autograd.grad((expected * direction).sum(), inputs)
    for gradient, reference in zip(gradients, references, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("norm", "activation"), LAYERS)
def test_a_layer_of_the_encoder_equals_torch(norm: str, activation: Any) -> None:
    own, of_torch = layer_options(norm, activation)
    layer: Any = perturbed(EncoderLayer(TransformerEncoderSettings(**own)))
    reference = nn.TransformerEncoderLayer(**of_torch).eval()
    copy_layer(layer, reference, {layer.self_attention: reference.self_attn})
    x = torch.randn(3, 6, D, requires_grad=True)
    keep = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    expected = reference(x, src_key_padding_mask=~keep)
    assert_close_with_gradients(layer(x, keep)[keep], expected[keep], [x])
    assert_close_with_gradients(layer(x, None), reference(x), [x])


@pytest.mark.parametrize(("norm", "activation"), LAYERS)
def test_a_layer_of_the_decoder_equals_torch(norm: str, activation: Any) -> None:
    own, of_torch = layer_options(norm, activation)
    settings = TransformerDecoderSettings(**own)
    layer: Any = perturbed(DecoderLayer(settings, EncoderSizes(D, 1, D)))
    reference = nn.TransformerDecoderLayer(**of_torch).eval()
    attentions = {
        layer.self_attention: reference.self_attn,
        layer.cross_attention: reference.multihead_attn,
    }
    copy_layer(layer, reference, attentions)
    x = torch.randn(3, 5, D, requires_grad=True)
    source = torch.randn(3, 6, D, requires_grad=True)
    keep = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = reference(x, source, tgt_mask=future, memory_key_padding_mask=~keep)
    memory = layer.cross_attention.prepare(source, source, keep)
    output, past = layer(x, layer.self_attention.empty(3), memory)
    assert_close_with_gradients(output, expected, [x, source])
    assert past.entries == 5


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", NETWORKS)
def test_a_recurrent_encoder_equals_torch_run_on_each_sentence_alone(
    cell: str, layers: int, bidirectional: bool
) -> None:
    settings = RecurrentEncoderSettings(
        cell=cell, layers=layers, bidirectional=bidirectional, **SMALL
    )
    encoder: Any = perturbed(RecurrentEncoder(settings, SOURCE_VOCABULARY))
    reference = NETWORKS[cell](5, 6, layers, batch_first=True, bidirectional=bidirectional)
    weights = {
        name.replace("_l0", f"_l{i}"): weight
        for i, network in enumerate(encoder.layers)
        for name, weight in network.state_dict().items()
    }
    reference.load_state_dict(weights)
    batch = sentences(7, 1, 4, 9, 2)
    directions = 2 if bidirectional else 1
    encoded = encoder(batch)
    for row, S in enumerate(entries(batch)):
        outputs, last = reference(encoder.embedding.weight[alone(batch, row).data])
        torch.testing.assert_close(encoded.outputs[row, :S], outputs[0], rtol=0, atol=1e-5)
        # Hidden states, then cells: each (layers · directions, 1, D)
        kinds = last if isinstance(last, tuple) else (last,)
        expected = torch.cat([kind.view(layers, directions * 6) for kind in kinds])
        torch.testing.assert_close(encoded.summary[row], expected, rtol=0, atol=1e-5)


def recurrent_model(settings: Settings) -> tuple[Model, Any]:
    """Return a model with a recurrent encoder and this decoder, and its decoder."""
    encoder = variants(RecurrentEncoderSettings)[0]
    model = make(ModelSettings(encoder=encoder, decoder=settings, share="none"))
    return model, model.decoder


def torch_cells(
    decoder: Any, cell: str, context_weight: Tensor | None = None
) -> list[nn.RNNCellBase]:
    """Return PyTorch's cells with the decoder's weights; `context_weight` is the lowest's for the
    context it is fed.
    """
    cells = []
    for i, layer in enumerate(decoder.cells):
        from_input = layer.input.weight
        if i == 0 and context_weight is not None:
            from_input = torch.cat([from_input, context_weight], 1)
        torch_cell = CELLS[cell](from_input.shape[1], 6)
        weights = {
            "weight_ih": from_input.detach(),
            "bias_ih": layer.input.bias,
            "weight_hh": layer.hidden.weight,
            "bias_hh": layer.hidden.bias,
        }
        torch_cell.load_state_dict(weights)
        cells.append(torch_cell)
    return cells


def advance(cells: list[nn.RNNCellBase], x: Tensor, states: list[tuple[Tensor, ...]]) -> None:
    """Advance one sentence by one step, layer by layer; replaces `states` in place."""
    for i, cell in enumerate(cells):
        if isinstance(cell, nn.LSTMCell):
            hidden, memory = states[i]
            new = cell(x[None], (hidden[None], memory[None]))
            states[i] = (new[0][0], new[1][0])
        else:
            states[i] = (cell(x[None], states[i][0][None])[0],)
        x = states[i][0]


def additive(attention: Any, h: Tensor, s: Tensor) -> Tensor:
    return torch.tanh(attention.query(h) + attention.key(s)) @ attention.score.vector[0]


def dot(attention: Any, h: Tensor, s: Tensor) -> Tensor:
    return attention.key(s) @ attention.query(h)


@pytest.mark.parametrize("score", [additive, dot])
@pytest.mark.parametrize("cell", broad(CELLS))
@pytest.mark.parametrize("order", ["bahdanau", "luong", "luong_input_feeding"])
def test_a_recurrent_decoder_equals_a_loop_over_torch_cells(
    order: str, cell: str, score: Any
) -> None:
    """Compute one sentence and one step at a time, by the equations of the papers."""
    layers = 3
    model, decoder = recurrent_model(
        RecurrentDecoderSettings(
            order=order, cell=cell, layers=layers, score=score.__name__, attention_size=4, **SMALL
        )
    )
    assert isinstance(decoder, RecurrentDecoder)
    batch = sentences(5, 1, 3)
    target = targets(3, 6)
    features = model(batch, target)
    cells = torch_cells(decoder, cell, None if order == "luong" else decoder.context_proj.weight)
    for row in range(3):
        encoded = model.encoder(alone(batch, row))
        memory = encoded.outputs[0]  # (S, D)
        states = initial_states(decoder, encoded.summary[0], layers)
        feature = torch.zeros(5)
        for t, token in enumerate(target[row].tolist()):
            embedded = decoder.embedding.weight[token]
            if order == "luong":
                advance(cells, embedded, states)
            elif order == "luong_input_feeding":
                advance(cells, torch.cat([embedded, feature]), states)
            scores = score(decoder.cross_attention, states[-1][0], memory)
            context = scores.softmax(0) @ memory
            if order == "bahdanau":
                advance(cells, torch.cat([embedded, context]), states)
            readout_input = [states[-1][0], context]
            if order == "bahdanau":
                readout_input.append(embedded)
            feature = torch.tanh(decoder.readout(torch.cat(readout_input)))
            torch.testing.assert_close(features[row, t], feature, rtol=0, atol=1e-4)


def initial_states(
    decoder: RecurrentDecoder, summary: Tensor, layers: int
) -> list[tuple[Tensor, ...]]:
    """Return initial states: bridge i of N takes row i·R // N of the summary's R; all hidden states
    precede the cells.
    """
    count = len(decoder.bridges)
    bridged = []
    for i, bridge in enumerate(decoder.bridges):
        row = i * len(summary) // count
        bridged.append(torch.tanh(bridge(summary[row])))
    return [tuple(bridged[i::layers]) for i in range(layers)]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("context", ["first", "every"])
def test_a_decoder_without_attention_equals_a_loop_over_torch_cells(
    context: str, cell: str
) -> None:
    layers = 3
    model, decoder = recurrent_model(
        NoAttentionDecoderSettings(context=context, cell=cell, layers=layers, **SMALL)
    )
    assert isinstance(decoder, NoAttentionDecoder)
    batch = sentences(5, 1, 3)
    target = targets(3, 6)
    features = model(batch, target)
    cells = torch_cells(decoder, cell)
    for row in range(3):
        summary = model.encoder(alone(batch, row)).summary[0].flatten()
        initial = [torch.tanh(bridge(summary)) for bridge in decoder.bridges]
        states = [tuple(initial[i::layers]) for i in range(layers)]
        last = states[-1][0]
        for t, token in enumerate(target[row].tolist()):
            x = decoder.embedding.weight[token]
            if context == "every":
                x = torch.cat([x, last])
            advance(cells, x, states)
            readout_input = states[-1][0]
            if context == "every":
                readout_input = torch.cat([readout_input, x])
            feature = torch.tanh(decoder.readout(readout_input))
            torch.testing.assert_close(features[row, t], feature, rtol=0, atol=1e-4)


def test_a_summary_without_states_is_the_mean_of_the_unmasked_outputs() -> None:
    encoder = variants(TransformerEncoderSettings)[0]
    decoder = variants(RecurrentDecoderSettings)[0]
    model = make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))
    batch = sentences(5, 1, 3)
    encoded = model.encoder(batch)
    for row, S in enumerate(entries(batch)):
        mean = encoded.outputs[row, :S].mean(0)
        torch.testing.assert_close(encoded.summary[row, 0], mean, rtol=0, atol=1e-5)
