"""Law 1 for whole layers and models: PyTorch's own Transformer and recurrent networks say the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from laws.models import SOURCE_PIECES, alone, entries, make, sentences, targets, variants
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

D, HEADS, INNER = 16, 4, 24
NETWORKS = {"gru": nn.GRU, "lstm": nn.LSTM, "tanh": nn.RNN}
CELLS = {"gru": nn.GRUCell, "lstm": nn.LSTMCell, "tanh": nn.RNNCell}
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-5}
ACTIVATIONS: dict[str, Any] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def shaken(module: nn.Module) -> nn.Module:
    """The module with biases and norms that are not the ones it began with."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return module.eval()


def copy(ours: nn.Module, theirs: nn.Module) -> None:
    theirs.load_state_dict(ours.state_dict())


def copy_read(read: Attention, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([read.query.weight, read.key.weight, read.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([read.query.bias, read.key.bias, read.value.bias]))
    copy(read.output, theirs.out_proj)


def common(norm: str, activation: str) -> dict[str, Any]:
    return {
        "dim_feedforward": INNER,
        "dropout": 0.0,
        "activation": ACTIVATIONS[activation],
        "batch_first": True,
        "norm_first": norm == "pre",
    }


def ours(norm: str, activation: str) -> dict[str, Any]:
    return {"size": D, "heads": HEADS, "feedforward": INNER, "norm": norm, "activation": activation, "dropout": 0.0}


def close_with_gradients(found: Tensor, wanted: Tensor, inputs: list[Tensor]) -> None:
    torch.testing.assert_close(found, wanted, **CLOSE)
    direction = torch.randn_like(found)
    results = [torch.autograd.grad((x * direction).sum(), inputs) for x in (found, wanted)]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_layer_of_the_encoder_equals_torch(norm: str, activation: str) -> None:
    layer = shaken(EncoderLayer(TransformerEncoderSettings(**ours(norm, activation))))
    theirs = nn.TransformerEncoderLayer(D, HEADS, **common(norm, activation)).eval()
    copy_read(layer.self_attention, theirs.self_attn)
    pairs = [(layer.feedforward.widen, theirs.linear1), (layer.feedforward.narrow, theirs.linear2)]
    pairs += [(layer.self_attention_residual.norm, theirs.norm1), (layer.feedforward_residual.norm, theirs.norm2)]
    for mine, other in pairs:
        copy(mine, other)
    x = torch.randn(3, 6, D, requires_grad=True)
    keep = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    wanted = theirs(x, src_key_padding_mask=~keep)
    close_with_gradients(layer(x, keep)[keep], wanted[keep], [x])
    close_with_gradients(layer(x, None), theirs(x), [x])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_layer_of_the_decoder_equals_torch(norm: str, activation: str) -> None:
    layer = shaken(DecoderLayer(TransformerDecoderSettings(**ours(norm, activation)), EncoderSizes(D, 1, D)))
    theirs = nn.TransformerDecoderLayer(D, HEADS, **common(norm, activation)).eval()
    copy_read(layer.self_attention, theirs.self_attn)
    copy_read(layer.cross_attention, theirs.multihead_attn)
    pairs = [(layer.feedforward.widen, theirs.linear1), (layer.feedforward.narrow, theirs.linear2)]
    pairs += [(layer.self_attention_residual.norm, theirs.norm1), (layer.cross_attention_residual.norm, theirs.norm2)]
    for mine, other in [*pairs, (layer.feedforward_residual.norm, theirs.norm3)]:
        copy(mine, other)
    x, source = torch.randn(3, 5, D, requires_grad=True), torch.randn(3, 6, D, requires_grad=True)
    keep = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    wanted = theirs(x, source, tgt_mask=later, memory_key_padding_mask=~keep)
    found, past = layer(x, layer.self_attention.empty(3), layer.cross_attention.prepare(source, source, keep))
    close_with_gradients(found, wanted, [x, source])
    assert past.entries == 5


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("cell", NETWORKS)
def test_a_recurrent_encoder_equals_torch_run_on_each_sentence_alone(
    cell: str, layers: int, bidirectional: bool
) -> None:
    chosen = {"cell": cell, "layers": layers, "bidirectional": bidirectional, "size": 6, "embedding": 5, "dropout": 0.0}
    encoder = shaken(RecurrentEncoder(RecurrentEncoderSettings(**chosen), SOURCE_PIECES))
    theirs = NETWORKS[cell](5, 6, layers, batch_first=True, bidirectional=bidirectional)
    theirs.load_state_dict(
        {
            name.replace("_l0", f"_l{i}"): weight
            for i, network in enumerate(encoder.layers)
            for name, weight in network.state_dict().items()
        }
    )
    batch, directions = sentences(7, 1, 4, 9, 2), 2 if bidirectional else 1
    encoded = encoder(batch)
    for row, S in enumerate(entries(batch)):
        outputs, last = theirs(encoder.embedding.weight[alone(batch, row).data])
        torch.testing.assert_close(encoded.outputs[row : row + 1, :S], outputs, **CLOSE)
        kinds = last if isinstance(last, tuple) else (last,)  # hiddens, then cells: each (layers · directions, 1, size)
        wanted = [
            torch.cat([kind[layer * directions + d, 0] for d in range(directions)])
            for kind in kinds
            for layer in range(layers)
        ]
        torch.testing.assert_close(encoded.summary[row], torch.stack(wanted), **CLOSE)
    assert encoded.outputs.shape == (5, 9, encoder.sizes.size)
    assert encoded.summary.shape == (5, encoder.sizes.summary_rows, encoder.sizes.size)


def torch_cells(
    decoder: RecurrentDecoder | NoAttentionDecoder, cell: str, fed: Tensor | None = None
) -> list[nn.RNNCellBase]:
    """PyTorch's cells with the decoder's weights; `fed` are those for what is fed back, beside the lowest's inputs."""
    cells = []
    for i, own in enumerate(decoder.cells):
        from_input = torch.cat([own.input.weight, fed], 1) if i == 0 and fed is not None else own.input.weight
        made = CELLS[cell](from_input.shape[1], 6)
        weights = {"weight_ih": from_input.detach(), "bias_ih": own.input.bias}
        made.load_state_dict({**weights, "weight_hh": own.hidden.weight, "bias_hh": own.hidden.bias})
        cells.append(made)
    return cells


def advance(cells: list[nn.RNNCellBase], x: Tensor, states: list[tuple[Tensor, ...]]) -> None:
    """One step of one sentence, layer upon layer; `states` are replaced."""
    for i, one in enumerate(cells):
        before = tuple(s[None] for s in states[i])
        new = one(x[None], before if len(before) > 1 else before[0])
        states[i] = tuple(s[0] for s in new) if len(before) > 1 else (new[0],)
        x = states[i][0]


SCORES = {
    "additive": lambda read, h, s: torch.tanh(read.query(h) + read.key(s)) @ read.score.vector[0],
    "dot": lambda read, h, s: read.key(s) @ read.query(h),
    "scaled_dot": lambda read, h, s: read.key(s) @ read.query(h) / 2,
    "general": lambda read, h, s: h @ read.score.matrix[0] @ s.T,
    "cosine": lambda read, h, s: F.cosine_similarity(read.query(h), read.key(s), -1) / read.score.log_temperature.exp(),
    "cosine_fixed": lambda read, h, s: F.cosine_similarity(read.query(h), read.key(s), -1) * 10,
}


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("order", ["bahdanau", "luong", "luong_input_feeding"])
def test_a_recurrent_decoder_equals_a_loop_over_torch_cells(order: str, cell: str, score: str, layers: int) -> None:
    """One sentence and one step at a time, as the papers say it."""
    sizes = {"size": 6, "embedding": 5, "attention_size": 4, "dropout": 0.0}
    settings = RecurrentDecoderSettings(order=order, cell=cell, layers=layers, score=score, **sizes)
    model = make(ModelSettings(encoder=variants(RecurrentEncoderSettings)[0], decoder=settings, share="none"))
    decoder = model.decoder
    assert isinstance(decoder, RecurrentDecoder)
    batch, target = sentences(5, 1, 3), targets(3, 6)
    found = model(batch, target)
    cells = torch_cells(decoder, cell, None if order == "luong" else decoder.context_proj.weight)
    for row in range(3):
        encoded = model.encoder(alone(batch, row))
        memory = encoded.outputs[0]  # (S, D)
        states = first_states(decoder, encoded.summary[0], layers, cell == "lstm")
        wanted = torch.zeros(5)
        for t, piece in enumerate(target[row].tolist()):
            embedded = decoder.embedding.weight[piece]
            if order == "luong":
                advance(cells, embedded, states)
            elif order == "luong_input_feeding":
                advance(cells, torch.cat([embedded, wanted]), states)
            context = SCORES[score](decoder.cross_attention, states[-1][0], memory).softmax(0) @ memory
            if order == "bahdanau":
                advance(cells, torch.cat([embedded, context]), states)
            told = [states[-1][0], context, embedded] if order == "bahdanau" else [states[-1][0], context]
            wanted = torch.tanh(decoder.readout(torch.cat(told)))
            torch.testing.assert_close(found[row, t], wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("context", ["first", "every"])
def test_a_decoder_without_attention_equals_a_loop_over_torch_cells(context: str, cell: str, layers: int) -> None:
    settings = NoAttentionDecoderSettings(context=context, cell=cell, layers=layers, size=6, embedding=5, dropout=0.0)
    model = make(ModelSettings(encoder=variants(RecurrentEncoderSettings)[0], decoder=settings, share="none"))
    decoder = model.decoder
    assert isinstance(decoder, NoAttentionDecoder)
    batch, target = sentences(5, 1, 3), targets(3, 6)
    found, cells = model(batch, target), torch_cells(decoder, cell)
    for row in range(3):
        summary = model.encoder(alone(batch, row)).summary[0].flatten()
        begun = [torch.tanh(bridge(summary)) for bridge in decoder.bridges]
        states = [tuple(begun[i::layers]) for i in range(layers)]
        last = states[-1][0]
        for t, piece in enumerate(target[row].tolist()):
            embedded = decoder.embedding.weight[piece]
            x = torch.cat([embedded, last]) if context == "every" else embedded
            advance(cells, x, states)
            told = torch.cat([states[-1][0], x]) if context == "every" else states[-1][0]
            torch.testing.assert_close(found[row, t], torch.tanh(decoder.readout(told)), rtol=0, atol=1e-4)


def first_states(decoder: RecurrentDecoder, summary: Tensor, layers: int, cells: bool) -> list[tuple[Tensor, ...]]:
    """Row i·L // R of the summary through bridge i; hiddens of all layers stand before cells."""
    count = layers * (2 if cells else 1)
    told = [torch.tanh(decoder.bridges[i](summary[i * len(summary) // count])) for i in range(count)]
    return [tuple(told[i::layers]) for i in range(layers)]


@pytest.mark.parametrize("encoder_layers", [1, 2])
@pytest.mark.parametrize("decoder_layers", [1, 2])
def test_the_bridge_takes_hiddens_from_hiddens_and_cells_from_cells(encoder_layers: int, decoder_layers: int) -> None:
    encoder = RecurrentEncoderSettings(cell="lstm", layers=encoder_layers, size=6, embedding=5, dropout=0.0)
    decoder = RecurrentDecoderSettings(
        cell="lstm", layers=decoder_layers, size=6, embedding=5, attention_size=4, dropout=0.0
    )
    model = make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))
    encoded = model.encoder(sentences(4, 2))
    hiddens, cells = encoded.summary.clone(), encoded.summary.clone()
    hiddens[:, encoder_layers:] = 0
    cells[:, :encoder_layers] = 0
    begun = []
    for summary in (encoded.summary, hiddens, cells):
        source = model.decoder.prepare(type(encoded)(encoded.outputs, encoded.embedded, summary, encoded.keep))
        begun.append(model.begin(source).tensors["states"])
    whole, of_hiddens, of_cells = begun
    assert torch.equal(whole[:, :decoder_layers], of_hiddens[:, :decoder_layers])
    assert torch.equal(whole[:, decoder_layers:], of_cells[:, decoder_layers:])
    assert not torch.equal(whole, of_hiddens)
    assert not torch.equal(whole, of_cells)


def test_a_summary_without_states_is_the_mean_of_what_may_be_read() -> None:
    for settings in variants(TransformerEncoderSettings):
        decoder = variants(RecurrentDecoderSettings)[0]
        encoder = make(ModelSettings(encoder=settings, decoder=decoder, share="none")).encoder
        batch = sentences(5, 1, 3)
        encoded = encoder(batch)
        for row, S in enumerate(entries(batch)):
            torch.testing.assert_close(encoded.summary[row, 0], encoded.outputs[row, :S].mean(0), **CLOSE)
        without = encoder(Batch(batch.data[:1]))
        torch.testing.assert_close(without.summary[0, 0], encoded.summary[0, 0], rtol=0, atol=1e-4)
