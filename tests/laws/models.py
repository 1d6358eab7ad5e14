"""Small models of every kind that is registered, with weights that make them say different things, and data for them."""

from __future__ import annotations

import itertools
import math
import typing
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.batching import pad
from regard.data.tokenizer import BOS, EOS
from regard.models import DECODERS, ENCODERS, Batch, Model, ModelSettings, Source, State, build
from regard.settings import Settings

SOURCE_PIECES, TARGET_PIECES = 23, 17
SMALL: dict[str, Any] = {
    "size": 16,
    "heads": 2,
    "feedforward": 24,
    "attention": 12,
    "embedding": 16,
    "dropout": 0.0,
    "limit": 40,
    "final_norm": "auto",
}
CHOICES: dict[str, Any] = {"layers": (2, 1), "activation": ("gelu", "swiglu"), "window": (None, 2)}
GAIN = 2.0


def variants(kind: type[Settings], count: int = 4) -> list[Settings]:
    """Small settings of one kind, different in layers and in every switch, the defaults first.

    Four show each pair of values of two switches of two; where a switch has more values there are as many as these.
    """
    small = {name: value for name, value in SMALL.items() if name in kind.model_fields}
    switches = {name: values for name, values in CHOICES.items() if name in kind.model_fields}
    for name, field in kind.model_fields.items():
        values = (True, False) if field.annotation is bool else typing.get_args(field.annotation)
        is_switch = field.annotation is bool or typing.get_origin(field.annotation) is typing.Literal
        if is_switch and len(values) > 1 and name not in {**SMALL, **CHOICES}:
            switches[name] = sorted(values, key=lambda value, default=field.default: value != default)
    rows = max([count, *map(len, switches.values())]) if count > 2 else count
    chosen = ({name: _pick(v, i, j) for j, (name, v) in enumerate(switches.items())} for i in range(rows))
    return list(dict.fromkeys(kind.parse({**small, **choice}, "a law") for choice in chosen))


def _pick(values: Sequence[Any], i: int, j: int) -> Any:
    if len(values) == 2:
        return values[(i & (1, 2, 3)[j % 3]).bit_count() % 2]
    return values[(i + j * (i // len(values))) % len(values)]


def label(settings: Settings) -> str:
    """What is particular about some settings, for the name of a test."""
    fields = {"kind", "layers", *(n for n, f in type(settings).model_fields.items() if n not in SMALL)}
    values = [(name, getattr(settings, name)) for name in type(settings).model_fields if name in fields]
    told = (str(value) if not isinstance(value, bool) else name if value else f"no_{name}" for name, value in values)
    return ".".join(told)


def pairs(count: int = 4, share: str = "none") -> list[Any]:
    """Every kind of encoder with every kind of decoder, and with each of them every variant of both at least once."""
    chosen = []
    for (i, one), (j, other) in itertools.product(enumerate(ENCODERS), enumerate(DECODERS)):
        encoders, decoders = variants(one, count), variants(other, count)
        for k in range(max(len(encoders), len(decoders))):
            chosen.append((encoders[(k + j) % len(encoders)], decoders[(k + i) % len(decoders)]))
    return [
        pytest.param(ModelSettings(encoder=e, decoder=d, share=share), id=f"{label(e)}+{label(d)}") for e, d in chosen
    ]


def make(settings: ModelSettings, seed: int = 0, ends: float = 0.2, pieces: int = TARGET_PIECES) -> Model:
    """A model with random weights, large enough that it does not say the same to all.

    The end of sentence is the likeliest next piece at a share of `ends` of the places in random targets.
    """
    torch.manual_seed(seed)
    joint = settings.share == "all"
    source_pieces = pieces if joint else SOURCE_PIECES
    model = build(settings, source_pieces, pieces, joint).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            else:
                parameter.normal_(std=GAIN / math.sqrt(parameter.shape[-1]))
        batch = sentences(*range(1, 9), seed=seed, pieces=source_pieces)
        logits = model.project(model(batch, targets(8, 8, seed=seed, pieces=pieces)))
        others = logits.index_fill(-1, torch.tensor([EOS]), -torch.inf).amax(-1)
        model.decoder.output.bias[EOS] += (others - logits[..., EOS]).quantile(ends)
    return model


def sentences(*lengths: int, seed: int = 1, pieces: int = SOURCE_PIECES) -> Batch:
    """Random sources of these lengths, ends of sentence included, padded to the longest."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(EOS + 1, pieces, (n - 1,), generator=generator).tolist() + [EOS] for n in lengths]
    return Batch(*pad(rows))


def targets(rows: int, length: int, seed: int = 2, pieces: int = TARGET_PIECES) -> Tensor:
    """Random targets as teacher forcing reads them: beginning of sentence first."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(EOS + 1, pieces, (rows, length), generator=generator)
    ids[:, 0] = BOS
    return ids


def entries(batch: Batch) -> list[int]:
    """How many entries each source has."""
    B, S = batch.data.shape[:2]
    return [S] * B if batch.keep is None else batch.keep.sum(1).tolist()


def alone(batch: Batch, row: int) -> Batch:
    """One sentence of a batch, without its padding."""
    return Batch(batch.data[row : row + 1, : entries(batch)[row]])


def widened(rows: int, beams: int) -> Tensor:
    """The rows that give each sentence so many hypotheses."""
    return torch.arange(rows).repeat_interleave(beams)


def tensors_of(value: State | Source) -> list[Tensor]:
    """Every tensor in a state or a source."""
    memories: Iterable[Any] = value.memories.values() if isinstance(value, State) else value.memories
    own = [value.position, *value.tensors.values()] if isinstance(value, State) else [value.summary]
    parts = [part for memory in memories for part in (memory.keys, memory.values, memory.keep)]
    return own + [part for part in parts if part is not None]
