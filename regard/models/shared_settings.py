"""Types of settings that the families of models share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from pydantic import Field

from regard.attention import NormaliserName, ScoreName
from regard.attention.positions import (
    AlibiPositions,
    AttentionPositions,
    RotaryPositions,
)
from regard.common.plugins import Registry
from regard.common.settings import LAYERS, Settings
from regard.layers.positional_encoding import (
    LearnedPositions,
    PositionEmbedding,
    SinusoidalPositions,
)

LayerCount = Annotated[int, Field(ge=1, le=LAYERS, description="number of layers")]
LayerInputDropout = Annotated[
    float, Field(ge=0, lt=1, description="dropout after embeddings and layers")
]
WordDropout = Annotated[
    float,
    Field(ge=0, lt=1, description="share of tokens whose whole embedding is zeroed"),
]
CrossAttentionScore = Annotated[
    ScoreName, Field(description="attention score of the cross-attention")
]
CrossAttentionNormaliser = Annotated[
    NormaliserName, Field(description="what turns the scores into weights")
]

POSITIONS: Registry[str, type[PositionEmbedding | AttentionPositions]] = Registry(
    "positional encoding"
)
"""Class of each name; that of "none" is the base, which no model uses."""
C = TypeVar("C")


def register_positions(name: str) -> Callable[[C], C]:
    """Return a decorator that registers a class of positions under a new name.

    Raises ConfigurationError if the name is taken.
    """
    return POSITIONS.register(name)


register_positions("sinusoidal")(SinusoidalPositions)
register_positions("learned")(LearnedPositions)
register_positions("none")(PositionEmbedding)
register_positions("rotary")(RotaryPositions)
register_positions("alibi")(AlibiPositions)
PositionsName = Annotated[str, POSITIONS]


class PartSettings(Settings):
    """Base of the settings of encoders and decoders.

    Each has a `size`, `layers`, and the size of its `embedding`, by which embeddings are tied (0 if
    there are none). `reads`: "text" or "images", which an encoder takes.
    """

    reads: ClassVar[str] = "text"
    kind: str

    if TYPE_CHECKING:

        @property
        def size(self) -> int: ...

        @property
        def layers(self) -> int: ...

        @property
        def embedding(self) -> int: ...
