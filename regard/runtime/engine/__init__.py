"""Decoding of a model in memory: by the C library, or by PyTorch."""

from regard.runtime.engine.continuous_batching import (
    BatchLimits,
    DecodeRequest,
    decode_requests,
)
from regard.runtime.engine.engine import Engine, EngineName
from regard.runtime.engine.packed_model import (
    PackedModel,
    pack_model,
    why_not_encoded,
    why_not_packed,
)
from regard.runtime.engine.program import Precision

__all__ = [
    "BatchLimits",
    "DecodeRequest",
    "Engine",
    "EngineName",
    "PackedModel",
    "Precision",
    "decode_requests",
    "pack_model",
    "why_not_encoded",
    "why_not_packed",
]
