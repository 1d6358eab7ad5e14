"""A translation or a caption told whole, for pictures: what every head looked at, how it was found, what mattered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from regard.attention.alignment import Readings
from regard.data.vocabulary import EOS, Vocabulary
from regard.errors import RegardError, UsageError
from regard.evaluation.faithfulness import measure_faithfulness
from regard.models import Model
from regard.pipeline import AlignmentChoice, Caption, Captioner, ImageInput, Translation, Translator, last_layer
from regard.search import Hypothesis
from regard.search.search_trace import Candidate, SearchStep
from regard.visualisation import Overlay, SourceImage
from regard.visualisation.explanation_data import (
    Attributions,
    ExplanationData,
    SearchNode,
    ShownHead,
    TreeStep,
    layer_weights,
)

__all__ = [
    "CaptionExplanation",
    "Explanation",
    "alignment_choice",
    "describe_choice",
    "explain",
    "explain_caption",
    "overlay_of",
]

MOST_PRUNED = 2  # beginnings that were given up, shown at each step
MOST_OPTIONS = 6


@dataclass(frozen=True)
class Explanation:
    """A translation, and its story."""

    translation: Translation
    data: ExplanationData


@dataclass(frozen=True)
class CaptionExplanation:
    """A caption, and its story."""

    caption: Caption
    data: ExplanationData


def explain(
    translator: Translator, text: str, beam: int | None = None, attributions: bool = True, trace: bool = True
) -> Explanation:
    """Translate a line and tell how: `played` with the search step by step, `mattered` with what the output hung on.

    Raises UsageError for a line that is cut before it is translated, and for a model that reads nothing.
    """
    translation = translator.translate(text, beam=beam, readings=True)[0]
    readings = translation.readings
    if readings is None:
        raise UsageError(
            "the line is longer than any in training and was cut; show a shorter one, or one sentence at a time"
        )
    if not translation.text:
        raise RegardError("the translation is empty, so there is nothing to draw; show another line, or train longer")
    choice, vocabulary = alignment_choice(translator, readings), translator.tokenizer.target
    found, moments = translator.trace(text, beam=beam) if trace else ([], [])
    story = ExplanationData(
        readings.source_text,
        readings.target_text,
        readings.target,
        readings.target_words,
        layer_weights(readings),
        _chosen(choice, readings),
        _steps(vocabulary, _winner(found, translation.tokens, vocabulary), moments),
        _mattered(translator, text, readings, choice) if attributions else None,
    )
    return Explanation(translation, story)


def explain_caption(
    captioner: Captioner, image: ImageInput, beam: int | None = None, trace: bool = True
) -> CaptionExplanation:
    """Caption a picture and tell how: `played` with the search step by step. Raises UsageError for a model that looks
    at nothing."""
    caption = captioner.caption(image, beam=beam, readings=True)[0]
    readings = caption.readings
    assert readings is not None, "readings were asked for"
    assert readings.grid is not None, "a captioner reads cells"
    if not caption.text:
        raise RegardError("the caption is empty, so there is nothing to draw; show another picture, or train longer")
    choice, vocabulary = alignment_choice(captioner, readings), captioner.tokenizer.target
    found, moments = captioner.trace(image, beam=beam) if trace else ([], [])
    seen = SourceImage(captioner.model_view(image), readings.grid, readings.cell_centre, readings.cell_extent)
    story = ExplanationData(
        seen.cells(),
        readings.target_text,
        readings.target,
        readings.target_words,
        layer_weights(readings),
        _chosen(choice, readings),
        _steps(vocabulary, _winner(found, caption.tokens, vocabulary), moments),
        image=seen,
    )
    return CaptionExplanation(caption, story)


def overlay_of(story: ExplanationData, readings: Readings, choice: AlignmentChoice) -> Overlay:
    """What each word of a caption looked at, by one read, as a picture that stands still."""
    assert story.image is not None, "only a caption has a picture to be laid over"
    words = readings.words(choice.layer, choice.head, choice.shifted)
    maps = words.weights.reshape(-1, *story.image.grid)
    return Overlay(story.image, readings.target_text, maps, caption=describe_choice(choice, readings))


def _chosen(choice: AlignmentChoice, readings: Readings) -> ShownHead:
    return ShownHead(readings.layers("cross").index(choice.layer), choice.head, choice.shifted)


def alignment_choice(translator: Translator | Captioner, readings: Readings) -> AlignmentChoice:
    """The read that is chosen for alignments, or the mean of the last layer."""
    return translator.choice or last_layer(readings)


def describe_choice(choice: AlignmentChoice, readings: Readings) -> str:
    """A read in words: layer 2, head 1."""
    layers = readings.layers("cross")
    head = "mean of heads" if choice.head is None else f"head {choice.head + 1}"
    name = f"layer {layers.index(choice.layer) + 1}, {head}" if len(layers) > 1 or choice.head != 0 else "attention"
    return f"{name}, read after the word" if choice.shifted else name


def _mattered(translator: Translator, text: str, readings: Readings, choice: AlignmentChoice) -> Attributions | None:
    if not isinstance(translator.model, Model):
        return None  # of an ensemble nobody can say
    target = translator.tokenizer.target.ids(readings.target)[:-1]
    found = measure_faithfulness(translator, text, target, readings, choice)
    return Attributions(
        ("gradient × input", "leaving words out"),
        (found.gradient, found.erasure),
        (found.by_gradient, found.by_erasure),
    )


# --- the search


def _winner(found: Sequence[Hypothesis], tokens: tuple[str, ...], vocabulary: Vocabulary) -> tuple[int, ...] | None:
    """The output among what the recorded search found; None where another engine saw a tie otherwise."""
    return next((each.ids for each in found if tuple(vocabulary.tokens(each.ids)) == tokens), None)


def _steps(
    vocabulary: Vocabulary, winner: tuple[int, ...] | None, moments: Sequence[SearchStep]
) -> tuple[TreeStep, ...]:
    """What the player shows: a step for each piece of the translation, end of sentence last."""
    if winner is None:
        return ()
    steps = list[TreeStep]()
    before: dict[tuple[int, ...], int] = {(): -1}  # what was written → its place among the nodes of the step before
    path = (*winner, EOS)
    for t, moment in enumerate(moments[: len(path)]):
        shown = [each for each in _shown(moment, path[: t + 1]) if moment.prefixes[each.beam] in before]
        nodes = tuple(
            SearchNode(
                before[moment.prefixes[each.beam]],
                vocabulary.tokens([each.token])[0],
                exp(each.log_prob),
                each.total_log_prob,
                each.fate,
                (*moment.prefixes[each.beam], each.token) == path[: t + 1],
            )
            for each in shown
        )
        steps.append(TreeStep(nodes, _options(moment, path[: t + 1], vocabulary)))
        before = {(*moment.prefixes[each.beam], each.token): place for place, each in enumerate(shown)}
    return tuple(steps) if len(steps) == len(path) else ()


def _shown(moment: SearchStep, path: tuple[int, ...]) -> list[Candidate]:
    """All that was kept or ended, and the likeliest of what was given up."""
    pruned = [each for each in moment.candidates if each.fate == "pruned"][:MOST_PRUNED]
    return [
        each
        for each in moment.candidates
        if each.fate != "pruned" or each in pruned or (*moment.prefixes[each.beam], each.token) == path
    ]


def _options(moment: SearchStep, path: tuple[int, ...], vocabulary: Vocabulary) -> tuple[tuple[str, float, bool], ...]:
    """What could come after the translation's own beginning, likeliest first; what was taken is among them."""
    *written, taken = path
    own = [each for each in moment.candidates if moment.prefixes[each.beam] == tuple(written)]
    own.sort(key=lambda each: -each.log_prob)
    some = [each for place, each in enumerate(own) if place < MOST_OPTIONS or each.token == taken]
    return tuple((vocabulary.tokens([each.token])[0], exp(each.log_prob), each.token == taken) for each in some)
