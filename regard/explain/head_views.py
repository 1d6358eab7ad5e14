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
    """Heads to draw: role and number of their layer, numbers of the heads, and one word.

    `layer` None is the layer shown first. No `heads` means all of them. `word` None means all
    words.
    """

    role: Role = "cross"
    layer: int | None = None
    heads: tuple[int, ...] = ()
    word: str | None = None


def draw_heads(
    translator: FolderTranslator, explanation: Explanation, options: HeadOptions
) -> Heads | HeadArcs:
    """Return the heads of a layer side by side, or as arcs if one word is chosen. Raises UsageError
    with all causes.
    """
    readings = explanation.translation.readings
    assert readings is not None, "readings were requested"
    names = readings.layers(options.role)
    if not names:
        have = [name for role, name in ROLES.items() if readings.layers(role)]
        raise UsageError(
            f"`attention={options.role}`: this model has no {ROLES[options.role]}; it has "
            f"{', '.join(have)}"
        )
    layer, shifted = _layer(translator, readings, options)
    count = len(readings.weights[names[0] if layer is None else layer])
    causes = [
        f"`head={head}`: the heads of a layer end with {count}"
        for head in options.heads
        if head > count
    ]
    if layer is None:
        causes.insert(
            0,
            f"`layer={options.layer}`: this model's layers of {ROLES[options.role]} end with "
            f"{len(names)}",
        )
    rows, columns = _words(readings, options.role)
    word = None if options.word is None else _word_index(options.word, rows, causes)
    if causes or layer is None:
        raise UsageError(*causes)
    heads = options.heads or tuple(range(1, count + 1))
    title = f"{words(ROLES[options.role])}, {words('layer {layer}', layer=names.index(layer) + 1)}"
    if shifted:
        title += words(", one step later")
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
    """Return the name of the layer, or None if there is no layer of this number, and whether its
    rows are shifted.
    """
    from regard.explain.explanation import alignment_choice

    names = readings.layers(options.role)
    if options.layer is not None:
        is_known = options.layer <= len(names)
        return names[options.layer - 1] if is_known else None, False
    if options.role == "cross":
        choice = alignment_choice(translator, readings)
        return choice.layer, choice.shifted
    return names[-1], False


def _words(readings: Readings, role: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words that attend, and those that are attended to."""
    rows = readings.source_text if role == "encoder" else readings.target_text
    return rows, readings.target_text if role == "decoder" else readings.source_text


def _word_index(word: str, line: Sequence[str], causes: list[str]) -> int:
    """Return the index of a word in a line; WORD:2 is its second occurrence.

    If it does not occur, append a sentence to `causes` and return 0.
    """
    name, _, number = word.rpartition(":")
    if word in line or not number.isdecimal():
        name = word
        number = "1"
    indices = [index for index, other in enumerate(line) if other == name]
    if 1 <= int(number) <= len(indices):
        return indices[int(number) - 1]
    count = "once" if len(indices) == 1 else f"{len(indices)} times"
    remedy = f"it is there {count}" if indices else f"the words are {', '.join(line)}"
    causes.append(f"`word={word}`: not among the words that attend; {remedy}")
    return 0


def _panels(
    explanation: Explanation,
    layer: str,
    shifted: bool,
    heads: Sequence[int],
    title: str,
) -> Heads:
    """Return the heads side by side, each cross-attention head with its agreement with attributions
    if these were measured.
    """
    from regard.evaluation.faithfulness import agreement, format_correlation
    from regard.visualisation import Alignment, Heads

    readings = explanation.translation.readings
    assert readings is not None, "readings were requested"
    role = readings.roles[layer]
    rows, columns = _words(readings, role)
    attributions = explanation.data.attributions if role == "cross" else None
    alignments = []
    for head in heads:
        reading = readings.words(layer, head - 1, shifted)
        caption = words("head {head}", head=head)
        if attributions is not None:
            correlation = agreement(reading.weights, attributions.weights[0])
            caption += f" · {format_correlation(correlation)}"
        alignments.append(
            Alignment(
                columns,
                rows,
                reading.weights,
                caption=caption,
                special_weights=reading.special_weights,
            )
        )
    if attributions is not None:
        title += " · " + words(f"rank correlation with {attributions.names[0]}")
    return Heads(tuple(alignments), title)
