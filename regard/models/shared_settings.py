"""Types of settings that the families of models share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from regard.attention.scores import ScoreName
from regard.common.settings import LAYERS

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
