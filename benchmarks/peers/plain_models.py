"""The models of the lineage as one would write them down with torch.nn alone, and Regard's weights put into them.

Each has `encode(source, keep)`, which gives what is read and a first state, and `decode(tokens, memory, state)`, which
gives logits and the state after: all positions at once in training, one at a time where it writes.
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

BOS, EOS = 2, 3
EMBEDDING = 256
STATE, COMPARED, DROPPED = 512, 256, 0.3  # of recurrent models
SIZE, LAYERS, WIDTH, PLACES, ZEROED = 256, 4, 3, 512, 0.2  # of the convolutional one
HALF = math.sqrt(0.5)


class Translator(nn.Module):
    """One matrix for the embeddings of both sides and the output layer."""

    def __init__(self, vocabulary: int, dropped: float) -> None:
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(vocabulary, EMBEDDING), nn.Dropout(dropped)
        self.output = nn.Linear(EMBEDDING, vocabulary)
        nn.init.normal_(self.embedding.weight, std=EMBEDDING**-0.5)
        nn.init.zeros_(self.output.bias)
        self.output.weight = self.embedding.weight

    def forward(self, source: Tensor, keep: Tensor, target: Tensor) -> Tensor:
        """The logits (B, T, V) after each piece of a given target."""
        return self.decode(target, *self.encode(source, keep))[0]


class Recurrent(Translator):
    """Reads with a GRU of both directions, whose last states begin the one that writes."""

    def __init__(self, vocabulary: int, told: int) -> None:
        super().__init__(vocabulary, DROPPED)
        self.encoder = nn.GRU(EMBEDDING, STATE // 2, batch_first=True, bidirectional=True)
        self.bridge, self.readout = nn.Linear(STATE, STATE), nn.Linear(told, EMBEDDING)

    def read(self, source: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """A vector for each entry, and the first state."""
        embedded = self.dropout(self.embedding(source))
        packed = pack_padded_sequence(embedded, keep.sum(1), batch_first=True, enforce_sorted=False)
        outputs, last = self.encoder(packed)
        first = torch.tanh(self.bridge(last.transpose(0, 1).flatten(1)))
        return self.dropout(pad_packed_sequence(outputs, batch_first=True)[0]), first

    def tell(self, *parts: Tensor) -> Tensor:
        """Logits from what is known at each position."""
        return self.output(self.dropout(torch.tanh(self.readout(torch.cat(parts, -1)))))


class WithoutAttention(Recurrent):
    """The last states of the encoder are put into every step (Cho et al. 2014)."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary, told=2 * STATE + EMBEDDING)
        self.decoder = nn.GRU(EMBEDDING + STATE, STATE, batch_first=True)

    def encode(self, source: Tensor, keep: Tensor) -> tuple[Any, Any]:
        first = self.read(source, keep)[1]
        return first, first[None]

    def decode(self, tokens: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        context = memory[:, None].expand(-1, tokens.shape[1], -1)
        given = torch.cat([self.dropout(self.embedding(tokens)), context], -1)
        tops, state = self.decoder(given, state.to(given.dtype))
        return self.tell(tops, given), state


class ReadThenStep(Recurrent):
    """Additive attention with the state before each step (Bahdanau et al. 2015)."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary, told=2 * STATE + EMBEDDING)
        self.cell = nn.GRUCell(EMBEDDING + STATE, STATE)
        self.query, self.key = nn.Linear(STATE, COMPARED), nn.Linear(STATE, COMPARED)
        self.score = nn.Linear(COMPARED, 1, bias=False)

    def encode(self, source: Tensor, keep: Tensor) -> tuple[Any, Any]:
        outputs, first = self.read(source, keep)
        return (outputs, self.key(outputs), ~keep), first

    def decode(self, tokens: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        outputs, keys, hidden = memory
        embedded, tops, contexts = self.dropout(self.embedding(tokens)), [], []
        for now in embedded.unbind(1):
            scores = self.score(torch.tanh(self.query(state)[:, None] + keys)).squeeze(-1)
            weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
            contexts.append(torch.bmm(weights[:, None].to(outputs.dtype), outputs)[:, 0])
            state = self.cell(torch.cat([now, contexts[-1].to(now.dtype)], -1), state)
            tops.append(state)
        return self.tell(torch.stack(tops, 1), torch.stack(contexts, 1), embedded), state


class StepThenRead(Recurrent):
    """Bilinear attention with the state after each step, nothing fed back (Luong et al. 2015)."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary, told=2 * STATE)
        self.decoder = nn.GRU(EMBEDDING, STATE, batch_first=True)
        self.key = nn.Linear(STATE, STATE, bias=False)

    def encode(self, source: Tensor, keep: Tensor) -> tuple[Any, Any]:
        outputs, first = self.read(source, keep)
        return (outputs, self.key(outputs), keep[:, None]), first[None]

    def decode(self, tokens: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        outputs, keys, keep = memory
        embedded = self.dropout(self.embedding(tokens))
        tops, state = self.decoder(embedded, state.to(embedded.dtype))
        asked, read = tops.to(keys.dtype), outputs.to(keys.dtype)
        contexts = F.scaled_dot_product_attention(asked, keys, read, attn_mask=keep, scale=1.0)
        return self.tell(tops, contexts), state


class Convolutional(Translator):
    """Gated convolutions with weight normalisation, and attention in each layer that writes (Gehring et al. 2017)."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary, ZEROED)
        self.places = nn.ModuleList(nn.Embedding(PLACES, EMBEDDING) for _ in range(2))
        self.widen = nn.ModuleList(_linear(EMBEDDING, SIZE, ZEROED) for _ in range(2))
        self.narrow = nn.ModuleList(_linear(SIZE, EMBEDDING) for _ in range(2))
        self.reading, self.writing = (nn.ModuleList(_convolution() for _ in range(LAYERS)) for _ in range(2))
        self.ask = nn.ModuleList(_linear(SIZE, EMBEDDING) for _ in range(LAYERS))
        self.told = nn.ModuleList(_linear(EMBEDDING, SIZE) for _ in range(LAYERS))
        for places in self.places:
            nn.init.normal_(places.weight, std=EMBEDDING**-0.5)

    def encode(self, source: Tensor, keep: Tensor) -> tuple[Any, Any]:
        hidden = ~keep[:, :, None]
        places = self.places[0](torch.arange(source.shape[1]))
        embedded = self.dropout(self.embedding(source) + places).masked_fill(hidden, 0)
        x = self.widen[0](embedded).masked_fill(hidden, 0)
        for convolution in self.reading:
            y = self._convolved(convolution, F.pad(self.dropout(x), (0, 0, WIDTH // 2, WIDTH // 2)))
            x = ((y + x) * HALF).masked_fill(hidden, 0)
        keys = self.narrow[0](x)
        values = ((keys + embedded) * HALF).to(keys.dtype)
        windows = [x.new_zeros(len(source), WIDTH - 1, SIZE)] * LAYERS
        return (keys, values, keep[:, None], keep.sum(1)[:, None, None].sqrt()), (0, windows)

    def decode(self, tokens: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        keys, values, keep, root = memory
        (place, windows), after = state, []
        places = self.places[1](torch.arange(place, place + tokens.shape[1]))
        embedded = self.dropout(self.embedding(tokens) + places)
        x = self.widen[1](embedded)
        for convolution, ask, told, window in zip(self.writing, self.ask, self.told, windows, strict=True):
            given = torch.cat([window, self.dropout(x)], 1)
            y = self._convolved(convolution, given)
            asked = ((ask(y) + embedded) * HALF).to(keys.dtype)
            found = F.scaled_dot_product_attention(asked, keys, values, attn_mask=keep, scale=1.0)
            y = (y + told(found * root.to(found.dtype))) * HALF
            x = (y + x) * HALF
            after.append(given[:, 1 - WIDTH :])
        logits = self.output(self.dropout(self.narrow[1](x)))
        return logits, (place + tokens.shape[1], after)

    @staticmethod
    def _convolved(convolution: nn.Conv1d, x: Tensor) -> Tensor:
        if x.shape[1] == WIDTH:  # one position is a linear layer, which is quicker
            near, weight = x.transpose(1, 2).flatten(1), convolution.weight.flatten(1)
            return F.glu(F.linear(near, weight, convolution.bias), 1)[:, None]
        return F.glu(convolution(x.transpose(1, 2)), 1).transpose(1, 2)


MODELS: dict[str, type[Translator]] = {
    "rnn": WithoutAttention,
    "rnn-bahdanau": ReadThenStep,
    "rnn-luong": StepThenRead,
    "conv": Convolutional,
}
"""By the names of Regard's presets."""

PLACES_OF: dict[str, tuple[tuple[str, str], ...]] = {
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
        (r"encoder\.layers\.(\d)\.linear", r"reading.\1"),
        (r"decoder\.layers\.(\d)\.convolution\.linear", r"writing.\1"),
        (r"decoder\.layers\.(\d)\.(ask|told)", r"\2.\1"),
        (r"encoder\.(widen|narrow)", r"\1.0"),
        (r"decoder\.(widen|narrow)", r"\1.1"),
        (r"encoder\.entrance\.places", "places.0"),
        (r"decoder\.entrance\.places", "places.1"),
        (r"\.length", ".parametrizations.weight.original0"),
        (r"\.direction", ".parametrizations.weight.original1"),
    ),
}
"""What a part of each model is called there, and here."""
EVERYWHERE = (
    (r"decoder\.output\.weight", "embedding.weight"),
    (r"(de|en)coder(\.entrance)?\.embedding", "embedding"),
    (r"encoder\.networks\.0", "encoder"),
    (r"decoder\.bridges\.0", "bridge"),
    (r"decoder\.(readout|output)\.", r"\1."),
    (r"_input", "_ih"),
    (r"_hidden", "_hh"),
)


def plain(name: str, vocabulary: int) -> Translator:
    """A new model of the lineage."""
    return MODELS[name](vocabulary)


def fill(model: Translator, name: str, tensors: Mapping[str, Tensor]) -> None:
    """Put the weights of Regard's model in, all of them, each in its place."""
    found = dict(tensors)
    if (fed := found.pop("decoder.context.weight", None)) is not None:  # what was read is beside the input here
        found["decoder.cells.0.input.weight"] = torch.cat([found["decoder.cells.0.input.weight"], fed], 1)
    own, filled = model.state_dict(), {"output.weight"}
    for ours, tensor in found.items():
        place = ours
        for pattern, replacement in (*PLACES_OF[name], *EVERYWHERE):
            place = re.sub(pattern, replacement, place)
        own[place].copy_(_shaped(tensor, own[place]))
        filled.add(place)
    assert filled == own.keys(), f"nothing was put into {sorted(own.keys() - filled)}"


def for_decoding(model: Translator, precision: str) -> Translator:
    """With lengths and directions made into weights once, and all numbers in the precision."""
    for module in model.modules():
        if hasattr(module, "parametrizations"):
            remove_parametrizations(module, "weight")
    return model.eval().to(getattr(torch, precision))


@torch.inference_mode()
def write(model: Translator, source: Tensor, keep: Tensor, steps: int) -> Tensor:
    """So many pieces of each sentence, the likeliest at each step; the last is the end, which none before may be."""
    memory, state = model.encode(source, keep)
    tokens, found = source.new_full((len(source),), BOS), []
    for _ in range(steps - 1):
        logits, state = model.decode(tokens[:, None], memory, state)
        logits[..., : EOS + 1] = -torch.inf
        tokens = logits[:, 0].argmax(-1)
        found.append(tokens)
    model.decode(tokens[:, None], memory, state)  # all systems take so many steps; this one's piece is known
    return torch.stack([*found, source.new_full((len(source),), EOS)], 1)


def _linear(inputs: int, outputs: int, dropped: float = 0.0) -> nn.Module:
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=math.sqrt((1 - dropped) / inputs))
    nn.init.zeros_(layer.bias)
    return weight_norm(layer)


def _convolution() -> nn.Module:
    layer = nn.Conv1d(SIZE, 2 * SIZE, WIDTH)
    nn.init.normal_(layer.weight, std=math.sqrt(4 * (1 - ZEROED) / (WIDTH * SIZE)))
    nn.init.zeros_(layer.bias)
    return weight_norm(layer)


def _shaped(tensor: Tensor, like: Tensor) -> Tensor:
    """The same numbers as this layer has them: a convolution's neighbours stand last, not first."""
    if like.ndim == 3 and like.shape[2] == WIDTH:
        return tensor.view(len(like), WIDTH, -1).transpose(1, 2)
    return tensor.reshape(like.shape)
