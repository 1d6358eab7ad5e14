"""Small models of every registered kind, with weights that make their outputs differ, and data for
them.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.broad_cases import broad_beyond_cover
from torch import Tensor

from laws import covering
from laws.covering import SMALL
from regard.common.settings import Settings
from regard.data.batch import Example, TrainingBatch, collate, pad, pad_images
from regard.data.vocabulary import BOS, EOS
from regard.models import (
    ENCODERS,
    Batch,
    Model,
    ModelSettings,
    Source,
    State,
    build,
)

SOURCE_VOCABULARY = 23
TARGET_VOCABULARY = 17
GAIN = 2.0
# Made models have them again: most laws look at the same ones.
_WEIGHTS: dict[Any, list[Tensor]] = {}
WHOLE = os.environ.get("REGARD_MODELS") == "all"
"""Whether laws run over every variant of an encoder with every kind of decoder, and conversely: see
`make slow`.
"""


def variants(kind: type[Settings]) -> list[Settings]:
    """Return small settings of one kind, the defaults first, then those of the covering array."""
    others = [
        settings
        for model in covering.read()
        for settings in model
        if type(settings) is kind
    ]
    return list(dict.fromkeys([covering.parse(kind, {}), *others]))


def label(settings: Settings) -> str:
    """Return the distinguishing values of settings, for the name of a test."""
    parts = []

    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if name in SMALL and name not in ("kind", "layers"):
            continue
        if isinstance(value, bool):
            parts.append(name if value else f"no_{name}")
        else:
            parts.append(str(value))

    return ".".join(parts)


def pairs(share: str = "none", reads: Sequence[str] = ("text", "images")) -> list[Any]:
    """Return the models of the covering array as parameters of a test; few of them are not
    `broad`.
    """
    return _parameters(_product() if WHOLE else covering.read(), share, reads)


def kinds(share: str = "none", reads: Sequence[str] = ("text", "images")) -> list[Any]:
    """Return one model for every encoder with every decoder as parameters of a test."""
    return _parameters(covering.read()[: len(covering.kinds())], share, reads)


def in_turn(models: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return parameters of a test: each model with one of the values, in turn, or (see `WHOLE`)
    with all of them.
    """
    parameters = []

    for i, model in enumerate(models):
        for j, value in enumerate(values):
            if WHOLE or (j - i - i // len(values)) % len(values) == 0:
                name = value if isinstance(value, str | int | float) else str(j)
                parameters.append(
                    pytest.param(
                        *model.values,
                        value,
                        marks=model.marks,
                        id=f"{model.id}-{name}",
                    )
                )

    return parameters


def _product() -> list[tuple[Settings, Settings]]:
    """Return every variant of an encoder with every kind of decoder, and every variant of a decoder
    conversely.
    """
    models = list(covering.read())

    for encoder, decoder in covering.kinds():
        models += [
            (settings, covering.parse(decoder, {})) for settings in variants(encoder)
        ]
        models += [
            (covering.parse(encoder, {}), settings) for settings in variants(decoder)
        ]

    return list(dict.fromkeys(models))


def _parameters(
    models: Iterable[tuple[Settings, Settings]],
    share: str,
    reads: Sequence[str],
) -> list[Any]:
    chosen = [
        ModelSettings(encoder=encoder, decoder=decoder, share=share)
        for encoder, decoder in itertools.starmap(fitted, models)
        if encoder.reads in reads and (encoder.reads, share) != ("images", "all")  # type: ignore[attr-defined]
    ]
    ids = [f"{label(one.encoder)}+{label(one.decoder)}" for one in chosen]
    return broad_beyond_cover(chosen, [_features(one) for one in chosen], ids)


@cache
def fitted(encoder: Settings, decoder: Settings) -> tuple[Settings, Settings]:
    """Give a decoder that compares its states with the source as they are the size of the
    source.
    """
    if getattr(decoder, "attention_projection", True):
        return encoder, decoder
    size = ENCODERS[type(encoder)](encoder, SOURCE_VOCABULARY).sizes.size
    return encoder, decoder.with_values(size=size)


def _features(settings: ModelSettings) -> frozenset[tuple[str, str]]:
    """Return the encoder, the decoder and the attention scores of a model: each must have a case in
    the quick tests.
    """
    sides = {"encoder": settings.encoder, "decoder": settings.decoder}
    scores = {
        ("score", side.score) for side in sides.values() if hasattr(side, "score")
    }
    return frozenset({(name, side.kind) for name, side in sides.items()} | scores)


def make(
    settings: ModelSettings,
    seed: int = 0,
    ends: float = 0.2,
    vocabulary: int = TARGET_VOCABULARY,
) -> Model:
    """Return a model with random weights, large enough that its output depends on its input.

    End of sentence is the likeliest next token at a share of `ends` of the positions of random
    targets.
    """
    joint = settings.share == "all"
    source_vocabulary = vocabulary if joint else SOURCE_VOCABULARY
    key = (settings, seed, ends, vocabulary)
    torch.default_generator.manual_seed(seed)
    model = build(settings, source_vocabulary, vocabulary, joint).eval()
    tensors = [*model.parameters(), *model.buffers()]
    if key not in _WEIGHTS:
        _draw_weights(model, settings, seed, ends)
        _WEIGHTS[key] = [tensor.clone() for tensor in tensors]

    with torch.no_grad():
        for tensor, drawn in zip(tensors, _WEIGHTS[key], strict=True):
            tensor.copy_(drawn)

    # What is drawn next does not depend on who made this model first.
    torch.default_generator.manual_seed(seed)
    return model


def _draw_weights(
    model: Model, settings: ModelSettings, seed: int, ends: float
) -> None:
    norms = {
        getattr(side, "norm", None) for side in (settings.encoder, settings.decoder)
    }
    gain = GAIN
    if norms & {"batch", "pre_batch", "none"}:
        gain = GAIN / 2  # nothing else keeps vectors from growing with each layer
    vocabulary = model.decoder.output.weight.shape[0]

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            else:
                inputs = (
                    parameter[0].numel()
                    if parameter.dim() == 4
                    else parameter.shape[-1]
                )
                parameter.normal_(std=gain / math.sqrt(inputs))

        sizes = {
            "vocabulary": vocabulary if settings.share == "all" else SOURCE_VOCABULARY
        }
        batch = sources(settings, *range(1, 9), seed=seed, **sizes)
        logits = model.project(
            model(batch, targets(8, 8, seed=seed, vocabulary=vocabulary))
        )
        best_token = logits.index_fill(-1, torch.tensor([EOS]), -torch.inf).amax(-1)
        model.decoder.output.bias[EOS] += (best_token - logits[..., EOS]).quantile(ends)


def sentences(
    *lengths: int, seed: int = 1, vocabulary: int = SOURCE_VOCABULARY
) -> Batch:
    """Return random sources of these lengths, end of sentence included, padded to the longest."""
    generator = torch.Generator().manual_seed(seed)
    rows = [
        torch.randint(EOS + 1, vocabulary, (n - 1,), generator=generator).tolist()
        + [EOS]
        for n in lengths
    ]
    return Batch(*pad(rows))


def targets(
    rows: int, length: int, seed: int = 2, vocabulary: int = TARGET_VOCABULARY
) -> Tensor:
    """Return random targets as inputs of teacher forcing: beginning of sentence first."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(EOS + 1, vocabulary, (rows, length), generator=generator)
    ids[:, 0] = BOS
    return ids


def images(*lengths: int, seed: int = 1) -> Batch:
    """Return a padded batch of random images, of as many sizes as there are lengths."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [(n + 2, 1 + 3 * n % 11) for n in lengths]
    return Batch(
        *pad_images([torch.rand(3, Y, X, generator=generator) for Y, X in sizes])
    )


def sources(
    settings: ModelSettings,
    *lengths: int,
    seed: int = 1,
    vocabulary: int = SOURCE_VOCABULARY,
) -> Batch:
    """Return inputs of this model's encoder: sentences of these lengths, or images."""
    if settings.encoder.reads == "images":
        return images(*lengths, seed=seed)
    return sentences(*lengths, seed=seed, vocabulary=vocabulary)


def batched(settings: ModelSettings, examples: Sequence[Example]) -> TrainingBatch:
    """Return examples as a batch for this model: if it reads images, with an image in place of each
    source.
    """
    batch = collate(examples)
    if settings.encoder.reads == "text":
        return batch
    pixels = [
        images(len(example.source), seed=sum(example.source)).data[0]
        for example in examples
    ]
    source, keep = pad_images(pixels)
    return replace(batch, source=source, source_keep=keep)


def entry_keep(model: Model, batch: Batch) -> Tensor:
    """Return the keep mask of the encoder outputs: (B, S)."""
    with torch.no_grad():
        encoded = model.encoder(batch)
    if encoded.keep is not None:
        return encoded.keep
    return torch.ones(encoded.outputs.shape[:2], dtype=torch.bool)


def entries(batch: Batch) -> list[int]:
    """Return the number of entries of each sentence."""
    B, S = batch.data.shape[:2]
    return [S] * B if batch.keep is None else batch.keep.sum(1).tolist()


def data_keep(batch: Batch) -> Tensor:
    """Return the keep mask in the shape of the data: (B, S) or (B, 1, Y, X)."""
    B = len(batch.data)
    shape = (
        batch.data.shape[1:] if batch.data.dim() == 2 else (1, *batch.data.shape[2:])
    )
    if batch.keep is not None:
        return batch.keep.view(B, *shape)
    return torch.ones(B, *shape, dtype=torch.bool)


def alone(batch: Batch, row: int) -> Batch:
    """Return one source of a batch, without its padding."""
    keep = data_keep(batch)[row]
    data = batch.data[row : row + 1]
    if data.dim() == 2:
        return Batch(data[:, : int(keep.sum())])
    height = int(keep[0].any(1).sum())
    width = int(keep[0].any(0).sum())
    return Batch(data[:, :, :height, :width])


def select_rows(batch: Batch, rows: Sequence[int]) -> Batch:
    """Return these sources of a batch, with no more padding than they need."""
    unpadded = [alone(batch, row).data[0] for row in rows]
    if batch.data.dim() == 2:
        return Batch(*pad([data.tolist() for data in unpadded]))
    return Batch(*pad_images(unpadded))


def padded(batch: Batch, more: int) -> Batch:
    """Return the same sources with more padding."""
    sides = (0, more) if batch.data.dim() == 2 else (0, more, 0, more)
    return Batch(
        F.pad(batch.data, sides),
        F.pad(data_keep(batch), sides, value=False).flatten(1),
    )


def with_noise_in_padding(batch: Batch) -> Batch:
    """Return the same sources with random values in the padding."""
    text = batch.data.dim() == 2
    noise = (
        torch.randint(0, EOS + 9, batch.data.shape)
        if text
        else torch.rand(batch.data.shape)
    )
    return Batch(torch.where(data_keep(batch), batch.data, noise), batch.keep)


def repeated(batch: Batch, times: int) -> Batch:
    """Return one source, repeated."""
    return Batch(batch.data.expand(times, *batch.data.shape[1:]))


def beam_rows(rows: int, beams: int) -> Tensor:
    """Return the row indices that give each sentence `beams` hypotheses."""
    return torch.arange(rows).repeat_interleave(beams)


def trainable(model: Model) -> list[Tensor]:
    """Return the weights that features of a model depend on, and that training changes."""
    return [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and not name.startswith("decoder.output")
    ]


def tensors_of(value: State | Source) -> list[Tensor]:
    """Return every tensor of a state or a source."""
    memories: Iterable[Any]

    if isinstance(value, State):
        memories = value.memories.values()
        tensors = [value.position, *value.tensors.values()]
    else:
        memories = value.memories
        tensors = [value.summary]

    for memory in memories:
        tensors += [memory.keys, memory.values]
        if memory.keep is not None:
            tensors.append(memory.keep)

    return tensors
