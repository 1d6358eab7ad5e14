"""Describe the architecture of a model for its diagram: encoder and decoder as parts with their
numbers of weights, and the numbers of weights by kind of layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.attention.scores import Score
from regard.layers.cells import Cell
from regard.layers.convolution import GatedConvolution, WeightNormLinear
from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.positional_encoding import LearnedPositions
from regard.layers.residual import BatchNorm
from regard.layers.resnet import FrozenBatchNorm
from regard.models import Model, ModelSettings, build
from regard.visualisation.architecture_diagram import Architecture, Part, Role, Stack
from regard.visualisation.language import words

STATES = ("V: states", "K: states", "Q: state")
"""Labels of the boxes inside the attention of a model without heads."""
KINDS: dict[str, tuple[type, ...]] = {
    "embedding": (Embedding,),
    "positions": (LearnedPositions,),
    "recurrent": (Cell, nn.RNNBase),
    "convolution": (GatedConvolution, nn.Conv1d, nn.Conv2d),
    "norm": (nn.LayerNorm, nn.GroupNorm, BatchNorm, FrozenBatchNorm),
    "attention score": (Score,),
    "linear": (nn.Linear, WeightNormLinear, OutputProjection),
}
"""Layers of each kind in the table of weights; all others are of the kind "other"."""
COMPOSITE = (Cell, GatedConvolution, Score)
"""Layers whose inner linear layers count as weights of their own kind."""


class WeightCounter:
    """Counter of the weights of modules; shared weights are counted only the first time."""

    def __init__(self) -> None:
        self._counted = set[int]()

    def __call__(self, *modules: nn.Module | None, recurse: bool = True) -> int:
        """Return the number of weights not counted before; None stands for an absent module."""
        total = 0
        for module in modules:
            if module is None:
                continue
            for parameter in module.parameters(recurse):
                if id(parameter) not in self._counted:
                    self._counted.add(id(parameter))
                    total += parameter.numel()
        return total


def describe_architecture(
    settings: ModelSettings,
    vocabularies: tuple[int, int],
    joint: bool,
    title: str,
    image: Sequence[int] = (0, 0),
) -> Architecture:
    """Describe a model of these settings; no memory is allocated for its weights.

    `vocabularies`: sizes of the source and target vocabulary; `joint`: both sides have the same
    one. `image`: height and width in pixels, zeros if unknown.
    """
    with torch.device("meta"):
        model = build(settings, *vocabularies, joint)
    count = WeightCounter()
    encoder_settings: Any = settings.encoder
    decoder_settings: Any = settings.decoder
    is_recurrent = encoder_settings.kind == "recurrent"
    first_state = "last states" if is_recurrent else "mean of outputs"
    encoder: list[Stack]
    if is_recurrent:
        encoder = _recurrent_encoder(
            model.encoder, encoder_settings, vocabularies[0], count
        )
    elif encoder_settings.kind in BOTH_SIDES:
        describe = BOTH_SIDES[encoder_settings.kind]
        encoder = describe(model.encoder, encoder_settings, vocabularies[0], count)
    else:
        encoder = _image_encoder(model.encoder, encoder_settings, count, image)
    if decoder_settings.kind in BOTH_SIDES:
        describe = BOTH_SIDES[decoder_settings.kind]
        decoder = describe(model.decoder, decoder_settings, vocabularies[1], count)
    else:
        decoder = _recurrent_decoder(
            model.decoder, decoder_settings, vocabularies[1], count, first_state
        )
    return Architecture(
        title,
        tuple(encoder),
        tuple(decoder),
        weights_by_kind(model),
        _notes(settings, vocabularies, joint),
    )


def _notes(
    settings: ModelSettings, vocabularies: tuple[int, int], joint: bool
) -> tuple[str, ...]:
    """Describe the vocabularies, and the embeddings that share a table."""
    sizes = ", ".join(f"{size:,}" for size in dict.fromkeys(vocabularies))
    notes = [words("vocabulary: {sizes} tokens", sizes=sizes)]
    shared = settings.resolved_share(joint)
    if shared != "none":
        if shared == "all":
            sharing = "source, target and output share one table"
        else:
            sharing = "target and output share one table"
        notes.append(words(f"embeddings: {sharing}, counted once"))
    return tuple(notes)


def weights_by_kind(model: Model) -> tuple[tuple[str, int], ...]:
    """Count weights by the kind of their layer, largest kind first; shared weights count once."""
    counts = Counter[str]()
    count = WeightCounter()

    def add(module: nn.Module, composite_kind: str | None) -> None:
        kind = composite_kind or _kind(module)
        counts[kind] += count(module, recurse=False)
        if isinstance(module, COMPOSITE):
            composite_kind = kind
        for child in module.children():
            add(child, composite_kind)

    add(model, None)
    return tuple((+counts).most_common())


def _kind(module: nn.Module) -> str:
    for kind, types in KINDS.items():
        if isinstance(module, types):
            return kind
    return "other"


def _single(
    name: str,
    detail: str = "",
    weights: int = 0,
    role: Role = "sublayer",
    **fields: Any,
) -> Stack:
    """Return a stack of one part that is not repeated."""
    return Stack((Part(name, detail, weights, role, **fields),))


def _input(
    side: Any, settings: Any, vocabulary: int, count: WeightCounter, positions: str
) -> Stack:
    """Describe the token embedding and the positional encoding that is added to it."""
    size = f"{vocabulary:,} × {settings.embedding}"
    embedding = Part("embedding", size, count(side.embedding), "input")
    if positions == "none":
        return Stack((embedding,))
    input_embedding = getattr(side, "input_embedding", None)
    weights = 0
    if input_embedding is not None:
        weights = count(input_embedding.position_embedding)
    return Stack((embedding, Part("+ positions", positions, weights, "input")))


def _output(side: Any, vocabulary: int, count: WeightCounter) -> Stack:
    size = side.output.weight.shape[1]
    return _single(
        "linear, softmax", f"{size} → {vocabulary:,}", count(side.output), "output"
    )


def _count_sublayer(layers: Any, name: str, count: WeightCounter) -> int:
    """Count the weights of one sublayer in all layers."""
    return count(*(getattr(layer, name) for layer in layers))


def _transformer(
    side: Any, settings: Any, vocabulary: int, count: WeightCounter
) -> list[Stack]:
    """Describe a Transformer encoder or decoder."""
    is_decoder = hasattr(side, "output")
    heads = settings.heads
    head_size = settings.size // heads
    score = settings.score
    if score == "scaled_dot":
        score = f"Q·K / √{head_size}"
    projections = tuple(f"{letter}: {heads} × {head_size}" for letter in "VKQ")
    attention: dict[str, Any] = {
        "detail": "joined, WO",
        "role": "attention",
        "opens": (projections, (f"{heads} × ({score}, softmax, Σ·V)",)),
    }

    is_masked = is_decoder and settings.causal
    self_attention = "masked self-attention" if is_masked else "self-attention"
    sublayers = {"self_attention": Part(self_attention, **attention)}
    if is_decoder:
        sublayers["cross_attention"] = Part(
            "cross-attention", source="keys, values", **attention
        )
    sublayers["feedforward"] = Part(
        "feed-forward", f"{settings.feedforward}, {settings.activation}"
    )
    parts = list[Part]()
    for name, part in sublayers.items():
        weights = _count_sublayer(side.layers, name, count)
        residual = _count_sublayer(side.layers, f"{name}_residual", count)
        parts += _with_residual(replace(part, weights=weights), settings, residual)

    stacks = [
        _input(side, settings, vocabulary, count, settings.positions),
        Stack(tuple(parts), settings.layers),
    ]
    if settings.has_final_norm:
        stacks.append(_single("norm", "layer", count(side.norm), "norm"))
    if is_decoder:
        stacks.append(_output(side, vocabulary, count))
    return stacks


def _with_residual(sublayer: Part, settings: Any, weights: int) -> Iterator[Part]:
    """Yield a sublayer with its residual connection and norm, in their order."""
    kinds = {"pre": "layer", "post": "layer", "batch": "batch", "none": ""}
    kind = kinds[settings.norm]
    add = "add" if settings.residual else ""
    if settings.norm == "pre":
        yield Part("norm", kind, weights, "norm")
    yield sublayer
    if settings.norm == "pre":
        if add:
            yield Part(add, "", 0, "norm", around=2)
    elif kind or add:
        name = " & ".join(filter(None, (add, "norm" if kind else "")))
        yield Part(name, kind, weights, "norm", around=int(settings.residual))


def _cell_name(settings: Any) -> str:
    return "RNN (tanh)" if settings.cell == "tanh" else str(settings.cell.upper())


def _recurrent_encoder(
    side: Any, settings: Any, vocabulary: int, count: WeightCounter
) -> list[Stack]:
    """Describe a recurrent encoder."""
    embedding = _input(side, settings, vocabulary, count, "none")
    name = _cell_name(settings)
    size = str(settings.size)
    if settings.bidirectional:
        name = words("bidirectional {cell}", cell=name)
        size = f"2 × {size}"
    cells = Part(name, size, count(side.layers), before=0)
    return [embedding, Stack((cells,), settings.layers)]


def _recurrent_decoder(
    side: Any, settings: Any, vocabulary: int, count: WeightCounter, first_state: str
) -> list[Stack]:
    """Describe a recurrent decoder, with or without attention.

    `first_state`: the output of the encoder from which the first state is computed.
    """
    attends = settings.kind != "no_attention"
    attends_first = attends and settings.order == "bahdanau"
    feeds_input = attends and settings.order == "luong_input_feeding"
    has_context = getattr(settings, "context", "") == "every"

    embedding = _input(side, settings, vocabulary, count, "none")
    bridge = _single(
        "bridge",
        "first state, tanh",
        count(side.bridges),
        "norm",
        source=first_state,
        is_first=True,
    )
    size = str(settings.size)
    if has_context:
        size = words("{size}, + context", size=size)
    # The embedding bypasses the bridge and, in the order of Bahdanau, the attention. In that order
    # the new state enters the attention of the next step, and otherwise the cells.
    cell = Part(
        _cell_name(settings),
        size,
        count(side.cells),
        source=first_state if has_context else "",
        around=2 if attends_first else 1,
        before=1 if attends_first else 0,
    )
    cells = Stack((cell,), settings.layers)
    readout_weights = count(side.readout)

    middle = [cells]
    readout_inputs: tuple[int, ...] = ()
    if attends:
        attention = _recurrent_attention(side, settings, count, feeds_input)
        middle = [attention, cells] if attends_first else [cells, attention]
        # Bahdanau: context vector and embedding; Luong: state.
        readout_inputs = (2, 4) if attends_first else (2,)
    readout = _single(
        "readout, tanh",
        f"→ {settings.embedding}",
        readout_weights,
        also=readout_inputs,
        before=2 if feeds_input else None,
    )
    return [embedding, bridge, *middle, readout, _output(side, vocabulary, count)]


def _recurrent_attention(
    side: Any, settings: Any, count: WeightCounter, feeds_input: bool
) -> Stack:
    """Describe the attention of a recurrent decoder, with its context projection and gate."""
    weights = count(
        getattr(side, "context_proj", None),
        getattr(side, "gate", None),
        side.cross_attention,
    )
    return Stack((_opened_attention(settings.score, weights, feeds_input),))


def _opened_attention(score: str, weights: int, feeds_input: bool = False) -> Part:
    """Describe an attention of one head, whose values bypass its scores."""
    return Part(
        "attention",
        "Σ, input feeding" if feeds_input else "weighted sum Σ",
        weights,
        "attention",
        "keys, values",
        opens=(STATES, ("", words("score: {score}, softmax", score=score))),
    )


def _convolutional(
    side: Any, settings: Any, vocabulary: int, count: WeightCounter
) -> list[Stack]:
    """Describe a convolutional encoder or decoder."""
    is_decoder = hasattr(side, "output")
    embedding_size = settings.embedding
    size = settings.size
    widen = _single("linear", f"{embedding_size} → {size}", count(side.widen))
    narrow = _single("linear", f"{size} → {embedding_size}", count(side.narrow))
    detail = words("kernel {size}, GLU", size=settings.kernel_size)
    if not is_decoder:
        convolution = Part("convolution", detail, count(side.layers))
        add = Part("add", "", 0, "norm", around=1)
        layers = Stack((convolution, add), settings.layers)
        embedding = _input(side, settings, vocabulary, count, "learned")
        return [embedding, widen, layers, narrow]

    attention_modules = list[nn.Module]()
    for layer in side.layers:
        attention_modules += (layer.query_in, layer.cross_attention, layer.context_out)
    attention = _opened_attention(settings.score, count(*attention_modules))
    convolution_weights = _count_sublayer(side.layers, "convolution", count)
    convolution = Part("causal convolution", detail, convolution_weights)
    add = Part("add", "", 0, "norm", around=2, also=(2,))
    layers = Stack((convolution, attention, add), settings.layers)

    fitted = count(side.fit_target, side.fit_source)
    stacks = [_input(side, settings, vocabulary, count, "learned")]
    if fitted:
        stacks.append(_single("linear", "to the encoder's size", fitted))
    return [*stacks, widen, layers, narrow, _output(side, vocabulary, count)]


def _image_encoder(
    side: Any, settings: Any, count: WeightCounter, image: Sequence[int]
) -> list[Stack]:
    """Describe an image encoder: the image, its backbone, and the grid of cells.

    The last row and column of cells may extend beyond the image.
    """
    pixels = ""
    cells: tuple[int, ...] = ()
    if all(image):
        pixels = " × ".join(map(str, image))
        cells = tuple(-(-length // side.stride) for length in image)
    size = words("{size} pixels", size=pixels) if pixels else "pixels"
    stacks = [_single("image", size, 0, "input")]
    stacks += _backbone(side, settings, count)

    counted_alone = ("backbone", "patch_embedding", "grid_head")
    projection = [
        module for name, module in side.named_children() if name not in counted_alone
    ]
    if projection:
        detail = words("→ {size}, norm", size=settings.size)
        stacks.append(_single("linear", detail, count(*projection)))

    head = side.grid_head
    cell_size = words("{size} × {size} pixels each", size=side.stride)
    name = "grid of cells"
    if cells:
        name = words("{grid} cells", grid=" × ".join(map(str, cells)))
    stacks.append(_single(name, cell_size, 0, "input", cells=cells))
    if settings.positions != "none":
        weights = count(head.position_embedding)
        stacks.append(_single("+ positions", settings.positions, weights, "input"))
    if settings.layers:
        head_size = settings.size // settings.heads
        detail = f"{settings.heads} × {head_size}, {settings.feedforward}"
        layers = Part(
            "self-attention, feed-forward", detail, count(head.layers), "attention"
        )
        stacks.append(Stack((layers,), settings.layers))
        stacks.append(_single("norm", "layer", count(head.norm), "norm"))
    return stacks


def _backbone(side: Any, settings: Any, count: WeightCounter) -> Iterator[Stack]:
    """Yield the network from pixels to the features of cells."""
    if settings.kind == "resnet":
        backbone = side.backbone
        stem = words("stem, {width} channels", width=settings.width)
        yield _single("convolution", stem, count(backbone.conv1, backbone.bn1))
        for stage, depth in enumerate(settings.depths):
            weights = count(getattr(backbone, f"layer{stage + 1}"))
            detail = f"{depth} × {settings.block}, {settings.width * 2**stage}"
            yield _single(words("stage {number}", number=stage + 1), detail, weights)
    elif settings.kind == "vit":
        detail = words("{side} × {side} pixels", side=settings.patch_size)
        yield _single("patches, linear", detail, count(side.patch_embedding))
    else:
        name = str(getattr(settings, "name", settings.kind))
        yield _single("backbone", name, count(side.backbone))


BOTH_SIDES = {"transformer": _transformer, "convolutional": _convolutional}
"""Descriptions of encoders and decoders by their kind, if both sides have the same one."""
