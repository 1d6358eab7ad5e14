"""Explain one translation or caption: attention of every head, the search trace, and attributions
(saliency).

The search records its trace. Then the model is forced to the output: once for the attention, and
once more for the states of a recurrent model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.attention.alignment import Readings
from regard.common.errors import RegardError
from regard.common.shapes import Tensor
from regard.data.vocabulary import BOS, EOS
from regard.evaluation.faithfulness import measure_faithfulness
from regard.explain.unread_words import unread_words
from regard.models import Batch, Decoder, Model, State
from regard.models.recurrent import (
    NoAttentionDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
)
from regard.pipeline import (
    AlignmentChoice,
    Caption,
    Captioner,
    FolderTranslator,
    ImageInput,
    Translation,
    default_choice,
)
from regard.search.search_steps import SearchStep
from regard.visualisation import Overlay, SourceImage
from regard.visualisation.explanation_data import (
    Attributions,
    ExplanationData,
    ShownHead,
    TokenAttention,
)
from regard.visualisation.language import words
from regard.visualisation.states import States
from regard.visualisation.translation_json import Role, step_json


@dataclass(frozen=True)
class Explanation:
    """A translation, and the data that its page and player draw."""

    translation: Translation
    data: ExplanationData


def explain(
    translator: FolderTranslator,
    text: str,
    beam: int | None = None,
    attributions: bool = True,
) -> Explanation:
    """Translate a line and explain the translation.

    `attributions` adds gradient × input and erasure, unless the translator is an ensemble. The
    explanation of a recurrent model has its states too; that of a model without attention has only
    states and search. Raises UsageError for a line without letters, and for a line that is split.
    """
    translation, steps = translator.trace(text, beam=beam)
    readings = _readings(translation)
    if not translation.text:
        raise RegardError(
            "the translation is empty, so there is nothing to draw; show another line, or train "
            "longer"
        )
    measured = None
    if attributions and readings.layers("cross"):
        measured = _attributions(translator, text, translation, readings)
    unread: tuple[int, ...] = ()
    if readings.layers("cross"):
        choice = alignment_choice(translator, readings)
        unread = unread_words(translator, text, translation, choice, beam)
    data = _data(
        translator,
        readings,
        translation.ids,
        steps,
        readings.source_text,
        attributions=measured,
        unread=unread,
        states=_states(translator, text, translation),
    )
    return Explanation(translation, data)


def explain_caption(
    captioner: Captioner, image: ImageInput, beam: int | None = None
) -> tuple[Caption, ExplanationData]:
    """Caption an image; return the caption and the data that its page draws.

    If the captioner has no attention, the data hold only the search.
    """
    caption, steps = captioner.trace(image, beam=beam)
    readings = _readings(caption)
    assert readings.grid is not None, "a captioner attends to a grid of cells"
    if not caption.text:
        raise RegardError(
            "the caption is empty, so there is nothing to draw; show another image, or train longer"
        )
    view = SourceImage(
        captioner.model_view(image),
        readings.grid,
        readings.cell_centre,
        readings.cell_extent,
    )
    cells = readings.source_text
    return caption, _data(captioner, readings, caption.ids, steps, cells, image=view)


def _data(
    pipeline: FolderTranslator | Captioner,
    readings: Readings,
    ids: Sequence[int],
    steps: Sequence[SearchStep],
    source: tuple[str, ...],
    **fields: Any,
) -> ExplanationData:
    """Return the data of a translation or a caption; `fields` are those that only one of them
    has.
    """
    shown = ShownHead(0)
    layers = readings.layers("cross")
    if layers:
        choice = alignment_choice(pipeline, readings)
        shown = ShownHead(layers.index(choice.layer), choice.head, choice.shifted)
    vocabulary = pipeline.tokenizer.target
    search = [
        step_json(
            step.prefixes,
            step.candidates,
            vocabulary.tokens([candidate.token for candidate in step.candidates]),
        )
        for step in steps
    ]
    return ExplanationData(
        source=source,
        target=readings.target_text,
        source_words=readings.source_words,
        target_words=readings.target_words,
        tokens=readings.target,
        attention=token_attention(readings),
        shown_head=shown,
        ids=(*ids, EOS),
        search=tuple(search),
        **fields,
    )


def token_attention(readings: Readings) -> tuple[TokenAttention, ...]:
    """Return the attention of every layer, cross-attention first.

    Self-attention between the cells of an image is left out.
    """
    roles: tuple[Role, ...] = ("cross", "encoder", "decoder")
    if readings.grid is not None:
        roles = ("cross", "decoder")
    return tuple(
        TokenAttention(name, role, readings.weights[name], readings.scores.get(name))
        for role in roles
        for name in readings.layers(role)
    )


def overlay_of(
    data: ExplanationData, readings: Readings, choice: AlignmentChoice
) -> Overlay:
    """Lay the attention map of each word of a caption over the image."""
    assert data.image is not None, "only a caption has an image"
    word_reading = readings.words(choice.layer, choice.head, choice.shifted)
    maps = word_reading.weights.reshape(-1, *data.image.grid)
    return Overlay(
        data.image,
        readings.target_text,
        maps,
        caption=describe_choice(choice, readings),
    )


def alignment_choice(
    pipeline: FolderTranslator | Captioner, readings: Readings
) -> AlignmentChoice:
    """Return the head chosen for alignments, or the default choice."""
    return pipeline.choice or default_choice(readings)


def describe_choice(choice: AlignmentChoice, readings: Readings) -> str:
    """Describe the chosen attention weights in words, such as "layer 2, head 1"."""
    layers = readings.layers("cross")
    heads = len(readings.weights[choice.layer])
    parts = []
    if len(layers) > 1 or heads > 1:
        parts.append(words("layer {layer}", layer=layers.index(choice.layer) + 1))
    if heads > 1:
        head = words("mean of heads")
        if choice.head is not None:
            head = words("head {head}", head=choice.head + 1)
        parts.append(head)
    name = ", ".join(parts) or words("attention")
    if choice.shifted:
        name += words(", one step later")
    return name


def _readings(result: Translation | Caption) -> Readings:
    assert result.readings is not None, "a traced result has readings"
    return result.readings


def _attributions(
    translator: FolderTranslator,
    text: str,
    translation: Translation,
    readings: Readings,
) -> Attributions | None:
    """Measure attributions, and how well the shown attention agrees with them.

    Return None for an ensemble, which has no single gradient.
    """
    if not isinstance(translator.model, Model):
        return None
    choice = alignment_choice(translator, readings)
    measured = measure_faithfulness(translator, text, translation.ids, readings, choice)
    agreement = measured.gradient_agreement, measured.erasure_agreement
    return Attributions(
        ("gradient × input", "word erasure"),
        (measured.gradient, measured.erasure),
        agreement,
    )


@torch.inference_mode()
def _states(
    translator: FolderTranslator, text: str, translation: Translation
) -> States | None:
    """Record the hidden states of a recurrent model while it reads the line and is forced to the
    target.

    Return None for any other encoder, and for an ensemble.
    """
    model = translator.model
    if not isinstance(model, Model) or not isinstance(model.encoder, RecurrentEncoder):
        return None
    ids = translator.encode(text)
    encoder = model.encoder
    model.eval()
    encoded = encoder(Batch.of([ids], model.device))
    directions = 2 if encoder.layers[0].bidirectional else 1
    source = model.decoder.prepare(encoded)
    state = model.begin(source)
    initial = None
    if "states" in state.tensors:
        top = _top_state(model.decoder, state, encoded.outputs)
        initial = top.float().cpu().numpy()
    tops = list[Tensor]()
    for token in (BOS, *translation.ids):
        features, state = model.step(
            torch.tensor([[token]], device=model.device), state, source
        )
        tops.append(_top_state(model.decoder, state, features))
    encoder_states = encoded.outputs[0].view(len(ids), directions, -1)
    return States(
        tokens=tuple(translator.tokenizer.source.tokens(ids)),
        encoder=encoder_states.float().cpu().numpy(),
        decoder=torch.stack(tops).float().cpu().numpy(),
        is_all=not source.memories,
        words=_readings(translation).source_words,
        order=getattr(model.decoder, "order", ""),
        initial=initial,
    )


def _top_state(decoder: Decoder, state: State, features: Tensor) -> Tensor:
    """Return the hidden state of a recurrent decoder's highest layer; for any other decoder, the
    features from which it predicts.
    """
    if isinstance(decoder, NoAttentionDecoder | RecurrentDecoder):
        return state.tensors["states"][0, len(decoder.cells) - 1]
    return features[0, 0].clamp(-1, 1)
