"""Encoders and decoders, any with any, behind one interface."""

from regard.models.build import DECODERS, ENCODERS, ModelSettings, build, count, device_of
from regard.models.interface import Batch, Decoder, Encoded, Encoder, Model, Shape, Source, State, best_of

__all__ = [
    "DECODERS",
    "ENCODERS",
    "Batch",
    "Decoder",
    "Encoded",
    "Encoder",
    "Model",
    "ModelSettings",
    "Shape",
    "Source",
    "State",
    "best_of",
    "build",
    "count",
    "device_of",
]
