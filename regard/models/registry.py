"""Registry of encoder and decoder families, and `build`, which creates a model from its settings.

To add a decoder family: subclass `Decoder` (models/interface.py) with its settings beside it, name
both in `DECODERS` and in `ModelSettings.decoder`. Every test over all families then includes it; an
encoder family likewise.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from regard.common.errors import ConfigurationError, UsageError
from regard.common.settings import Settings
from regard.models.convolutional import (
    ConvolutionalDecoder,
    ConvolutionalDecoderSettings,
    ConvolutionalEncoder,
    ConvolutionalEncoderSettings,
)
from regard.models.interface import Decoder, Encoder, Model
from regard.models.recurrent import (
    NoAttentionDecoder,
    NoAttentionDecoderSettings,
    RecurrentDecoder,
    RecurrentDecoderSettings,
    RecurrentEncoder,
    RecurrentEncoderSettings,
)
from regard.models.timm_encoder import TimmEncoder, TimmEncoderSettings
from regard.models.transformer import (
    TransformerDecoder,
    TransformerDecoderSettings,
    TransformerEncoder,
    TransformerEncoderSettings,
    TransformerSettings,
)
from regard.models.vision import (
    ResNetEncoder,
    ResNetEncoderSettings,
    VisionSettings,
    ViTEncoder,
    ViTEncoderSettings,
)

ENCODERS: dict[type[Settings], Any] = {
    TransformerEncoderSettings: TransformerEncoder,
    RecurrentEncoderSettings: RecurrentEncoder,
    ConvolutionalEncoderSettings: ConvolutionalEncoder,
    ResNetEncoderSettings: ResNetEncoder,
    ViTEncoderSettings: ViTEncoder,
    TimmEncoderSettings: TimmEncoder,
}
"""Encoder class of each kind of settings."""
DECODERS: dict[type[Settings], Any] = {
    TransformerDecoderSettings: TransformerDecoder,
    RecurrentDecoderSettings: RecurrentDecoder,
    NoAttentionDecoderSettings: NoAttentionDecoder,
    ConvolutionalDecoderSettings: ConvolutionalDecoder,
}
"""Decoder class of each kind of settings."""


class ModelSettings(Settings):
    """Encoder, decoder, and weight tying."""

    encoder: Annotated[
        TransformerEncoderSettings
        | RecurrentEncoderSettings
        | ConvolutionalEncoderSettings
        | ResNetEncoderSettings
        | ViTEncoderSettings
        | TimmEncoderSettings,
        Field(discriminator="kind"),
    ]
    decoder: Annotated[
        TransformerDecoderSettings
        | RecurrentDecoderSettings
        | NoAttentionDecoderSettings
        | ConvolutionalDecoderSettings,
        Field(discriminator="kind"),
    ]
    share: Literal["auto", "all", "target", "none"] = Field(
        "auto",
        description="embeddings tied to the output layer: those of both sides (all), of the "
        "target, or none; auto: both if they have one vocabulary and one size, else "
        "the target's",
    )

    def resolved_share(self, joint: bool) -> str:
        """Return all, target or none; `joint`: source and target have one vocabulary."""
        if self.share != "auto":
            return self.share
        return (
            "all"
            if joint and self.encoder.embedding == self.decoder.embedding
            else "target"
        )

    def check(self, joint: bool) -> None:
        """Raise ConfigurationError with every reason why this cannot be built; `joint`: one
        vocabulary.
        """
        encoder = self.encoder
        decoder = self.decoder
        causes = []
        for side, part in (("encoder", encoder), ("decoder", decoder)):
            if isinstance(part, VisionSettings) and not part.layers:
                continue
            if (
                isinstance(part, (TransformerSettings, VisionSettings))
                and part.size % part.heads
            ):
                causes.append(
                    f"model.{side}: size {part.size} cannot be split into {part.heads} heads; "
                    "choose a multiple"
                )
        if self.share == "all" and encoder.reads == "images":
            causes.append(
                f"model.share = 'all': {encoder.kind} reads images, not tokens; set model.share = "
                "'target'"
            )
        elif self.share == "all":
            causes += self._sharing_obstacles(joint)
        ConfigurationError.raise_all(causes)

    def ablations(self) -> list[str]:
        """List parts that are left out or replaced on purpose: with any, a model is an experiment,
        not for use.
        """
        sides = (("encoder", self.encoder), ("decoder", self.decoder))
        with_ablations = (TransformerSettings, RecurrentDecoderSettings)
        return [
            f"model.{name}.{text}"
            for name, side in sides
            if isinstance(side, with_ablations)
            for text in side.ablations()
        ]

    def _sharing_obstacles(self, joint: bool) -> list[str]:
        """Return the reasons why both sides cannot share one embedding matrix."""
        causes = []
        encoder = self.encoder
        decoder = self.decoder
        if not joint:
            causes.append(
                "model.share = 'all' needs one vocabulary; set tokenizer.joint = true or "
                "model.share = 'target'"
            )
        if encoder.embedding != decoder.embedding:
            causes.append(
                f"model.share = 'all' needs embeddings of one size, got {encoder.embedding} in the "
                f"encoder and {decoder.embedding} in the decoder; make them equal or set "
                "model.share = 'target'"
            )
        return causes


def build(
    settings: ModelSettings, source_vocabulary: int, target_vocabulary: int, joint: bool
) -> Model:
    """Create a model with random weights. Raises ConfigurationError with all reasons if the
    settings do not fit.
    """
    settings.check(joint)
    encoder: Encoder = ENCODERS[type(settings.encoder)](
        settings.encoder, source_vocabulary
    )
    decoder: Decoder = DECODERS[type(settings.decoder)](
        settings.decoder, target_vocabulary, encoder.sizes
    )
    shared = settings.resolved_share(joint)
    if shared != "none":
        decoder.output.weight = decoder.embedding.weight
    if shared == "all":
        encoder.embedding.weight = decoder.embedding.weight
    return Model(encoder, decoder)


def count_parameters(model: Model) -> int:
    """Count parameters, frozen ones included, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def device_of(model: torch.nn.Module) -> torch.device:
    """Return the device of a module's weights."""
    return next(model.parameters()).device


def check_device(name: str) -> str:
    """Return the device of a name such as cuda:1, or the best one for `auto`. Raises UsageError if
    it is absent.
    """
    kind, colon, number = name.partition(":")
    device = select_device(kind)
    counts = {"cuda": torch.cuda.device_count(), "mps": 1}
    if not colon:
        return device
    if not (number.isdecimal() and int(number) < counts.get(device, 0)):
        raise UsageError(f"`device={name}`: there is no device of this number")
    return f"{device}:{number}"


def select_device(name: str) -> str:
    """The device to compute on: cpu, cuda or mps; `auto` takes the best one here. Raises UsageError
    if it is absent.
    """
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(device for device, usable in available.items() if usable)
    if name not in available:
        raise UsageError(f"`device={name}`: wanted auto, cpu, cuda or mps")
    if not available[name]:
        names = " or ".join(
            device for device, usable in reversed(available.items()) if usable
        )
        raise UsageError(
            f"`device={name}`: this machine has none that PyTorch can use; use {names}"
        )
    return name
