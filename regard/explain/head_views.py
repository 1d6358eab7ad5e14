"""Figures of the heads of one layer: panels of all of them, or arcs of all heads from one word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from regard.common.errors import UsageError
from regard.visualisation.language import words

if TYPE_CHECKING:
    from regard.attention.alignment import Readings
    from regard.explain.explanation import Explanation
    from regard.pipeline import FolderTranslator
    from regard.visualisation.head_arcs import HeadArcs
    from regard.visualisation.head_grid import Heads

Role = Literal["cross", "encoder", "decoder"]
ROLES: dict[Role, str] = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}


@dataclass(frozen=True)
class HeadOptions:
    """The heads to draw: role and number of their layer (None: the one shown first), heads, and one
    word.
    """

    role: Role = "cross"
    layer: int | None = None
    heads: tuple[int, ...] = ()
    word: str | None = None


def draw_heads(
    translator: FolderTranslator, explanation: Explanation, options: HeadOptions
) -> Heads | HeadArcs:
    """Return the heads of a layer side by side or, for one word, as arcs. Raises UsageError with
    all causes.
    """
    readings = explanation.translation.readings
    assert readings is not None, "readings were requested"
    names = readings.layers(options.role)
    if not names:
        have = [name for role, name in ROLES.items() if readings.layers(role)]
        raise UsageError(
            f"--attention {options.role}: this model has no {ROLES[options.role]}; it has "
            f"{', '.join(have)}"
        )
    layer, shifted = _layer(translator, readings, options)
    count = len(readings.weights[names[0] if layer is None else layer])
    causes = [
        f"--head {head}: the heads of a layer end with {count}"
        for head in options.heads
        if head > count
    ]
    if layer is None:
        causes.insert(
            0,
            f"--layer {options.layer}: this model's layers of {ROLES[options.role]} end with "
            f"{len(names)}",
        )
    rows, columns = _words(readings, options.role)
    word = None if options.word is None else _place(options.word, rows, causes)
    if causes or layer is None:
        raise UsageError(*causes)
    heads = options.heads or tuple(range(1, count + 1))
    title = f"{words(ROLES[options.role])}, {words('layer {layer}', layer=names.index(layer) + 1)}"
    title += words(", one step later") * shifted
    if word is not None:
        import numpy as np

        from regard.visualisation.head_arcs import HeadArcs

        weights = np.stack(
            [readings.words(layer, head - 1, shifted).weights[word] for head in heads]
        )
        return HeadArcs(rows, columns, word, weights, heads, f"“{rows[word]}”: {title}")
    return _panels(explanation, layer, shifted, heads, title)


def _layer(
    translator: FolderTranslator, readings: Readings, options: HeadOptions
) -> tuple[str | None, bool]:
    """Return the name of the layer, None if there is none of this number, and whether its rows are
    shifted.
    """
    from regard.explain.explanation import alignment_choice

    names = readings.layers(options.role)
    if options.layer is not None:
        return (
            names[options.layer - 1] if options.layer <= len(names) else None
        ), False
    if options.role == "cross":
        choice = alignment_choice(translator, readings)
        return choice.layer, choice.shifted
    return names[-1], False


def _words(readings: Readings, role: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words that attend, and those that are attended to."""
    rows = readings.source_text if role == "encoder" else readings.target_text
    return rows, readings.target_text if role == "decoder" else readings.source_text


def _place(word: str, line: Sequence[str], causes: list[str]) -> int:
    """Return the place of a word, or of WORD:2 its second one; add a cause if it is not there."""
    name, _, number = word.rpartition(":")
    if word in line or not number.isdecimal():
        name = word
        number = "1"
    places = [place for place, other in enumerate(line) if other == name]
    if 1 <= int(number) <= len(places):
        return places[int(number) - 1]
    count = "once" if len(places) == 1 else f"{len(places)} times"
    often = f"it is there {count}" if places else f"the words are {', '.join(line)}"
    causes.append(f"--word {word}: not among the words that attend; {often}")
    return 0


def _panels(
    explanation: Explanation,
    layer: str,
    shifted: bool,
    heads: Sequence[int],
    title: str,
) -> Heads:
    """Return heads side by side; if measured, the agreement of cross-attention with attributions
    beside each name.
    """
    from regard.evaluation.faithfulness import agreement, format_correlation
    from regard.visualisation import Alignment, Heads

    readings = explanation.translation.readings
    alignments = []
    assert readings is not None, "readings were requested"
    rows, columns = _words(readings, readings.roles[layer])
    attributions = (
        explanation.data.attributions if readings.roles[layer] == "cross" else None
    )
    for head in heads:
        read = readings.words(layer, head - 1, shifted)
        note = ""
        if attributions is not None:
            note = f" · {format_correlation(agreement(read.weights, attributions.weights[0]))}"
        caption = words("head {head}", head=head) + note
        alignments.append(
            Alignment(columns, rows, read.weights, "", caption, read.special_weights)
        )
    if attributions is not None:
        title += " · " + words(f"rank correlation with {attributions.names[0]}")
    return Heads(tuple(alignments), title)
