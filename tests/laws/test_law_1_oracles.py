"""Law 1 for whole layers and models: they equal PyTorch's own Transformer and recurrent
networks.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from broad import broad
from torch import Tensor, nn

from laws.models import SOURCE_VOCABULARY, alone, entries, make, sentences, targets, variants
from regard.attention import Attention
from regard.models import Batch, EncoderSizes, ModelSettings
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
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-5}
ACTIVATIONS: dict[str, Any] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def perturbed(module: nn.Module) -> nn.Module:
    """Add noise to the parameters of a module, so that biases and norms are not at their initial
    values.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return module.eval()


def copy(module: nn.Module, reference: nn.Module) -> None:
    reference.load_state_dict(module.state_dict())


def copy_attention(attention: Attention, reference: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        reference.in_proj_weight.copy_(
            torch.cat([attention.query.weight, attention.key.weight, attention.value.weight])
        )
        reference.in_proj_bias.copy_(
            torch.cat([attention.query.bias, attention.key.bias, attention.value.bias])
        )
    copy(attention.output, reference.out_proj)


def torch_options(norm: str, activation: str) -> dict[str, Any]:
    return {
        "dim_feedforward": INNER,
        "dropout": 0.0,
        "activation": ACTIVATIONS[activation],
        "batch_first": True,
        "norm_first": norm == "pre",
    }


def regard_options(norm: str, activation: str) -> dict[str, Any]:
    return {
        "size": D,
        "heads": HEADS,
        "feedforward": INNER,
        "norm": norm,
        "activation": activation,
        "dropout": 0.0,
    }


def assert_close_with_gradients(actual: Tensor, expected: Tensor, inputs: list[Tensor]) -> None:
    torch.testing.assert_close(actual, expected, **CLOSE)
    direction = torch.randn_like(actual)
    results = [torch.autograd.grad((x * direction).sum(), inputs) for x in (actual, expected)]
    for gradient, reference in zip(*results, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=0, atol=1e-4)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_layer_of_the_encoder_equals_torch(norm: str, activation: str) -> None:
    layer = perturbed(EncoderLayer(TransformerEncoderSettings(**regard_options(norm, activation))))
    reference = nn.TransformerEncoderLayer(D, HEADS, **torch_options(norm, activation)).eval()
    copy_attention(layer.self_attention, reference.self_attn)
    pairs = [
        (layer.feedforward.widen, reference.linear1),
        (layer.feedforward.narrow, reference.linear2),
    ]
    pairs += [
        (layer.self_attention_residual.norm, reference.norm1),
        (layer.feedforward_residual.norm, reference.norm2),
    ]
    for module, counterpart in pairs:
        copy(module, counterpart)
    x = torch.randn(3, 6, D, requires_grad=True)
    keep = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    expected = reference(x, src_key_padding_mask=~keep)
    assert_close_with_gradients(layer(x, keep)[keep], expected[keep], [x])
    assert_close_with_gradients(layer(x, None), reference(x), [x])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_layer_of_the_decoder_equals_torch(norm: str, activation: str) -> None:
    layer = perturbed(
        DecoderLayer(
            TransformerDecoderSettings(**regard_options(norm, activation)), EncoderSizes(D, 1, D)
        )
    )
    reference = nn.TransformerDecoderLayer(D, HEADS, **torch_options(norm, activation)).eval()
    copy_attention(layer.self_attention, reference.self_attn)
    copy_attention(layer.cross_attention, reference.multihead_attn)
    pairs = [
        (layer.feedforward.widen, reference.linear1),
        (layer.feedforward.narrow, reference.linear2),
    ]
    pairs += [
        (layer.self_attention_residual.norm, reference.norm1),
        (layer.cross_attention_residual.norm, reference.norm2),
    ]
    for module, counterpart in [*pairs, (layer.feedforward_residual.norm, reference.norm3)]:
        copy(module, counterpart)
    x = torch.randn(3, 5, D, requires_grad=True)
    source = torch.randn(3, 6, D, requires_grad=True)
    keep = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = reference(x, source, tgt_mask=future, memory_key_padding_mask=~keep)
    output, past = layer(
        x, layer.self_attention.empty(3), layer.cross_attention.prepare(source, source, keep)
    )
    assert_close_with_gradients(output, expected, [x, source])
    assert past.entries == 5


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("cell", NETWORKS)
def test_a_recurrent_encoder_equals_torch_run_on_each_sentence_alone(
    cell: str, layers: int, bidirectional: bool
) -> None:
    values = {
        "cell": cell,
        "layers": layers,
        "bidirectional": bidirectional,
        "size": 6,
        "embedding": 5,
        "dropout": 0.0,
    }
    encoder = perturbed(RecurrentEncoder(RecurrentEncoderSettings(**values), SOURCE_VOCABULARY))
    reference = NETWORKS[cell](5, 6, layers, batch_first=True, bidirectional=bidirectional)
    reference.load_state_dict(
        {
            name.replace("_l0", f"_l{i}"): weight
            for i, network in enumerate(encoder.layers)
            for name, weight in network.state_dict().items()
        }
    )
    batch = sentences(7, 1, 4, 9, 2)
    directions = 2 if bidirectional else 1
    encoded = encoder(batch)
    for row, S in enumerate(entries(batch)):
        outputs, last = reference(encoder.embedding.weight[alone(batch, row).data])
        torch.testing.assert_close(encoded.outputs[row : row + 1, :S], outputs, **CLOSE)
        # Hidden states, then cells: each (layers · directions, 1, D)
        kinds = last if isinstance(last, tuple) else (last,)
        expected = [
            torch.cat([kind[layer * directions + d, 0] for d in range(directions)])
            for kind in kinds
            for layer in range(layers)
        ]
        torch.testing.assert_close(encoded.summary[row], torch.stack(expected), **CLOSE)
    assert encoded.outputs.shape == (5, 9, encoder.sizes.size)
    assert encoded.summary.shape == (5, encoder.sizes.summary_rows, encoder.sizes.size)


def torch_cells(
    decoder: RecurrentDecoder | NoAttentionDecoder, cell: str, context_weight: Tensor | None = None
) -> list[nn.RNNCellBase]:
    """Return PyTorch's cells with the decoder's weights; `context_weight` is the lowest's for the
    context it is fed.
    """
    cells = []
    for i, layer in enumerate(decoder.cells):
        from_input = (
            torch.cat([layer.input.weight, context_weight], 1)
            if i == 0 and context_weight is not None
            else layer.input.weight
        )
        torch_cell = CELLS[cell](from_input.shape[1], 6)
        weights = {"weight_ih": from_input.detach(), "bias_ih": layer.input.bias}
        torch_cell.load_state_dict(
            {**weights, "weight_hh": layer.hidden.weight, "bias_hh": layer.hidden.bias}
        )
        cells.append(torch_cell)
    return cells


def advance(cells: list[nn.RNNCellBase], x: Tensor, states: list[tuple[Tensor, ...]]) -> None:
    """Advance one sentence by one step, layer by layer; replaces `states` in place."""
    for i, cell in enumerate(cells):
        before = tuple(s[None] for s in states[i])
        new = cell(x[None], before if len(before) > 1 else before[0])
        states[i] = tuple(s[0] for s in new) if len(before) > 1 else (new[0],)
        x = states[i][0]


SCORES = {
    "additive": lambda attn, h, s: torch.tanh(attn.query(h) + attn.key(s)) @ attn.score.vector[0],
    "dot": lambda attn, h, s: attn.key(s) @ attn.query(h),
    "scaled_dot": lambda attn, h, s: attn.key(s) @ attn.query(h) / 2,
    "general": lambda attn, h, s: h @ attn.score.matrix[0] @ s.T,
    "cosine": lambda attn, h, s: (
        F.cosine_similarity(attn.query(h), attn.key(s), -1) / attn.score.log_temperature.exp()
    ),
    "cosine_fixed": lambda attn, h, s: F.cosine_similarity(attn.query(h), attn.key(s), -1) * 10,
    "cosine_plain": lambda attn, h, s: F.cosine_similarity(attn.query(h), attn.key(s), -1),
}


@pytest.mark.parametrize("layers", broad([3, 1]))
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("cell", broad(CELLS))
@pytest.mark.parametrize("order", ["bahdanau", "luong", "luong_input_feeding"])
def test_a_recurrent_decoder_equals_a_loop_over_torch_cells(
    order: str, cell: str, score: str, layers: int
) -> None:
    """Compute one sentence and one step at a time, by the equations of the papers."""
    sizes = {"size": 6, "embedding": 5, "attention_size": 4, "dropout": 0.0}
    settings = RecurrentDecoderSettings(order=order, cell=cell, layers=layers, score=score, **sizes)
    model = make(
        ModelSettings(encoder=variants(RecurrentEncoderSettings)[0], decoder=settings, share="none")
    )
    decoder = model.decoder
    assert isinstance(decoder, RecurrentDecoder)
    batch = sentences(5, 1, 3)
    target = targets(3, 6)
    features = model(batch, target)
    cells = torch_cells(decoder, cell, None if order == "luong" else decoder.context_proj.weight)
    for row in range(3):
        encoded = model.encoder(alone(batch, row))
        memory = encoded.outputs[0]  # (S, D)
        states = initial_states(decoder, encoded.summary[0], layers, cell == "lstm")
        expected = torch.zeros(5)
        for t, token in enumerate(target[row].tolist()):
            embedded = decoder.embedding.weight[token]
            if order == "luong":
                advance(cells, embedded, states)
            elif order == "luong_input_feeding":
                advance(cells, torch.cat([embedded, expected]), states)
            context = (
                SCORES[score](decoder.cross_attention, states[-1][0], memory).softmax(0) @ memory
            )
            if order == "bahdanau":
                advance(cells, torch.cat([embedded, context]), states)
            readout_input = (
                [states[-1][0], context, embedded]
                if order == "bahdanau"
                else [states[-1][0], context]
            )
            expected = torch.tanh(decoder.readout(torch.cat(readout_input)))
            torch.testing.assert_close(features[row, t], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("context", ["first", "every"])
def test_a_decoder_without_attention_equals_a_loop_over_torch_cells(
    context: str, cell: str, layers: int
) -> None:
    settings = NoAttentionDecoderSettings(
        context=context, cell=cell, layers=layers, size=6, embedding=5, dropout=0.0
    )
    model = make(
        ModelSettings(encoder=variants(RecurrentEncoderSettings)[0], decoder=settings, share="none")
    )
    decoder = model.decoder
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
            embedded = decoder.embedding.weight[token]
            x = torch.cat([embedded, last]) if context == "every" else embedded
            advance(cells, x, states)
            readout_input = torch.cat([states[-1][0], x]) if context == "every" else states[-1][0]
            torch.testing.assert_close(
                features[row, t], torch.tanh(decoder.readout(readout_input)), rtol=0, atol=1e-4
            )


def initial_states(
    decoder: RecurrentDecoder, summary: Tensor, layers: int, cells: bool
) -> list[tuple[Tensor, ...]]:
    """Return initial states: bridge i of N takes row i·R // N of the summary's R; all hidden states
    precede the cells.
    """
    count = layers * (2 if cells else 1)
    bridged = [
        torch.tanh(decoder.bridges[i](summary[i * len(summary) // count])) for i in range(count)
    ]
    return [tuple(bridged[i::layers]) for i in range(layers)]


@pytest.mark.parametrize("encoder_layers", [1, 2])
@pytest.mark.parametrize("decoder_layers", [1, 2])
def test_bridges_map_hidden_states_to_hidden_states_and_cells_to_cells(
    encoder_layers: int, decoder_layers: int
) -> None:
    encoder = RecurrentEncoderSettings(
        cell="lstm", layers=encoder_layers, size=6, embedding=5, dropout=0.0
    )
    decoder = RecurrentDecoderSettings(
        cell="lstm", layers=decoder_layers, size=6, embedding=5, attention_size=4, dropout=0.0
    )
    model = make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))
    encoded = model.encoder(sentences(4, 2))
    hiddens = encoded.summary.clone()
    cells = encoded.summary.clone()
    hiddens[:, encoder_layers:] = 0
    cells[:, :encoder_layers] = 0
    states = []
    for summary in (encoded.summary, hiddens, cells):
        source = model.decoder.prepare(
            type(encoded)(encoded.outputs, encoded.embedded, summary, encoded.keep)
        )
        states.append(model.begin(source).tensors["states"])
    full, from_hiddens, from_cells = states
    assert torch.equal(full[:, :decoder_layers], from_hiddens[:, :decoder_layers])
    assert torch.equal(full[:, decoder_layers:], from_cells[:, decoder_layers:])
    assert not torch.equal(full, from_hiddens)
    assert not torch.equal(full, from_cells)


def test_a_summary_without_states_is_the_mean_of_the_unmasked_outputs() -> None:
    for settings in variants(TransformerEncoderSettings):
        decoder = variants(RecurrentDecoderSettings)[0]
        encoder = make(ModelSettings(encoder=settings, decoder=decoder, share="none")).encoder
        batch = sentences(5, 1, 3)
        encoded = encoder(batch)
        for row, S in enumerate(entries(batch)):
            torch.testing.assert_close(
                encoded.summary[row, 0], encoded.outputs[row, :S].mean(0), **CLOSE
            )
        unpadded = encoder(Batch(batch.data[:1]))
        torch.testing.assert_close(unpadded.summary[0, 0], encoded.summary[0, 0], rtol=0, atol=1e-4)
