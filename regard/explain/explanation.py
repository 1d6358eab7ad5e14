"""Explain one translation or caption: attention of every head, the search trace, and attributions
(saliency).

One search gives everything: the result, its attention readings and the trace are recorded while it
decodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import torch

from regard.attention.alignment import Readings
from regard.common.errors import RegardError
from regard.common.shapes import Tensor
from regard.data.vocabulary import BOS, Vocabulary
from regard.evaluation.faithfulness import measure_faithfulness
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
    last_layer,
)
from regard.search.search_steps import Candidate, SearchStep
from regard.visualisation import Overlay, SourceImage
from regard.visualisation.explanation_data import (
    Attributions,
    ExplanationData,
    SearchNode,
    ShownHead,
    TreeStep,
    layer_weights,
)
from regard.visualisation.language import words
from regard.visualisation.states import States

# Shown at each step of the search: pruned hypotheses; next tokens besides the one taken.
MAX_PRUNED, MAX_OPTIONS = (
    2,
    6,
)


@dataclass(frozen=True)
class Explanation:
    """A translation, and the plain data that its page and player draw."""

    translation: Translation
    data: ExplanationData


def explain(
    translator: FolderTranslator,
    text: str,
    beam: int | None = None,
    attributions: bool = True,
) -> Explanation:
    """Translate a line and explain the translation; `attributions` adds gradient × input and
    erasure (one model only).

    A recurrent model is explained by its states too, one without attention by them and its search
    alone. Raises UsageError for a line without letters, and for one that is split.
    """
    translation, steps = translator.trace(text, beam=beam)
    readings = _readings(translation)
    if not translation.text:
        raise RegardError(
            "the translation is empty, so there is nothing to draw; show another line, or train "
            "longer"
        )
    measured = (
        _attributions(translator, text, readings)
        if attributions and readings.layers("cross")
        else None
    )
    states = _states(translator, text, readings)
    data = _data(
        translator,
        readings,
        steps,
        readings.source_text,
        attributions=measured,
        states=states,
    )
    return Explanation(translation, data)


def explain_caption(
    captioner: Captioner, image: ImageInput, beam: int | None = None
) -> tuple[Caption, ExplanationData]:
    """Caption an image; return the caption and the plain data of its page, without attention its
    search alone.
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
    return caption, _data(captioner, readings, steps, view.cells(), image=view)


def _data(
    pipeline: FolderTranslator | Captioner,
    readings: Readings,
    steps: Sequence[SearchStep],
    source: tuple[str, ...],
    **more: Any,
) -> ExplanationData:
    """Return what is shown of a translation as of a caption, and `more` that only one of them
    has.
    """
    shown = ShownHead(0)
    layers = readings.layers("cross")
    if layers:
        choice = alignment_choice(pipeline, readings)
        shown = ShownHead(layers.index(choice.layer), choice.head, choice.shifted)
    target = (readings.target_text, readings.target, readings.target_words)
    trace = _steps(pipeline.tokenizer.target, readings.target, steps)
    return ExplanationData(
        source, *target, layer_weights(readings), shown, trace, **more
    )


def overlay_of(
    data: ExplanationData, readings: Readings, choice: AlignmentChoice
) -> Overlay:
    """Lay the attention map of each word of a caption over the image: a figure that does not
    move.
    """
    assert data.image is not None, "only a caption has an image"
    words = readings.words(choice.layer, choice.head, choice.shifted)
    maps = words.weights.reshape(-1, *data.image.grid)
    return Overlay(
        data.image,
        readings.target_text,
        maps,
        caption=describe_choice(choice, readings),
    )


def alignment_choice(
    pipeline: FolderTranslator | Captioner, readings: Readings
) -> AlignmentChoice:
    """Return the head chosen for alignments, or the mean of the last layer."""
    return pipeline.choice or last_layer(readings)


def describe_choice(choice: AlignmentChoice, readings: Readings) -> str:
    """Describe the chosen attention weights in words, such as "layer 2, head 1"."""
    layers = readings.layers("cross")
    head = (
        words("mean of heads")
        if choice.head is None
        else words("head {head}", head=choice.head + 1)
    )
    named = len(layers) > 1 or choice.head != 0
    name = (
        f"{words('layer {layer}', layer=layers.index(choice.layer) + 1)}, {head}"
        if named
        else words("attention")
    )
    return name + words(", one step later") * choice.shifted


def _readings(result: Translation | Caption) -> Readings:
    assert result.readings is not None, "a traced result has readings"
    return result.readings


def _attributions(
    translator: FolderTranslator, text: str, readings: Readings
) -> Attributions | None:
    """Measure attributions, and how far attention agrees with them; None for an ensemble, which has
    no one gradient.
    """
    if not isinstance(translator.model, Model):
        return None
    target = translator.tokenizer.target.ids(readings.target)[:-1]
    measured = measure_faithfulness(
        translator, text, target, readings, alignment_choice(translator, readings)
    )
    agreement = measured.gradient_agreement, measured.erasure_agreement
    return Attributions(
        ("gradient × input", "word erasure"),
        (measured.gradient, measured.erasure),
        agreement,
    )


@torch.inference_mode()
def _states(
    translator: FolderTranslator, text: str, readings: Readings
) -> States | None:
    """Record the hidden states of a recurrent model that reads the line and writes the target.

    None for any other encoder, and for an ensemble.
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
    tops = list[Tensor]()
    begun = (
        _top_state(model.decoder, state, encoded.outputs)
        if "states" in state.tensors
        else None
    )
    for token in (BOS, *translator.tokenizer.target.ids(readings.target)[:-1]):
        features, state = model.step(
            torch.tensor([[token]], device=model.device), state, source
        )
        tops.append(_top_state(model.decoder, state, features))
    sides = encoded.outputs[0].view(len(ids), directions, -1), torch.stack(tops)
    encoder_states, decoder_states = (states.float().cpu().numpy() for states in sides)
    tokens = tuple(translator.tokenizer.source.tokens(ids))
    order = getattr(model.decoder, "order", "")
    initial = None if begun is None else begun.float().cpu().numpy()
    return States(
        tokens,
        encoder_states,
        decoder_states,
        not source.memories,
        readings.source_words,
        order,
        initial,
    )


def _top_state(decoder: Decoder, state: State, features: Tensor) -> Tensor:
    """Return the hidden state of a recurrent decoder's highest layer, or of any other the features
    it predicts from.
    """
    if isinstance(decoder, NoAttentionDecoder | RecurrentDecoder):
        return state.tensors["states"][0, len(decoder.cells) - 1]
    return features[0, 0].clamp(-1, 1)


def _steps(
    vocabulary: Vocabulary, tokens: Sequence[str], trace: Sequence[SearchStep]
) -> tuple[TreeStep, ...]:
    """Return the steps that the player shows: one for each output token, end of sentence last.

    A node's parent is the index, among the nodes of the step before, of the hypothesis that it
    extends.
    """
    output = tuple(vocabulary.ids(tokens))
    steps = list[TreeStep]()
    parents: dict[tuple[int, ...], int] = {(): -1}
    for length, step in enumerate(trace[: len(output)], 1):
        prefixes = [(*step.prefixes[c.beam], c.token) for c in step.candidates]
        shown = [
            (c, p)
            for c, p in _shown(step.candidates, prefixes, output[:length])
            if p[:-1] in parents
        ]
        tokens_shown = vocabulary.tokens([c.token for c, _ in shown])
        nodes = tuple(
            SearchNode(
                parents[p[:-1]],
                token,
                exp(c.log_prob),
                c.total_log_prob,
                c.fate,
                p == output[:length],
            )
            for (c, p), token in zip(shown, tokens_shown, strict=True)
        )
        steps.append(TreeStep(nodes, _options(step, output[:length], vocabulary)))
        parents = {prefix: index for index, (_, prefix) in enumerate(shown)}
    return tuple(steps)


def _shown(
    candidates: Sequence[Candidate],
    prefixes: Sequence[tuple[int, ...]],
    output: tuple[int, ...],
) -> list[tuple[Candidate, tuple[int, ...]]]:
    """Return the candidates to show, with their prefixes: all but the pruned, the best of those,
    and the output.
    """
    shown = []
    pruned = 0
    for candidate, prefix in zip(candidates, prefixes, strict=True):
        pruned += candidate.fate == "pruned"
        if candidate.fate != "pruned" or pruned <= MAX_PRUNED or prefix == output:
            shown.append((candidate, prefix))
    return shown


def _options(
    step: SearchStep, output: tuple[int, ...], vocabulary: Vocabulary
) -> tuple[tuple[str, float, bool], ...]:
    """Return the likeliest next tokens after the output's prefix, and the one that was taken."""
    *prefix, taken = output
    candidates = [c for c in step.candidates if step.prefixes[c.beam] == tuple(prefix)]
    candidates.sort(key=lambda c: -c.log_prob)
    shown = [
        c for rank, c in enumerate(candidates) if rank < MAX_OPTIONS or c.token == taken
    ]
    return tuple(
        (vocabulary.tokens([c.token])[0], exp(c.log_prob), c.token == taken)
        for c in shown
    )
