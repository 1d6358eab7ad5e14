"""Walk through a Transformer block with every number.

The block has small random weights, or is a layer of a trained model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from regard.attention import Attention, AttentionPositions
from regard.common.bilingual import Language, Text
from regard.common.errors import UsageError
from regard.common.requests import takes
from regard.data.batch import pad
from regard.data.text import clean
from regard.data.vocabulary import BOS, EOS
from regard.learn.lessons.block_steps import TEXTS, BlockSteps
from regard.learn.lessons.matrix_text import format_steps
from regard.learn.lessons.random_weights import (
    WordVocabulary,
    small_model,
    small_problems,
    small_sides,
)
from regard.learn.lessons.recording import Calls, record_calls
from regard.models import POSITIONS, Batch, Encoder, Model, select_device
from regard.models.transformer import TransformerDecoder, TransformerEncoder
from regard.pipeline import FolderTranslator, load
from regard.requests.walkthrough_request import SmallSettings, WalkthroughRequest
from regard.visualisation.number_boxes import Step
from regard.visualisation.steps_page import render_steps

LONGEST = 24
"""Largest number of tokens in a text."""
LONGEST_TOKEN = 40
"""Largest number of characters in a token; with random weights, each word is a token."""
SENTENCES = 4
"""Largest number of sentences in a batch."""
SEPARATOR = "|||"
"""Separates source and target in a sentence of `batch`."""
PAD_NAME = "<pad>"

Pair = tuple[str, str | None]
"""A source and its target; without a target (None), the source goes through the encoder alone."""


@dataclass(frozen=True, eq=False)
class BlockWalkthrough:
    """Every step of a Transformer block; `print` it, or write `page()` to a file."""

    title: Text
    summary: Text
    steps: tuple[Step, ...]
    is_batch: bool

    def __getitem__(self, key: str) -> Step:
        """Return a step by its key, such as "self.weights".

        Raises KeyError, which lists all keys, for an unknown key.
        """
        steps = {step.key: step for step in self.steps}
        if key not in steps:
            raise KeyError(f"there is no step {key!r}; there are {', '.join(steps)}")
        return steps[key]

    def text(self, language: Language = "en") -> str:
        """Return all steps as text for a terminal."""
        lines = [self.title.by(language), self.summary.by(language)]
        return "\n".join([*lines, *format_steps(self.steps, self.is_batch, language)])

    def page(self, language: Language = "en") -> str:
        """Return the HTML page, which steps through the numbers."""
        return render_steps(
            self.title, self.summary, self.steps, self.is_batch, language
        )

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"BlockWalkthrough of {len(self.steps)} steps: {self.summary.en}"


class _Vocabulary(Protocol):
    def encode(self, text: str) -> list[int]: ...
    def tokens(self, ids: Sequence[int]) -> list[str]: ...


@dataclass(frozen=True)
class _Setup:
    """The model to walk through, its vocabularies, the number of the layer, and a description."""

    model: Model
    source: _Vocabulary
    target: _Vocabulary
    layer: int
    has_source_end: bool  # the model was trained with an end token after the source
    causal: bool
    description: Text


@takes(WalkthroughRequest)
def walkthrough_block(request: WalkthroughRequest) -> BlockWalkthrough:
    """Walk through a Transformer block: tokens, embeddings, positions, attention, add & norm,
    feed-forward network.

    A text alone goes through an encoder layer, with `causal` through one with a causal mask. With a
    `target`, the text is the source, and the target, shifted right, goes through a decoder layer:
    masked self-attention, cross-attention, feed-forward network. `batch` adds sentences, in the
    form "source ||| target" if there is a target. The weights are small and random (`size`,
    `heads`, `feedforward`, `norm`, `score`, `unprojected`, `seed`), or those of `layer` of a
    trained `model`. Raises UsageError, which lists all causes.
    """
    model = request.model
    pairs, causes = _pairs(request.text, request.target, request.batch)
    causes += _problems(request)
    UsageError.raise_all(causes)
    if model is None:
        setup = _small_setup(request, pairs)
    else:
        number = 1 if request.layer is None else request.layer
        has_target = request.target is not None
        setup = _trained_setup(model, number, has_target, request.device)
    return _walk(setup, pairs, bool(request.batch))


def _pairs(
    text: str, target: str | None, batch: Sequence[str]
) -> tuple[list[Pair], list[str]]:
    """Return the sentences of the batch, and a sentence for each problem with them."""
    pairs: list[Pair] = [(clean(text), None if target is None else clean(target))]
    causes = list[str]()
    for line in batch:
        parts = [clean(part) for part in line.split(SEPARATOR)]
        if target is None and len(parts) == 1:
            pairs.append((parts[0], None))
        elif target is not None and len(parts) == 2:
            pairs.append((parts[0], parts[1]))
        else:
            wanted = "a text"
            if target is not None:
                wanted = f"a source and a target, SOURCE {SEPARATOR} TARGET"
            causes.append(f"`batch`: wanted {wanted}, got {line!r}")

    if any(not part for pair in pairs for part in pair if part is not None):
        causes.append(
            "there is an empty text, and so nothing to walk through; give one word or more"
        )
    if len(batch) >= SENTENCES:
        causes.append(
            f"`batch`: a batch of at most {SENTENCES} sentences is shown, got {len(batch) + 1}; "
            "leave some out"
        )
    return pairs, causes


def _problems(request: WalkthroughRequest) -> list[str]:
    """Return a sentence for each invalid option."""
    if request.model is not None:
        causes = []
        for name in request.set_values():
            if name == "causal":
                continue
            option = "`unprojected=True`" if name == "unprojected" else f"`{name}`"
            causes.append(
                f"{option}: a trained model has its own; leave {option} or `model` out"
            )
        if request.causal:
            causes.append(
                "`causal=True`: a trained encoder sees every token; give a target too: decoders "
                "are causal"
            )
        return causes
    causes = small_problems(request)
    if request.layer is not None:
        causes.append(
            "`layer`: random weights have one layer; give a `model` too, or leave it out"
        )
    return causes


def _small_setup(settings: SmallSettings, pairs: Sequence[Pair]) -> _Setup:
    """Build a small model with random weights for the words of the sentences."""
    source = WordVocabulary([source for source, _ in pairs])
    target = WordVocabulary([target for _, target in pairs if target is not None])

    values = small_sides(settings)
    norms = {
        "pre": TEXTS["descriptions.pre_norm"],
        "post": TEXTS["descriptions.post_norm"],
    }
    values["norms"] = norms[values["norm"]]
    values["score"] = TEXTS[f"steps.score_{values['score']}.title"]
    values["seed"] = settings.seed or 0
    values["plural"] = "s" if values["heads"] > 1 else ""
    description = TEXTS["descriptions.random"].fill(**values)
    if settings.unprojected:
        description += TEXTS["descriptions.unprojected"]

    return _Setup(
        small_model(settings, source, target),
        source,
        target,
        layer=0,
        has_source_end=False,
        causal=settings.causal,
        description=description,
    )


def _trained_setup(
    model: str | Path | FolderTranslator, layer: int, has_target: bool, device: str
) -> _Setup:
    """Load a trained model.

    Raises UsageError if it has no such layer, or is not a Transformer for translation.
    """
    translator = (
        model
        if isinstance(model, FolderTranslator)
        else load(model, select_device(device))
    )
    name = "the model" if isinstance(model, FolderTranslator) else str(model)
    if not isinstance(translator, FolderTranslator):
        raise UsageError(
            f"{name}: this model captions images; a walkthrough takes text through a Transformer: "
            "give a translator, or leave `model` out"
        )
    if not isinstance(translator.model, Model):
        raise UsageError("an ensemble has no one layer; give one of its models")

    settings = translator.settings.model
    kinds = {"encoder": settings.encoder.kind, "decoder": settings.decoder.kind}
    side = "decoder" if has_target else "encoder"
    if kinds[side] != "transformer":
        raise UsageError(
            f"{name}: wanted a Transformer {side}, and this model has a {kinds['encoder']} encoder "
            f"and a {kinds['decoder']} decoder; a text alone goes through the encoder, a source "
            "and a target through the decoder; `regard show` draws other models"
        )
    positions = POSITIONS[getattr(settings, side).positions]
    if settings.plugins or issubclass(positions, AttentionPositions):
        raise UsageError(
            f"{name}: a walkthrough has the formulas of the package's scores, the softmax and "
            "positions that are added to embeddings, and this model has others; `regard show` "
            "draws it"
        )
    count = len(getattr(translator.model, side).layers)
    if not 1 <= layer <= count:
        raise UsageError(f"`layer`: this {side} has layers 1 to {count}, got {layer}")

    is_path = not isinstance(model, FolderTranslator)
    description = TEXTS["descriptions.trained"].fill(
        name=Path(name).resolve().name if is_path else name,
        side=TEXTS[f"sides.{side}"],
        layer=layer,
        count=count,
    )
    return _Setup(
        translator.model.eval(),
        translator.tokenizer.source,
        translator.tokenizer.target,
        layer=layer - 1,
        has_source_end=True,
        causal=False,
        description=description,
    )


@torch.no_grad()
def _walk(setup: _Setup, pairs: Sequence[Pair], is_batch: bool) -> BlockWalkthrough:
    """Run the model once while its calls are recorded, and read the steps from the record."""
    ends = [EOS] if setup.has_source_end else []
    sources = [[*setup.source.encode(source), *ends] for source, _ in pairs]
    targets = [setup.target.encode(target) for _, target in pairs if target is not None]
    source_tokens = [setup.source.tokens(ids) for ids in sources]
    target_tokens = [setup.target.tokens(ids) for ids in targets]
    UsageError.raise_all(_length_problems([source_tokens, target_tokens]))

    model = setup.model
    device = setup.model.device
    batch = Batch.of(sources, device)
    encoder = model.encoder
    source_names = _padded(source_tokens)
    with record_calls(model) as calls, _causal(encoder if setup.causal else None):
        if targets:
            inputs = pad([[BOS, *ids] for ids in targets])[0].to(device)
            model.project(model(batch, inputs))
        else:
            encoder(batch)

    if targets:
        title = TEXTS["titles.decoder"]
        steps = _decoder_steps(setup, calls, source_names, targets)
    else:
        title = TEXTS["titles.causal" if setup.causal else "titles.encoder"]
        steps = _encoder_steps(setup, calls, source_names, sources)
    return BlockWalkthrough(title, _summary(setup, pairs), tuple(steps), is_batch)


def _encoder_steps(
    setup: _Setup, calls: Calls, names: list[list[str]], ids: Sequence[Sequence[int]]
) -> list[Step]:
    encoder = setup.model.encoder
    assert isinstance(encoder, TransformerEncoder), "checked with the options"
    steps = BlockSteps(calls, names)
    layers = encoder.layers
    id_texts = _padded([[str(index) for index in row] for row in ids], "0")
    rows = [
        (TEXTS["labels.position"], _positions(names)),
        (TEXTS["labels.read"], names),
        (TEXTS["labels.id"], id_texts),
    ]
    steps.tokens(rows, "tokens")
    _input_steps(steps, encoder, setup.layer)
    steps.encoder_layer(layers[setup.layer], setup.causal)
    if setup.layer == len(layers) - 1:
        steps.final_norm(encoder.norm)
    return steps.steps


def _decoder_steps(
    setup: _Setup,
    calls: Calls,
    source_names: list[list[str]],
    targets: Sequence[Sequence[int]],
) -> list[Step]:
    decoder = setup.model.decoder
    encoder = setup.model.encoder
    assert isinstance(decoder, TransformerDecoder), "checked with the options"
    names = _padded([setup.target.tokens([BOS, *ids]) for ids in targets])
    predicted = _padded([setup.target.tokens([*ids, EOS]) for ids in targets])
    steps = BlockSteps(calls, names)
    layers = decoder.layers
    steps.source(calls[encoder].output.outputs, source_names)
    rows = [
        (TEXTS["labels.position"], _positions(names)),
        (TEXTS["labels.read"], names),
        (TEXTS["labels.predicted"], predicted),
    ]
    steps.tokens(rows, "shifted")
    _input_steps(steps, decoder, setup.layer)
    steps.decoder_layer(layers[setup.layer], source_names)
    if setup.layer == len(layers) - 1:
        steps.final_norm(decoder.norm)
        predicted_ids = [[*ids, EOS] for ids in targets]
        steps.prediction(decoder.output, predicted_ids, setup.target.tokens)
    return steps.steps


def _input_steps(
    steps: BlockSteps, side: TransformerEncoder | TransformerDecoder, layer: int
) -> None:
    """Append embeddings and positions, and the input of a layer that is not the first."""
    steps.embeddings(side.input_embedding)
    if layer > 0:
        steps.earlier_layers(side.layers[layer], layer + 1)


def _length_problems(sides: Sequence[Sequence[Sequence[str]]]) -> list[str]:
    """Return a sentence for each text that is too long to be shown.

    `sides` are the tokens of the sources and those of the targets.
    """
    names = ("source", "target") if sides[1] else ("text", "")
    causes = list[str]()
    for name, side in zip(names, sides, strict=True):
        for tokens in side:
            if len(tokens) > LONGEST:
                causes.append(
                    f"the {name} has {len(tokens)} tokens; a walkthrough shows up to {LONGEST}: "
                    "give a shorter one"
                )
            longest = max(map(len, tokens), default=0)
            if longest > LONGEST_TOKEN:
                causes.append(
                    f"the {name} has a word of {longest} characters; up to {LONGEST_TOKEN} are "
                    "shown: shorten it"
                )
    return causes


def _padded(rows: Sequence[list[str]], padding: str = PAD_NAME) -> list[list[str]]:
    """Pad rows of token names to equal length, as the batch is padded."""
    longest = max(map(len, rows))
    return [[*row, *[padding] * (longest - len(row))] for row in rows]


def _positions(names: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[str(position) for position in range(len(row))] for row in names]


@contextmanager
def _causal(encoder: Encoder | None) -> Iterator[None]:
    """Make the self-attention of an encoder causal inside the `with` block, unless it is None."""

    def add_causal(
        _: Attention, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[object, dict[str, object]]:
        return args, {**kwargs, "causal": True}

    layers = encoder.layers if isinstance(encoder, TransformerEncoder) else ()
    handles = [
        layer.self_attention.register_forward_pre_hook(add_causal, with_kwargs=True)
        for layer in layers
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _summary(setup: _Setup, pairs: Sequence[Pair]) -> Text:
    sentences = "; ".join(
        source if target is None else f"{source} → {target}" for source, target in pairs
    )
    return Text(f"{sentences} · ", f"{sentences} · ") + setup.description
