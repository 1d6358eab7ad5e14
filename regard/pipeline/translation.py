"""What a translator answers with, and which read of it shows the alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape

from regard.attention.alignment import Link, Readings, Symmetry
from regard.errors import UsageError

__all__ = ["AlignmentChoice", "Translation", "joined", "last_layer", "without_readings"]


@dataclass(frozen=True)
class AlignmentChoice:
    """Which read is taken for the alignment: a layer, one of its heads (None: their mean), which row, and whether the
    links of both directions of its weights are put together (None: each target word has one link). `with_reverse` is
    how they are put together with those of a model of the other direction, where there is one."""

    layer: str
    head: int | None
    shifted: bool
    symmetry: Symmetry | None = None
    with_reverse: Symmetry = "grow-diag"


@dataclass(frozen=True)
class Translation:
    """One translated line.

    `score` is the log-probability over the length penalty; a line that was cut has the sum of its parts, and no
    readings. `alignments` are links (source word, target word); `nbest` holds the hypotheses, best first, if asked for.
    `repeats`: what was written again and again, and how often, where the model seems to have lost its way.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    alignments: tuple[Link, ...] | None = None
    readings: Readings | None = field(default=None, repr=False)
    nbest: tuple[Translation, ...] = ()
    repeats: tuple[str, int] | None = None

    def _repr_html_(self) -> str:
        """What a notebook shows: the text, its score, and what was looked at where that was asked for."""
        seen = "" if self.readings is None else self.readings._repr_html_()
        return f"<p>{escape(self.text)} <small>{self.score:.3f}</small></p>{seen}"


def last_layer(readings: Readings) -> AlignmentChoice:
    """The mean of the heads of the highest layer. Raises UsageError for a model without attention."""
    if not (layers := readings.layers()):
        raise UsageError(
            "this model has no attention (model.decoder.kind = plain): it looks at no word, so none can be aligned or "
            "shown; use one that reads, such as the preset rnn-bahdanau"
        )
    return AlignmentChoice(layers[-1], None, False)


def joined(parts: Sequence[Translation], cut: Sequence[str], alignments: bool, coded: int = 0) -> Translation:
    """The translations of the parts of one line, put together again; links count the words of the whole line.

    Every part but the first begins with `coded` words of the first once more: the code of a language.
    """
    links: list[Link] = []
    source = target = again = 0
    for part, text in zip(parts, cut, strict=True):
        links += [(s - again + source, t + target) for s, t in part.alignments or () if s >= again]
        source, target = source - again + text.count(" "), target + len(part.text.split())
        again = coded
    ranks = range(max((len(part.nbest) for part in parts), default=0))
    return Translation(
        " ".join(part.text for part in parts if part.text),
        tuple(token for part in parts for token in part.tokens),
        sum((part.score for part in parts), 0.0),
        tuple(links) if alignments else None,
        nbest=tuple(joined([_ranked(part, rank) for part in parts], cut, alignments, coded) for rank in ranks),
        repeats=next((part.repeats for part in parts if part.repeats is not None), None),
    )


def _ranked(part: Translation, rank: int) -> Translation:
    """The hypothesis of this rank, or the last where the search found fewer."""
    return part.nbest[min(rank, len(part.nbest) - 1)]


def without_readings(translation: Translation) -> Translation:
    return replace(translation, readings=None)
