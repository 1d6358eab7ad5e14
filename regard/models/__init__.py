"""Encoders and decoders, any with any, behind one interface."""

from regard.models.build import DECODERS, ENCODERS, ModelSettings, build, count, device_of
from regard.models.elsewhere import why_not_ctranslate2, why_not_huggingface
from regard.models.ensemble import Ensemble, Together
from regard.models.interface import (
    Batch,
    Decoder,
    Encoded,
    Encoder,
    Given,
    Model,
    Shape,
    Source,
    State,
    best_of,
    size_of,
)
from regard.models.published import begin_from_published

__all__ = [
    "DECODERS",
    "ENCODERS",
    "Batch",
    "Decoder",
    "Encoded",
    "Encoder",
    "Ensemble",
    "Given",
    "Model",
    "ModelSettings",
    "Shape",
    "Source",
    "State",
    "Together",
    "begin_from_published",
    "best_of",
    "build",
    "count",
    "device_of",
    "size_of",
    "why_not_ctranslate2",
    "why_not_huggingface",
]
