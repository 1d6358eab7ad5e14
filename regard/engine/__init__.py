"""Decoding of a model in memory: by the C library, or by PyTorch."""

from regard.engine.continuous_batching import BatchLimits, DecodeRequest, decode_requests
from regard.engine.engine import Engine
from regard.engine.packed_model import PackedModel, pack_model, why_not_packed
from regard.engine.program import Precision

__all__ = [
    "BatchLimits",
    "DecodeRequest",
    "Engine",
    "PackedModel",
    "Precision",
    "decode_requests",
    "pack_model",
    "why_not_packed",
]
