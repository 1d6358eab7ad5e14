"""Architecture of a model as a diagram shows it: parts with their weights, and weights by kind,
from its modules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
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

Count = Callable[..., int]  # of the weights of modules, see `_count`
STATES = (("V: states", "K: states", "Q: state"), ("scores, softmax, Σ",))
"""Labels of the boxes inside the attention of a model without heads."""
# Their inner linear layers are counted with them.
WHOLE = (Cell, GatedConvolution, Score)


def describe_architecture(
    settings: ModelSettings,
    vocabularies: tuple[int, int],
    joint: bool,
    title: str,
    image: Sequence[int] = (0, 0),
) -> Architecture:
    """Describe a model of these settings; its weights are counted, not made. `image`: height and
    width, if known.
    """
    with torch.device("meta"):
        model = build(settings, *vocabularies, joint)
    seen = set[int]()
    recurrent = partial(
        _recurrent,
        start="last states"
        if settings.encoder.kind == "recurrent"
        else "mean of outputs",
    )
    describe: dict[str, Any] = {
        "recurrent": recurrent,
        "no_attention": recurrent,
        "transformer": _transformer,
    }
    describe["convolutional"] = _convolutional
    sides = []
    for side, size in zip(("encoder", "decoder"), vocabularies, strict=True):
        part_settings: Any = getattr(settings, side)
        describe_side = describe.get(
            part_settings.kind, partial(_image_encoder, image=image)
        )
        sides.append(describe_side(getattr(model, side), part_settings, size, seen))
    notes = [
        words(
            "vocabulary: {sizes} tokens",
            sizes=", ".join(f"{n:,}" for n in dict.fromkeys(vocabularies)),
        )
    ]
    shared = settings.resolved_share(joint)
    if shared != "none":
        both = (
            "source, target and output share one table"
            if shared == "all"
            else "target and output share one table"
        )
        notes.append(words(f"embeddings: {both}, counted once"))
    encoder, decoder = map(tuple, sides)
    return Architecture(title, encoder, decoder, weights_by_kind(model), tuple(notes))


def weights_by_kind(model: Model) -> tuple[tuple[str, int], ...]:
    """Count weights by the kind of the layer that they belong to, shared ones once; the largest
    kind first.
    """
    counts = Counter[str]()
    seen = set[int]()

    def add(module: nn.Module, whole: str | None) -> None:
        kind = whole or _kind(module)
        counts[kind] += _count(seen, module, recurse=False)
        for child in module.children():
            add(child, whole or (kind if isinstance(module, WHOLE) else None))

    add(model, None)
    return tuple((+counts).most_common())


def _kind(module: nn.Module) -> str:
    """Return the kind of a layer; the linear layers inside a cell, a convolution or a score are
    part of it.
    """
    kinds: dict[str, tuple[type, ...]] = {
        "embedding": (Embedding,),
        "positions": (LearnedPositions,),
        "recurrent": (Cell, nn.RNNBase),
        "convolution": (GatedConvolution, nn.Conv1d, nn.Conv2d),
        "norm": (nn.LayerNorm, nn.GroupNorm, BatchNorm, FrozenBatchNorm),
        "attention score": (Score,),
        "linear": (nn.Linear, WeightNormLinear, OutputProjection),
    }
    return next(
        (name for name, types in kinds.items() if isinstance(module, types)), "other"
    )


def _count(seen: set[int], *modules: nn.Module | None, recurse: bool = True) -> int:
    """Count the weights of modules, those that were `seen` before left out."""
    parameters = [
        p
        for module in modules
        if module is not None
        for p in module.parameters(recurse)
    ]
    sizes = {
        id(parameter): parameter.numel()
        for parameter in parameters
        if id(parameter) not in seen
    }
    seen.update(sizes)
    return sum(sizes.values())


def _single(
    name: str, detail: str = "", weights: int = 0, role: Role = "sublayer", **more: Any
) -> Stack:
    return Stack((Part(name, detail, weights, role, **more),))


def _input(
    side: Any, settings: Any, vocabulary: int, count: Count, positions: str
) -> Stack:
    """The token embedding, and the positions that are added to it."""
    embedding = Part(
        "embedding",
        f"{vocabulary:,} × {settings.embedding}",
        count(side.embedding),
        "input",
    )
    if positions == "none":
        return Stack((embedding,))
    entry = getattr(side, "input_embedding", None)
    weights = count(None if entry is None else entry.position_embedding)
    return Stack((embedding, Part("+ positions", positions, weights, "input")))


def _output(side: Any, vocabulary: int, count: Count) -> Stack:
    size = side.output.weight.shape[1]
    return _single(
        "linear, softmax", f"{size} → {vocabulary:,}", count(side.output), "output"
    )


def _each(layers: Any, name: str, count: Count) -> int:
    """Count one sublayer in all layers."""
    return count(*(getattr(layer, name) for layer in layers))


def _transformer(
    side: Any, settings: Any, vocabulary: int, seen: set[int]
) -> list[Stack]:
    count = partial(_count, seen)
    s = settings
    is_decoder = hasattr(side, "output")
    score = f"Q·K / √{s.size // s.heads}" if s.score == "scaled_dot" else s.score
    inside = (
        tuple(f"{letter}: {s.heads} × {s.size // s.heads}" for letter in "VKQ"),
        (f"{s.heads} × ({score}, softmax, Σ·V)",),
    )
    own = "masked self-attention" if is_decoder and s.causal else "self-attention"
    attention: dict[str, Any] = {
        "detail": "joined, WO",
        "role": "attention",
        "opens": inside,
    }
    sublayers = {"self_attention": Part(own, **attention)}
    if is_decoder:
        sublayers["cross_attention"] = Part(
            "cross-attention", source="keys, values", **attention
        )
    sublayers["feedforward"] = Part("feed-forward", f"{s.feedforward}, {s.activation}")
    parts = list[Part]()
    for name, part in sublayers.items():
        sublayer = replace(part, weights=_each(side.layers, name, count))
        parts += _with_residual(
            sublayer, s, _each(side.layers, f"{name}_residual", count)
        )
    stacks = [
        _input(side, s, vocabulary, count, s.positions),
        Stack(tuple(parts), s.layers),
    ]
    if s.has_final_norm:
        stacks.append(_single("norm", "layer", count(side.norm), "norm"))
    return [*stacks, _output(side, vocabulary, count)] if is_decoder else stacks


def _with_residual(sublayer: Part, settings: Any, weights: int) -> Iterator[Part]:
    """Yield a sublayer with its residual connection and norm, in their order."""
    kind = {"pre": "layer", "post": "layer", "batch": "batch", "none": ""}[
        settings.norm
    ]
    add = "add" if settings.residual else ""
    if settings.norm == "pre":
        yield Part("norm", kind, weights, "norm")
    yield sublayer
    if settings.norm == "pre":
        yield from [Part(add, "", 0, "norm", around=2)] if add else []
    elif kind or add:
        name = " & ".join(filter(None, (add, "norm" if kind else "")))
        yield Part(name, kind, weights, "norm", around=int(settings.residual))


def _recurrent(
    side: Any, settings: Any, vocabulary: int, seen: set[int], start: str
) -> list[Stack]:
    """Describe a recurrent encoder or decoder; `start`: what of the encoder the first state is
    computed from.
    """
    count = partial(_count, seen)
    s = settings
    cell = {"tanh": "RNN (tanh)"}.get(s.cell, s.cell.upper())
    entry = _input(side, s, vocabulary, count, "none")
    if not hasattr(side, "output"):
        directions = "2 × " if s.bidirectional else ""
        name = words("bidirectional {cell}", cell=cell) if s.bidirectional else cell
        return [
            entry,
            Stack(
                (Part(name, f"{directions}{s.size}", count(side.layers), before=0),),
                s.layers,
            ),
        ]
    bridge = _single(
        "bridge",
        "first state, tanh",
        count(side.bridges),
        "norm",
        source=start,
        is_first=True,
    )
    context = getattr(s, "context", "") == "every"
    attends = s.kind != "no_attention"
    # It attends by the state of the step before.
    is_before = attends and s.order == "bahdanau"
    sizes = words("{size}, + context", size=s.size) if context else str(s.size)
    around = 1 + is_before  # the embedding goes into the cells alone
    recurs = {"around": around, "before": int(is_before), "source": start * context}
    cells = Stack((Part(cell, sizes, count(side.cells), **recurs),), s.layers)
    also, feeds = (
        (((2, 4) if is_before else (2,)), s.order == "luong_input_feeding")
        if attends
        else ((), False)
    )
    middle = [cells]
    weights = count(side.readout)
    if attends:
        own = count(
            getattr(side, "context_proj", None),
            getattr(side, "gate", None),
            side.cross_attention,
        )
        score = words("{score}, input feeding", score=s.score) if feeds else s.score
        attention = _single(
            "attention", score, own, "attention", source="keys, values", opens=STATES
        )
        middle = [attention, cells] if is_before else [cells, attention]
    readout = _single(
        "readout, tanh",
        f"→ {s.embedding}",
        weights,
        also=also,
        before=2 if feeds else None,
    )
    return [entry, bridge, *middle, readout, _output(side, vocabulary, count)]


def _convolutional(
    side: Any, settings: Any, vocabulary: int, seen: set[int]
) -> list[Stack]:
    count = partial(_count, seen)
    s = settings
    is_decoder = hasattr(side, "output")
    layers = side.layers
    widen = _single("linear", f"{s.embedding} → {s.size}", count(side.widen))
    narrow = _single("linear", f"{s.size} → {s.embedding}", count(side.narrow))
    detail = words("kernel {size}, GLU", size=s.kernel_size)
    if not is_decoder:
        inner = Stack(
            (
                Part("convolution", detail, count(layers)),
                Part("add", "", 0, "norm", around=1),
            ),
            s.layers,
        )
        return [_input(side, s, vocabulary, count, "learned"), widen, inner, narrow]
    attention = count(
        *(
            m
            for layer in layers
            for m in (layer.query_in, layer.cross_attention, layer.context_out)
        )
    )
    parts = (
        Part("causal convolution", detail, _each(layers, "convolution", count)),
        Part(
            "attention", s.score, attention, "attention", "keys, values", opens=STATES
        ),
        Part("add", "", 0, "norm", around=2, also=(2,)),
    )
    fitted = count(side.fit_target, side.fit_source)
    entry = _input(side, s, vocabulary, count, "learned")
    fit = [_single("linear", "to the encoder's size", fitted)] if fitted else []
    return [
        entry,
        *fit,
        widen,
        Stack(parts, s.layers),
        narrow,
        _output(side, vocabulary, count),
    ]


def _image_encoder(
    side: Any, settings: Any, _: int, seen: set[int], image: Sequence[int]
) -> list[Stack]:
    """Describe an image encoder: the image, its backbone, and the grid of cells, the last of which
    may hang over.
    """
    count = partial(_count, seen)
    s = settings
    # Rows and columns, if known.
    cells = tuple(-(-n // side.stride) for n in image) * all(image)
    pixels, grid = (
        " × ".join(map(str, sizes)) for sizes in (tuple(image) * all(image), cells)
    )
    stacks = [
        _single(
            "image",
            words("{size} pixels", size=pixels) if pixels else "pixels",
            0,
            "input",
        )
    ]
    if s.kind == "resnet":
        backbone = side.backbone
        stem = words("stem, {width} channels", width=s.width)
        stacks.append(_single("convolution", stem, count(backbone.conv1, backbone.bn1)))
        for stage, depth in enumerate(s.depths):
            blocks = count(getattr(backbone, f"layer{stage + 1}"))
            detail = f"{depth} × {s.block}, {s.width * 2**stage}"
            stacks.append(
                _single(words("stage {number}", number=stage + 1), detail, blocks)
            )
    elif s.kind == "vit":
        detail = words("{side} × {side} pixels", side=s.patch_size)
        stacks.append(_single("patches, linear", detail, count(side.patch_embedding)))
    else:
        stacks.append(
            _single("backbone", str(getattr(s, "name", s.kind)), count(side.backbone))
        )
    named = ("backbone", "patch_embedding", "grid_head")
    if rest := [module for name, module in side.named_children() if name not in named]:
        stacks.append(
            _single("linear", words("→ {size}, norm", size=s.size), count(*rest))
        )
    head = side.grid_head
    cell = words("{size} × {size} pixels each", size=side.stride)
    name = words("{grid} cells", grid=grid) if grid else "grid of cells"
    stacks.append(_single(name, cell, 0, "input", cells=cells))
    if s.positions != "none":
        stacks.append(
            _single("+ positions", s.positions, count(head.position_embedding), "input")
        )
    if s.layers:
        name = "self-attention, feed-forward"
        detail = f"{s.heads} × {s.size // s.heads}, {s.feedforward}"
        stacks.append(
            Stack((Part(name, detail, count(head.layers), "attention"),), s.layers)
        )
        stacks.append(_single("norm", "layer", count(head.norm), "norm"))
    return stacks
