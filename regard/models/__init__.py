"""Encoder-decoder models: any encoder with any decoder, behind one interface.

`interface` defines what passes through: `Batch` → `Encoder` → `Encoded` → `Decoder.prepare` →
`Source`, then `begin` and `step` with a `State`, and `project` to logits. The families are
`transformer`, `recurrent` and `convolutional`; image encoders are in `vision` and `timm_encoder`,
their pretrained weights in `pretrained`. `registry` names the families and creates a model from its
settings, with matrices tied as in `weight_tying`; `devices` are those to compute on; `ensemble`
averages several; `compatibility` says which can be exported.
"""

from regard.models.compatibility import ctranslate2_obstacles, huggingface_obstacles
from regard.models.devices import check_device, device_of, select_device
from regard.models.ensemble import Ensemble
from regard.models.interface import (
    Batch,
    Decoder,
    Encoded,
    Encoder,
    EncoderSizes,
    Model,
    Source,
    SourceInput,
    State,
    source_length,
    top_tokens,
)
from regard.models.pretrained import load_pretrained
from regard.models.registry import (
    DECODERS,
    ENCODERS,
    ModelSettings,
    build,
    count_parameters,
)

__all__ = [
    "DECODERS",
    "ENCODERS",
    "Batch",
    "Decoder",
    "Encoded",
    "Encoder",
    "EncoderSizes",
    "Ensemble",
    "Model",
    "ModelSettings",
    "Source",
    "SourceInput",
    "State",
    "build",
    "check_device",
    "count_parameters",
    "ctranslate2_obstacles",
    "device_of",
    "huggingface_obstacles",
    "load_pretrained",
    "select_device",
    "source_length",
    "top_tokens",
]
