"""Fast decoding: weights prepared once, sentences that come and go."""

from regard.engine.engine import Engine, EngineName
from regard.engine.packed_model import PackedModel, pack_model, why_not_packed
from regard.engine.program import Precision
from regard.engine.scheduler import BatchLimits, DecodeRequest, decode_requests

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
