"""Fast decoding: weights prepared once, sentences that come and go."""

from regard.engine.continuous_batching import BatchLimits, DecodeRequest, decode_requests
from regard.engine.engine import Engine, EngineName
from regard.engine.packed_model import PackedModel, pack_model, why_not_packed
from regard.engine.program import Precision

__all__ = [
    "BatchLimits",
    "DecodeRequest",
    "Engine",
    "EngineName",
    "PackedModel",
    "Precision",
    "decode_requests",
    "pack_model",
    "why_not_packed",
]
