"""A translation or a caption told whole, for pictures: what every head looked at, how it was found, what mattered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from regard.attention.alignment import Readings
from regard.data.vocabulary import EOS, Vocabulary
from regard.errors import RegardError, UsageError
from regard.evaluation.trust import trust
from regard.models import Model
from regard.pipeline import AlignmentChoice, Caption, Captioner, Pictured, Translation, Translator, last_layer
from regard.search import Hypothesis
from regard.search.record import Candidate, Moment
from regard.visualisation import Overlay, Seen
from regard.visualisation.story import Chosen, Mattered, Node, Step, Story, layers_of

__all__ = ["Told", "ToldCaption", "choice_of", "name_of", "sheet_of", "tell", "tell_caption"]

MOST_PRUNED = 2  # beginnings that were given up, shown at each step
MOST_OPTIONS = 6


@dataclass(frozen=True)
class Told:
    """A translation, and its story."""

    translation: Translation
    story: Story


@dataclass(frozen=True)
class ToldCaption:
    """A caption, and its story."""

    caption: Caption
    story: Story


def tell(
    translator: Translator, text: str, beam: int | None = None, mattered: bool = True, played: bool = True
) -> Told:
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
    choice, vocabulary = choice_of(translator, readings), translator.tokenizer.target
    found, moments = translator.record(text, beam=beam) if played else ([], [])
    story = Story(
        readings.source_text,
        readings.target_text,
        readings.target,
        readings.target_words,
        layers_of(readings),
        _chosen(choice, readings),
        _steps(vocabulary, _winner(found, translation.tokens, vocabulary), moments),
        _mattered(translator, text, readings, choice) if mattered else None,
    )
    return Told(translation, story)


def tell_caption(captioner: Captioner, image: Pictured, beam: int | None = None, played: bool = True) -> ToldCaption:
    """Caption a picture and tell how: `played` with the search step by step. Raises UsageError for a model that looks
    at nothing."""
    caption = captioner.caption(image, beam=beam, readings=True)[0]
    readings = caption.readings
    assert readings is not None, "readings were asked for"
    assert readings.grid is not None, "a captioner reads cells"
    if not caption.text:
        raise RegardError("the caption is empty, so there is nothing to draw; show another picture, or train longer")
    choice, vocabulary = choice_of(captioner, readings), captioner.tokenizer.target
    found, moments = captioner.record(image, beam=beam) if played else ([], [])
    seen = Seen(captioner.see(image), readings.grid, readings.middle, readings.reach)
    story = Story(
        seen.cells(),
        readings.target_text,
        readings.target,
        readings.target_words,
        layers_of(readings),
        _chosen(choice, readings),
        _steps(vocabulary, _winner(found, caption.tokens, vocabulary), moments),
        seen=seen,
    )
    return ToldCaption(caption, story)


def sheet_of(story: Story, readings: Readings, choice: AlignmentChoice) -> Overlay:
    """What each word of a caption looked at, by one read, as a picture that stands still."""
    assert story.seen is not None, "only a caption has a picture to be laid over"
    words = readings.words(choice.layer, choice.head, choice.consumed)
    maps = words.weights.reshape(-1, *story.seen.grid)
    return Overlay(story.seen, readings.target_text, maps, caption=name_of(choice, readings))


def _chosen(choice: AlignmentChoice, readings: Readings) -> Chosen:
    return Chosen(readings.layers("cross").index(choice.layer), choice.head, choice.consumed)


def choice_of(translator: Translator | Captioner, readings: Readings) -> AlignmentChoice:
    """The read that is chosen for alignments, or the mean of the last layer."""
    return translator.choice or last_layer(readings)


def name_of(choice: AlignmentChoice, readings: Readings) -> str:
    """A read in words: layer 2, head 1."""
    layers = readings.layers("cross")
    head = "mean of heads" if choice.head is None else f"head {choice.head + 1}"
    name = f"layer {layers.index(choice.layer) + 1}, {head}" if len(layers) > 1 or choice.head != 0 else "attention"
    return f"{name}, read after the word" if choice.consumed else name


def _mattered(translator: Translator, text: str, readings: Readings, choice: AlignmentChoice) -> Mattered | None:
    if not isinstance(translator.model, Model):
        return None  # of an ensemble nobody can say
    target = translator.tokenizer.target.ids(readings.target)[:-1]
    found = trust(translator, text, target, readings, choice)
    return Mattered(
        ("gradient × input", "leaving words out"),
        (found.gradient, found.omission),
        (found.by_gradient, found.by_omission),
    )


# --- the search


def _winner(found: Sequence[Hypothesis], tokens: tuple[str, ...], vocabulary: Vocabulary) -> tuple[int, ...] | None:
    """The output among what the recorded search found; None where another engine saw a tie otherwise."""
    return next((each.ids for each in found if tuple(vocabulary.pieces(each.ids)) == tokens), None)


def _steps(vocabulary: Vocabulary, winner: tuple[int, ...] | None, moments: Sequence[Moment]) -> tuple[Step, ...]:
    """What the player shows: a step for each piece of the translation, end of sentence last."""
    if winner is None:
        return ()
    steps = list[Step]()
    before: dict[tuple[int, ...], int] = {(): -1}  # what was written → its place among the nodes of the step before
    path = (*winner, EOS)
    for t, moment in enumerate(moments[: len(path)]):
        shown = [each for each in _shown(moment, path[: t + 1]) if moment.written[each.beam] in before]
        nodes = tuple(
            Node(
                before[moment.written[each.beam]],
                vocabulary.pieces([each.piece])[0],
                exp(each.likely),
                each.total,
                each.fate,
                (*moment.written[each.beam], each.piece) == path[: t + 1],
            )
            for each in shown
        )
        steps.append(Step(nodes, _options(moment, path[: t + 1], vocabulary)))
        before = {(*moment.written[each.beam], each.piece): place for place, each in enumerate(shown)}
    return tuple(steps) if len(steps) == len(path) else ()


def _shown(moment: Moment, path: tuple[int, ...]) -> list[Candidate]:
    """All that was kept or ended, and the likeliest of what was given up."""
    pruned = [each for each in moment.candidates if each.fate == "pruned"][:MOST_PRUNED]
    return [
        each
        for each in moment.candidates
        if each.fate != "pruned" or each in pruned or (*moment.written[each.beam], each.piece) == path
    ]


def _options(moment: Moment, path: tuple[int, ...], vocabulary: Vocabulary) -> tuple[tuple[str, float, bool], ...]:
    """What could come after the translation's own beginning, likeliest first; what was taken is among them."""
    *written, taken = path
    own = [each for each in moment.candidates if moment.written[each.beam] == tuple(written)]
    own.sort(key=lambda each: -each.likely)
    some = [each for place, each in enumerate(own) if place < MOST_OPTIONS or each.piece == taken]
    return tuple((vocabulary.pieces([each.piece])[0], exp(each.likely), each.piece == taken) for each in some)
