"""Small models of every registered kind, with weights that make their outputs differ, and data for them."""

from __future__ import annotations

import itertools
import math
import typing
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from broad import broad_beyond_cover
from torch import Tensor

from regard.data.batch import Example, TrainingBatch, collate, pad, pad_images
from regard.data.vocabulary import BOS, EOS
from regard.models import DECODERS, ENCODERS, Batch, Model, ModelSettings, Source, State, build
from regard.models.timm_encoder import TimmEncoderSettings
from regard.models.vision import ResNetEncoderSettings, ViTEncoderSettings
from regard.settings import Settings

SOURCE_VOCABULARY, TARGET_VOCABULARY = 23, 17
SMALL: dict[str, Any] = {
    "size": 16,
    "heads": 2,
    "feedforward": 24,
    "attention_size": 12,
    "embedding": 16,
    "dropout": 0.0,
    "max_positions": 40,
    "final_norm": "auto",
    "freeze_backbone": False,
    "causal": True,  # without the mask law 3 fails, as a test of it says
}
CHOICES: dict[str, Any] = {"layers": (2, 1), "activation": ("gelu", "swiglu"), "window": (None, 2)}
OF_KIND: dict[type[Settings], dict[str, Any]] = {
    ResNetEncoderSettings: {"width": (8,), "depths": ((1, 2),), "layers": (0, 1), "group_size": (4,)},
    ViTEncoderSettings: {"patch_size": (4,)},
}
GAIN = 2.0
ENCODERS_BY_INPUT = {reads: [kind for kind in ENCODERS if kind.reads == reads] for reads in ("text", "images")}
# timm needs a package, or a stand-in: tests/models/test_timm_encoder.py
ENCODERS_BY_INPUT["images"].remove(TimmEncoderSettings)


def variants(kind: type[Settings], count: int = 4) -> list[Settings]:
    """Return small settings of one kind that differ in layers and in every switch, the defaults first.

    Four variants contain each pair of values of two binary switches; a switch of more values adds variants.
    """
    small = {name: value for name, value in SMALL.items() if name in kind.model_fields}
    choices = {**CHOICES, **OF_KIND.get(kind, {})}
    switches = {name: values for name, values in choices.items() if name in kind.model_fields}
    for name, field in kind.model_fields.items():
        values = (True, False) if field.annotation is bool else typing.get_args(field.annotation)
        is_switch = field.annotation is bool or typing.get_origin(field.annotation) is typing.Literal
        if is_switch and len(values) > 1 and name not in {**SMALL, **choices}:
            switches[name] = sorted(values, key=lambda value, default=field.default: value != default)
    rows = max([count, *map(len, switches.values())]) if count > 2 else count
    chosen = ({name: _pick(v, i, j) for j, (name, v) in enumerate(switches.items())} for i in range(rows))
    return list(dict.fromkeys(kind.parse({**small, **choice}, "a law") for choice in chosen))


def _pick(values: Sequence[Any], i: int, j: int) -> Any:
    if len(values) == 2:
        return values[(i & (1, 2, 3)[j % 3]).bit_count() % 2]
    return values[(i + j * (i // len(values))) % len(values)]


def label(settings: Settings) -> str:
    """Return the distinguishing values of settings, for the name of a test."""
    fields = {"kind", "layers", *(n for n, f in type(settings).model_fields.items() if n not in SMALL)}
    values = [(name, getattr(settings, name)) for name in type(settings).model_fields if name in fields]
    parts = (str(value) if not isinstance(value, bool) else name if value else f"no_{name}" for name, value in values)
    return ".".join(parts)


def pairs(count: int = 4, share: str = "none", reads: Sequence[str] = ("text", "images")) -> list[Any]:
    """Return every kind of encoder with every kind of decoder, and every variant of both at least once.

    With image encoders only the encoder varies: text encoders cover the variants of the decoders.
    """
    chosen = []
    kinds = [
        (kind, modality)
        for modality in reads
        for kind in ENCODERS_BY_INPUT[modality]
        if (modality, share) != ("images", "all")
    ]
    for (i, (encoder, modality)), (j, decoder) in itertools.product(enumerate(kinds), enumerate(DECODERS)):
        encoders, decoders = variants(encoder, count), variants(decoder, count)
        for k in range(max(len(encoders), len(decoders)) if modality == "text" else len(encoders)):
            chosen.append(_fitted(encoders[(k + j) % len(encoders)], decoders[(k + i) % len(decoders)]))
    settings = [ModelSettings(encoder=encoder, decoder=decoder, share=share) for encoder, decoder in chosen]
    ids = [f"{label(one.encoder)}+{label(one.decoder)}" for one in settings]
    return broad_beyond_cover(settings, [_features(one) for one in settings], ids)


def _fitted(encoder: Settings, decoder: Settings) -> tuple[Settings, Settings]:
    """Give a decoder that compares its states with the source as they are the size of the source."""
    if getattr(decoder, "attention_projection", True):
        return encoder, decoder
    size = ENCODERS[type(encoder)](encoder, SOURCE_VOCABULARY).sizes.size
    return encoder, decoder.with_values(size=size)


def _features(settings: ModelSettings) -> frozenset[tuple[str, str]]:
    """Return the encoder, the decoder and the attention scores of a model: each must have a case in the quick tests."""
    sides = {"encoder": settings.encoder, "decoder": settings.decoder}
    scores = {("score", side.score) for side in sides.values() if hasattr(side, "score")}
    return frozenset({(name, side.kind) for name, side in sides.items()} | scores)


def make(settings: ModelSettings, seed: int = 0, ends: float = 0.2, vocabulary: int = TARGET_VOCABULARY) -> Model:
    """Return a model with random weights, large enough that its output depends on its input.

    End of sentence is the likeliest next token at a share of `ends` of the positions of random targets.
    """
    torch.manual_seed(seed)
    joint, gain = settings.share == "all", GAIN
    if {getattr(side, "norm", None) for side in (settings.encoder, settings.decoder)} & {"batch", "none"}:
        gain = GAIN / 2  # nothing else keeps vectors from growing with each layer
    source_vocabulary = vocabulary if joint else SOURCE_VOCABULARY
    model = build(settings, source_vocabulary, vocabulary, joint).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            else:
                inputs = parameter[0].numel() if parameter.dim() == 4 else parameter.shape[-1]
                parameter.normal_(std=gain / math.sqrt(inputs))
        batch = sources(settings, *range(1, 9), seed=seed, vocabulary=source_vocabulary)
        logits = model.project(model(batch, targets(8, 8, seed=seed, vocabulary=vocabulary)))
        best_token = logits.index_fill(-1, torch.tensor([EOS]), -torch.inf).amax(-1)
        model.decoder.output.bias[EOS] += (best_token - logits[..., EOS]).quantile(ends)
    return model


def sentences(*lengths: int, seed: int = 1, vocabulary: int = SOURCE_VOCABULARY) -> Batch:
    """Return random sources of these lengths, end of sentence included, padded to the longest."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(EOS + 1, vocabulary, (n - 1,), generator=generator).tolist() + [EOS] for n in lengths]
    return Batch(*pad(rows))


def targets(rows: int, length: int, seed: int = 2, vocabulary: int = TARGET_VOCABULARY) -> Tensor:
    """Return random targets as inputs of teacher forcing: beginning of sentence first."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(EOS + 1, vocabulary, (rows, length), generator=generator)
    ids[:, 0] = BOS
    return ids


def images(*lengths: int, seed: int = 1) -> Batch:
    """Return a padded batch of random images, of as many sizes as there are lengths."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [(n + 2, 1 + 3 * n % 11) for n in lengths]
    return Batch(*pad_images([torch.rand(3, Y, X, generator=generator) for Y, X in sizes]))


def sources(settings: ModelSettings, *lengths: int, seed: int = 1, vocabulary: int = SOURCE_VOCABULARY) -> Batch:
    """Return inputs of this model's encoder: sentences of these lengths, or images."""
    if settings.encoder.reads == "images":
        return images(*lengths, seed=seed)
    return sentences(*lengths, seed=seed, vocabulary=vocabulary)


def batched(settings: ModelSettings, examples: Sequence[Example]) -> TrainingBatch:
    """Return examples as a batch for this model: if it reads images, with an image in place of each source."""
    batch = collate(examples)
    if settings.encoder.reads == "text":
        return batch
    pixels = [images(len(example.source), seed=sum(example.source)).data[0] for example in examples]
    source, keep = pad_images(pixels)
    return replace(batch, source=source, source_keep=keep)


def entry_keep(model: Model, batch: Batch) -> Tensor:
    """Return the keep mask of the encoder outputs: (B, S)."""
    with torch.no_grad():
        encoded = model.encoder(batch)
    return torch.ones(encoded.outputs.shape[:2], dtype=torch.bool) if encoded.keep is None else encoded.keep


def entries(batch: Batch) -> list[int]:
    """Return the number of entries of each sentence."""
    B, S = batch.data.shape[:2]
    return [S] * B if batch.keep is None else batch.keep.sum(1).tolist()


def data_keep(batch: Batch) -> Tensor:
    """Return the keep mask in the shape of the data: (B, S) or (B, 1, Y, X)."""
    B, shape = len(batch.data), (batch.data.shape[1:2] if batch.data.dim() == 2 else (1, *batch.data.shape[2:]))
    return torch.ones(B, *shape, dtype=torch.bool) if batch.keep is None else batch.keep.view(B, *shape)


def alone(batch: Batch, row: int) -> Batch:
    """Return one source of a batch, without its padding."""
    keep = data_keep(batch)[row]
    if batch.data.dim() == 2:
        return Batch(batch.data[row : row + 1, : int(keep.sum())])
    return Batch(batch.data[row : row + 1, :, : int(keep[0].any(1).sum()), : int(keep[0].any(0).sum())])


def select_rows(batch: Batch, rows: Sequence[int]) -> Batch:
    """Return these sources of a batch, with no more padding than they need."""
    unpadded = [alone(batch, row).data[0] for row in rows]
    return Batch(*(pad([data.tolist() for data in unpadded]) if batch.data.dim() == 2 else pad_images(unpadded)))


def padded(batch: Batch, more: int) -> Batch:
    """Return the same sources with more padding."""
    sides = (0, more) if batch.data.dim() == 2 else (0, more, 0, more)
    return Batch(F.pad(batch.data, sides), F.pad(data_keep(batch), sides, value=False).flatten(1))


def with_noise_in_padding(batch: Batch) -> Batch:
    """Return the same sources with random values in the padding."""
    text = batch.data.dim() == 2
    noise = torch.randint(0, EOS + 9, batch.data.shape) if text else torch.rand(batch.data.shape)
    return Batch(torch.where(data_keep(batch), batch.data, noise), batch.keep)


def repeated(batch: Batch, times: int) -> Batch:
    """Return one source, repeated."""
    return Batch(batch.data.expand(times, *batch.data.shape[1:]))


def beam_rows(rows: int, beams: int) -> Tensor:
    """Return the row indices that give each sentence `beams` hypotheses."""
    return torch.arange(rows).repeat_interleave(beams)


def tensors_of(value: State | Source) -> list[Tensor]:
    """Return every tensor of a state or a source."""
    memories: Iterable[Any] = value.memories.values() if isinstance(value, State) else value.memories
    own = [value.position, *value.tensors.values()] if isinstance(value, State) else [value.summary]
    parts = [part for memory in memories for part in (memory.keys, memory.values, memory.keep)]
    return own + [part for part in parts if part is not None]
