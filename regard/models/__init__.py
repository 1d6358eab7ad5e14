"""Encoder-decoder models: any encoder with any decoder, behind one interface.

- `interface`: the data that pass through a model: `Batch` → `Encoder` → `Encoded` →
  `Decoder.prepare` → `Source`, then `begin` and `step` with a `State`, and `project` to logits.
- `transformer`, `recurrent`, `convolutional`: the families of encoders and decoders.
- `vision`, `timm_encoder`: image encoders; `pretrained` loads their pretrained weights.
- `registry`: names the families, and creates a model from its settings; `weight_tying` ties its
  matrices.
- `devices`: chooses the device to compute on.
- `ensemble`: averages the probabilities of several models.
- `compatibility`: tells which models can be exported to other toolkits.
"""

from regard.models.compatibility import ctranslate2_obstacles, huggingface_obstacles
from regard.models.devices import check_device, device_of, select_device
from regard.models.ensemble import Ensemble
from regard.models.interface import (
    DECODERS,
    ENCODERS,
    Batch,
    Decoder,
    Encoded,
    Encoder,
    EncoderSizes,
    Model,
    Source,
    SourceInput,
    State,
    register_decoder,
    register_encoder,
    source_length,
    top_tokens,
)
from regard.models.pretrained import load_pretrained
from regard.models.registry import (
    ModelSettings,
    build,
    count_parameters,
)
from regard.models.shared_settings import POSITIONS, PartSettings, register_positions

__all__ = [
    "DECODERS",
    "ENCODERS",
    "POSITIONS",
    "Batch",
    "Decoder",
    "Encoded",
    "Encoder",
    "EncoderSizes",
    "Ensemble",
    "Model",
    "ModelSettings",
    "PartSettings",
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
    "register_decoder",
    "register_encoder",
    "register_positions",
    "select_device",
    "source_length",
    "top_tokens",
]
