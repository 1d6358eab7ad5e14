"""Encoders and decoders, any with any, behind one interface."""

from regard.models.build import DECODERS, ENCODERS, ModelSettings, build, count, device_of
from regard.models.elsewhere import why_not_ctranslate2, why_not_huggingface
from regard.models.ensemble import Ensemble, Together
from regard.models.interface import Batch, Decoder, Encoded, Encoder, Model, Shape, Source, State, best_of

__all__ = [
    "DECODERS",
    "ENCODERS",
    "Batch",
    "Decoder",
    "Encoded",
    "Encoder",
    "Ensemble",
    "Model",
    "ModelSettings",
    "Shape",
    "Source",
    "State",
    "Together",
    "best_of",
    "build",
    "count",
    "device_of",
    "why_not_ctranslate2",
    "why_not_huggingface",
]
