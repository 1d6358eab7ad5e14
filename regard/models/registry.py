"""Registry of encoder and decoder families, and `build`, which creates a model from its settings.

To add a decoder family, write a subclass of `Decoder` (models/interface.py) and its settings, and
name both in `DECODERS` and the settings in `ModelSettings.decoder`. Every test over all families
then includes it. Encoder families are added in the same way.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from regard.common.errors import ConfigurationError
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
from regard.models.weight_tying import tie_weights, tying_obstacles

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
        is_one_matrix = joint and self.encoder.embedding == self.decoder.embedding
        return "all" if is_one_matrix else "target"

    def check(self, joint: bool) -> None:
        """Raise ConfigurationError with every reason why no model of these settings can be built.

        `joint`: source and target have one vocabulary.
        """
        encoder = self.encoder
        decoder = self.decoder
        causes = []
        for side, part in (("encoder", encoder), ("decoder", decoder)):
            if isinstance(part, VisionSettings) and not part.layers:
                continue  # no layer uses the heads
            if not isinstance(part, (TransformerSettings, VisionSettings)):
                continue
            if part.size % part.heads:
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
            causes += tying_obstacles(encoder.embedding, decoder.embedding, joint)
        ConfigurationError.raise_all(causes)

    def ablations(self) -> list[str]:
        """List the parts that are left out or replaced on purpose.

        A model with any of them is an experiment, and not meant for use.
        """
        ablations = []
        for side, part in (("encoder", self.encoder), ("decoder", self.decoder)):
            if isinstance(part, (TransformerSettings, RecurrentDecoderSettings)):
                ablations += [f"model.{side}.{text}" for text in part.ablations()]
        return ablations


def build(
    settings: ModelSettings, source_vocabulary: int, target_vocabulary: int, joint: bool
) -> Model:
    """Create a model with random weights, for vocabularies of these sizes.

    `joint`: source and target have one vocabulary. Raises ConfigurationError with all reasons if
    the settings do not fit.
    """
    settings.check(joint)
    encoder_class = ENCODERS[type(settings.encoder)]
    decoder_class = DECODERS[type(settings.decoder)]
    encoder: Encoder = encoder_class(settings.encoder, source_vocabulary)
    decoder: Decoder = decoder_class(settings.decoder, target_vocabulary, encoder.sizes)
    tie_weights(encoder, decoder, settings.resolved_share(joint))
    return Model(encoder, decoder)


def count_parameters(model: Model) -> int:
    """Count the parameters of a model, including frozen ones; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())
