"""The choice of the attention weights that alignments are extracted from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from regard.attention.alignment import Symmetry


DEFAULT_SYMMETRY: Final = "grow-diag-final"
"""Symmetry of links if no head was chosen."""


@dataclass(frozen=True)
class AlignmentChoice:
    """The attention weights that alignments are extracted from.

    They belong to one `layer` and one `head` (None: the mean of all heads). `shifted` takes the
    weights of the next decoder step, whose query has seen the token (SHIFT-ATT, Chen et al. 2020).
    `symmetry` combines the links of both directions of the weights (None: one link for each target
    word); `with_reverse` combines these with the links of a reverse model, if there is one.
    """

    layer: str
    head: int | None
    shifted: bool
    symmetry: Symmetry | None = None
    with_reverse: Symmetry = "grow-diag"
