"""Layers and models equal PyTorch's own Transformer and recurrent networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.broad_cases import broad
from torch import Tensor, nn

from laws.models import (
    SOURCE_VOCABULARY,
    alone,
    entries,
    make,
    sentences,
    targets,
    variants,
)
from regard.attention import Attention
from regard.models import EncoderSizes, ModelSettings
from regard.models.recurrent import (
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
LAYERS: list[tuple[str, Any]] = [
    ("pre", F.relu),
    ("post", F.gelu),
    ("pre", F.silu),
]
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
    layer: Any,
    reference: Any,
    attentions: dict[Attention, nn.MultiheadAttention],
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


def assert_close_with_gradients(
    actual: Tensor, expected: Tensor, inputs: list[Tensor]
) -> None:
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
    output, past, _ = layer(x, layer.self_attention.empty(3), memory)

    assert_close_with_gradients(output, expected, [x, source])
    assert past.entries == 5


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", NETWORKS)
def test_a_recurrent_encoder_equals_torch_run_on_each_sentence_alone(
    cell: str, bidirectional: bool
) -> None:
    settings = RecurrentEncoderSettings(
        cell=cell, layers=3, bidirectional=bidirectional, **SMALL
    )
    encoder: Any = perturbed(RecurrentEncoder(settings, SOURCE_VOCABULARY))
    reference = NETWORKS[cell](5, 6, 3, batch_first=True, bidirectional=bidirectional)
    weights = {}

    for i, network in enumerate(encoder.layers):
        for name, weight in network.state_dict().items():
            weights[name.replace("_l0", f"_l{i}")] = weight

    reference.load_state_dict(weights)
    batch = sentences(7, 1, 4)
    encoded = encoder(batch)

    for row, S in enumerate(entries(batch)):
        outputs, last = reference(encoder.embedding.weight[alone(batch, row).data])
        # Hidden states, then cells: each (layers · directions, 1, D)
        kinds = last if isinstance(last, tuple) else (last,)
        summary = torch.cat([kind.view(3, -1) for kind in kinds])
        torch.testing.assert_close(encoded.outputs[row, :S], outputs[0])
        torch.testing.assert_close(encoded.summary[row], summary)


class Run:
    """PyTorch's cells with the weights of a decoder, and their states for one sentence."""

    def __init__(self, decoder: Any, cell: str, summary: Tensor) -> None:
        self.states = initial_states(decoder, summary)
        self.first = self.states[-1][0]
        self.cells = []

        for i, layer in enumerate(decoder.cells):
            from_input = layer.input.weight
            if i == 0 and getattr(decoder, "context_proj", None) is not None:
                from_input = torch.cat([from_input, decoder.context_proj.weight], 1)
            torch_cell = CELLS[cell](from_input.shape[1], 6)
            weights = {
                "weight_ih": from_input.detach(),
                "bias_ih": layer.input.bias,
                "weight_hh": layer.hidden.weight,
                "bias_hh": layer.hidden.bias,
            }
            torch_cell.load_state_dict(weights)
            self.cells.append(torch_cell)

    def advance(self, *inputs: Tensor) -> Tensor:
        """Advance by one step, layer by layer; return the new hidden state of the last."""
        x = torch.cat(inputs)

        for i, cell in enumerate(self.cells):
            if isinstance(cell, nn.LSTMCell):
                hidden, memory = cell(
                    x[None], [state[None] for state in self.states[i]]
                )
                self.states[i] = (hidden[0], memory[0])
            else:
                self.states[i] = (cell(x[None], self.states[i][0][None])[0],)
            x = self.states[i][0]

        return x


def additive(attention: Any, h: Tensor, s: Tensor) -> Tensor:
    return torch.tanh(attention.query(h) + attention.key(s)) @ attention.score.vector[0]


def dot(attention: Any, h: Tensor, s: Tensor) -> Tensor:
    return attention.key(s) @ attention.query(h)


def initial_states(decoder: Any, summary: Tensor) -> list[tuple[Tensor, ...]]:
    """Return initial states: bridge i of N takes row i·R // N of the summary's R, or all of it if
    nothing else is read of the source; all hidden states precede the cells.
    """
    bridged = []

    for i, bridge in enumerate(decoder.bridges):
        row = summary[i * len(summary) // len(decoder.bridges)]
        given = row if isinstance(decoder, RecurrentDecoder) else summary.flatten()
        bridged.append(torch.tanh(bridge(given)))

    return [tuple(bridged[i :: len(decoder.cells)]) for i in range(len(decoder.cells))]


@pytest.mark.parametrize("score", [additive, dot])
@pytest.mark.parametrize("cell", broad(CELLS))
@pytest.mark.parametrize("order", ["bahdanau", "luong", "luong_input_feeding"])
def test_a_recurrent_decoder_equals_a_loop_over_torch_cells(
    order: str, cell: str, score: Any
) -> None:
    """Compute one sentence and one step at a time, by the equations of the papers."""
    settings = RecurrentDecoderSettings(
        order=order,
        cell=cell,
        layers=3,
        score=score.__name__,
        attention_size=4,
        **SMALL,
    )

    def step(
        decoder: Any, y: Tensor, feature: Tensor, memory: Tensor, run: Run
    ) -> list[Tensor]:
        def context(h: Tensor) -> Tensor:
            return score(decoder.cross_attention, h, memory).softmax(0) @ memory

        if order == "bahdanau":
            read = context(run.states[-1][0])
            return [run.advance(y, read), read, y]

        h = run.advance(y) if order == "luong" else run.advance(y, feature)
        return [h, context(h)]

    check_decoder(settings, step)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("context", ["first", "every"])
def test_a_decoder_without_attention_equals_a_loop_over_torch_cells(
    context: str, cell: str
) -> None:
    settings = NoAttentionDecoderSettings(context=context, cell=cell, layers=3, **SMALL)

    def step(
        decoder: Any, y: Tensor, feature: Tensor, memory: Tensor, run: Run
    ) -> list[Tensor]:
        if context == "first":
            return [run.advance(y)]
        return [run.advance(y, run.first), y, run.first]

    check_decoder(settings, step)


def check_decoder(settings: Any, step: Callable[..., list[Tensor]]) -> None:
    """Compare a decoder with steps that return what its readout is computed from."""
    encoder = variants(RecurrentEncoderSettings)[0]
    model = make(ModelSettings(encoder=encoder, decoder=settings, share="none"))
    decoder: Any = model.decoder
    batch = sentences(5, 1, 3)
    target = targets(3, 6)
    features = model(batch, target)

    for row in range(3):
        encoded = model.encoder(alone(batch, row))
        run = Run(decoder, settings.cell, encoded.summary[0])
        feature = torch.zeros(5)

        for t, token in enumerate(target[row]):
            y = decoder.embedding.weight[token]
            readout_input = step(decoder, y, feature, encoded.outputs[0], run)
            feature = torch.tanh(decoder.readout(torch.cat(readout_input)))
            torch.testing.assert_close(features[row, t], feature, rtol=0, atol=1e-4)


def test_a_summary_without_states_is_the_mean_of_the_unmasked_outputs() -> None:
    encoder = variants(TransformerEncoderSettings)[0]
    decoder = variants(RecurrentDecoderSettings)[0]
    model = make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))
    batch = sentences(5, 1, 3)
    encoded = model.encoder(batch)

    for row, S in enumerate(entries(batch)):
        mean = encoded.outputs[row, :S].mean(0)
        torch.testing.assert_close(encoded.summary[row, 0], mean)
