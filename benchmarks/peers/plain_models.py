"""Reference implementations of the recurrent and convolutional presets with torch.nn alone, and
weight conversion.

Each has `encode(source, keep)`, which returns a memory and a first state, and `decode(tokens,
memory, state)`, which returns logits and the state after: all positions at once in training, one at
a time in decoding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import remove_parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

__all__ = ["MODELS", "fill", "for_decoding", "plain", "write"]

BOS = 2
EOS = 3
EMBEDDING = 256
STATE, ATTENTION, RNN_DROPOUT = 512, 256, 0.3  # of recurrent models
# Of the convolutional one.
SIZE, LAYERS, KERNEL, POSITIONS, DROPOUT = 256, 4, 3, 512, 0.2
HALF = math.sqrt(0.5)


class Translator(nn.Module):
    """Base class: one matrix for both embeddings and the output layer."""

    def __init__(self, vocabulary: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, EMBEDDING)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(EMBEDDING, vocabulary)
        nn.init.normal_(self.embedding.weight, std=EMBEDDING**-0.5)
        nn.init.zeros_(self.output.bias)
        self.output.weight = self.embedding.weight

    def forward(self, source: Tensor, keep: Tensor, target: Tensor) -> Tensor:
        """Teacher forcing: return the logits (B, T, V) after each target token."""
        return self.decode(target, *self.encode(source, keep))[0]


class Recurrent(Translator):
    """Bidirectional GRU encoder, whose last states initialise the decoder."""

    def __init__(self, vocabulary: int, readout_size: int) -> None:
        super().__init__(vocabulary, RNN_DROPOUT)
        self.encoder = nn.GRU(
            EMBEDDING, STATE // 2, batch_first=True, bidirectional=True
        )
        self.bridge = nn.Linear(STATE, STATE)
        self.readout = nn.Linear(readout_size, EMBEDDING)

    def run_encoder(self, source: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """Return the encoder outputs and the first decoder state."""
        embedded = self.dropout(self.embedding(source))
        packed = pack_padded_sequence(
            embedded, keep.sum(1), batch_first=True, enforce_sorted=False
        )
        outputs, last = self.encoder(packed)
        first = torch.tanh(self.bridge(last.transpose(0, 1).flatten(1)))
        return self.dropout(pad_packed_sequence(outputs, batch_first=True)[0]), first

    def logits(self, *parts: Tensor) -> Tensor:
        """Return the logits of each position."""
        return self.output(self.dropout(torch.tanh(self.readout(torch.cat(parts, -1)))))


class NoAttention(Recurrent):
    """No attention: the encoder's last states enter every step (Cho et al. 2014)."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary, readout_size=2 * STATE + EMBEDDING)
        self.decoder = nn.GRU(EMBEDDING + STATE, STATE, batch_first=True)

    def encode(self, source: Tensor, keep: Tensor) -> tuple[Any, Any]:
        first = self.run_encoder(source, keep)[1]
        return first, first[None]

    def decode(self, tokens: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        context = memory[:, None].expand(-1, tokens.shape[1], -1)
        inputs = torch.cat([self.dropout(self.embedding(tokens)), context], -1)
        tops, state = self.decoder(inputs, state.to(inputs.dtype))
        return self.logits(tops, inputs), state


class Bahdanau(Recurrent):
    """Additive attention with the state before each step (Bahdanau et al. 2015)."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary, readout_size=2 * STATE + EMBEDDING)
        self.cell = nn.GRUCell(EMBEDDING + STATE, STATE)
        self.query = nn.Linear(STATE, ATTENTION)
        self.key = nn.Linear(STATE, ATTENTION)
        self.score = nn.Linear(ATTENTION, 1, bias=False)

    def encode(self, source: Tensor, keep: Tensor) -> tuple[Any, Any]:
        outputs, first = self.run_encoder(source, keep)
        return (outputs, self.key(outputs), ~keep), first

    def decode(self, tokens: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        outputs, keys, hidden = memory
        embedded = self.dropout(self.embedding(tokens))
        tops = []
        contexts = []
        for x in embedded.unbind(1):
            scores = self.score(torch.tanh(self.query(state)[:, None] + keys)).squeeze(
                -1
            )
            weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
            contexts.append(
                torch.bmm(weights[:, None].to(outputs.dtype), outputs)[:, 0]
            )
            state = self.cell(torch.cat([x, contexts[-1].to(x.dtype)], -1), state)
            tops.append(state)
        return self.logits(
            torch.stack(tops, 1), torch.stack(contexts, 1), embedded
        ), state


class Luong(Recurrent):
    """Bilinear attention with the state after each step, nothing fed back (Luong et al. 2015)."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary, readout_size=2 * STATE)
        self.decoder = nn.GRU(EMBEDDING, STATE, batch_first=True)
        self.key = nn.Linear(STATE, STATE, bias=False)

    def encode(self, source: Tensor, keep: Tensor) -> tuple[Any, Any]:
        outputs, first = self.run_encoder(source, keep)
        return (outputs, self.key(outputs), keep[:, None]), first[None]

    def decode(self, tokens: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        outputs, keys, keep = memory
        embedded = self.dropout(self.embedding(tokens))
        tops, state = self.decoder(embedded, state.to(embedded.dtype))
        query = tops.to(keys.dtype)
        values = outputs.to(keys.dtype)
        contexts = F.scaled_dot_product_attention(
            query, keys, values, attn_mask=keep, scale=1.0
        )
        return self.logits(tops, contexts), state


class Convolutional(Translator):
    """Gated convolutions with weight norm, and attention in each decoder layer (Gehring et al.
    2017).
    """

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary, DROPOUT)
        self.positions = nn.ModuleList(
            nn.Embedding(POSITIONS, EMBEDDING) for _ in range(2)
        )
        self.widen = nn.ModuleList(_linear(EMBEDDING, SIZE, DROPOUT) for _ in range(2))
        self.narrow = nn.ModuleList(_linear(SIZE, EMBEDDING) for _ in range(2))
        self.encoder_convs, self.decoder_convs = (
            nn.ModuleList(_convolution() for _ in range(LAYERS)) for _ in range(2)
        )
        self.query_in = nn.ModuleList(_linear(SIZE, EMBEDDING) for _ in range(LAYERS))
        self.context_out = nn.ModuleList(
            _linear(EMBEDDING, SIZE) for _ in range(LAYERS)
        )
        for table in self.positions:
            nn.init.normal_(table.weight, std=EMBEDDING**-0.5)

    def encode(self, source: Tensor, keep: Tensor) -> tuple[Any, Any]:
        hidden = ~keep[:, :, None]
        positions = self.positions[0](torch.arange(source.shape[1]))
        embedded = self.dropout(self.embedding(source) + positions).masked_fill(
            hidden, 0
        )
        x = self.widen[0](embedded).masked_fill(hidden, 0)
        for convolution in self.encoder_convs:
            y = self._convolved(
                convolution, F.pad(self.dropout(x), (0, 0, KERNEL // 2, KERNEL // 2))
            )
            x = ((y + x) * HALF).masked_fill(hidden, 0)
        keys = self.narrow[0](x)
        values = ((keys + embedded) * HALF).to(keys.dtype)
        windows = [x.new_zeros(len(source), KERNEL - 1, SIZE)] * LAYERS
        return (keys, values, keep[:, None], keep.sum(1)[:, None, None].sqrt()), (
            0,
            windows,
        )

    def decode(self, tokens: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        keys, values, keep, root = memory
        (start, windows), after = state, []
        positions = self.positions[1](torch.arange(start, start + tokens.shape[1]))
        embedded = self.dropout(self.embedding(tokens) + positions)
        x = self.widen[1](embedded)
        layers = zip(
            self.decoder_convs, self.query_in, self.context_out, windows, strict=True
        )
        for convolution, query_in, context_out, window in layers:
            inputs = torch.cat([window, self.dropout(x)], 1)
            y = self._convolved(convolution, inputs)
            query = ((query_in(y) + embedded) * HALF).to(keys.dtype)
            context = F.scaled_dot_product_attention(
                query, keys, values, attn_mask=keep, scale=1.0
            )
            y = (y + context_out(context * root.to(context.dtype))) * HALF
            x = (y + x) * HALF
            after.append(inputs[:, 1 - KERNEL :])
        logits = self.output(self.dropout(self.narrow[1](x)))
        return logits, (start + tokens.shape[1], after)

    @staticmethod
    def _convolved(convolution: nn.Conv1d, x: Tensor) -> Tensor:
        if x.shape[1] == KERNEL:  # one position: a linear layer is faster
            window = x.transpose(1, 2).flatten(1)
            weight = convolution.weight.flatten(1)
            return F.glu(F.linear(window, weight, convolution.bias), 1)[:, None]
        return F.glu(convolution(x.transpose(1, 2)), 1).transpose(1, 2)


MODELS: dict[str, type[Translator]] = {
    "rnn": NoAttention,
    "rnn-bahdanau": Bahdanau,
    "rnn-luong": Luong,
    "conv": Convolutional,
}
"""By preset name."""

NAMES_OF: dict[str, tuple[tuple[str, str], ...]] = {
    "rnn": ((r"decoder\.cells\.0\.(input|hidden)\.(\w+)", r"decoder.\2_\1_l0"),),
    "rnn-bahdanau": (
        (r"decoder\.cells\.0\.(input|hidden)\.(\w+)", r"cell.\2_\1"),
        (r"decoder\.cross_attention\.score\.vector", "score.weight"),
        (r"decoder\.cross_attention\.(query|key)", r"\1"),
    ),
    "rnn-luong": (
        (r"decoder\.cells\.0\.(input|hidden)\.(\w+)", r"decoder.\2_\1_l0"),
        (r"decoder\.cross_attention\.score\.matrix", "key.weight"),
    ),
    "conv": (
        (r"encoder\.layers\.(\d)\.linear", r"encoder_convs.\1"),
        (r"decoder\.layers\.(\d)\.convolution\.linear", r"decoder_convs.\1"),
        (r"decoder\.layers\.(\d)\.(query_in|context_out)", r"\2.\1"),
        (r"encoder\.(widen|narrow)", r"\1.0"),
        (r"decoder\.(widen|narrow)", r"\1.1"),
        (r"encoder\.input_embedding\.position_embedding", "positions.0"),
        (r"decoder\.input_embedding\.position_embedding", "positions.1"),
        (r"\.length", ".parametrizations.weight.original0"),
        (r"\.direction", ".parametrizations.weight.original1"),
    ),
}
"""Regular expressions from Regard's parameter names to those here, per preset."""
COMMON_NAMES = (
    (r"decoder\.output\.weight", "embedding.weight"),
    (r"(de|en)coder(\.input_embedding)?\.embedding", "embedding"),
    (r"encoder\.layers\.0", "encoder"),
    (r"decoder\.bridges\.0", "bridge"),
    (r"decoder\.(readout|output)\.", r"\1."),
    (r"_input", "_ih"),
    (r"_hidden", "_hh"),
)


def plain(name: str, vocabulary: int) -> Translator:
    """Create the reference model of a preset."""
    return MODELS[name](vocabulary)


def fill(model: Translator, name: str, tensors: Mapping[str, Tensor]) -> None:
    """Load all weights of Regard's model of that preset."""
    theirs = dict(tensors)
    context = theirs.pop("decoder.context_proj.weight", None)
    if context is not None:  # one matrix for input and context
        theirs["decoder.cells.0.input.weight"] = torch.cat(
            [theirs["decoder.cells.0.input.weight"], context], 1
        )
    parameters = model.state_dict()
    filled = {"output.weight"}
    for name_there, tensor in theirs.items():
        target = name_there
        for pattern, replacement in (*NAMES_OF[name], *COMMON_NAMES):
            target = re.sub(pattern, replacement, target)
        parameters[target].copy_(_reshaped(tensor, parameters[target]))
        filled.add(target)
    assert filled == parameters.keys(), (
        f"no weights for {sorted(parameters.keys() - filled)}"
    )


def for_decoding(model: Translator, precision: str) -> Translator:
    """Fold weight norm into the weights, and cast to the precision."""
    for module in model.modules():
        if hasattr(module, "parametrizations"):
            remove_parametrizations(module, "weight")
    return model.eval().to(getattr(torch, precision))


@torch.inference_mode()
def write(model: Translator, source: Tensor, keep: Tensor, steps: int) -> Tensor:
    """Decode greedily to exactly `steps` tokens per sentence, of which only the last is end of
    sentence.
    """
    memory, state = model.encode(source, keep)
    tokens = source.new_full((len(source),), BOS)
    outputs = []
    for _ in range(steps - 1):
        logits, state = model.decode(tokens[:, None], memory, state)
        logits[..., : EOS + 1] = -torch.inf
        tokens = logits[:, 0].argmax(-1)
        outputs.append(tokens)
    # For equal work: all systems run the last step.
    model.decode(tokens[:, None], memory, state)
    return torch.stack([*outputs, source.new_full((len(source),), EOS)], 1)


def _linear(inputs: int, outputs: int, dropout: float = 0.0) -> nn.Module:
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=math.sqrt((1 - dropout) / inputs))
    nn.init.zeros_(layer.bias)
    return weight_norm(layer)


def _convolution() -> nn.Module:
    layer = nn.Conv1d(SIZE, 2 * SIZE, KERNEL)
    nn.init.normal_(layer.weight, std=math.sqrt(4 * (1 - DROPOUT) / (KERNEL * SIZE)))
    nn.init.zeros_(layer.bias)
    return weight_norm(layer)


def _reshaped(tensor: Tensor, like: Tensor) -> Tensor:
    """Reshape to `like`: a convolution has its kernel positions on the last axis, not the first."""
    if like.ndim == 3 and like.shape[2] == KERNEL:
        return tensor.view(len(like), KERNEL, -1).transpose(1, 2)
    return tensor.reshape(like.shape)
