"""`ModelSettings`, and `build`, which creates a model from them.

To add a family, write a subclass of `Encoder` or `Decoder` (models/interface.py) and its settings,
and register both with `register_encoder` or `register_decoder`, as the families imported here do.
Every test over all families then includes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from regard.common.errors import ConfigurationError
from regard.common.plugins import Registry, check_recorded, naming_plugins, plugin_of
from regard.common.settings import Settings

# Families register in the order of the documentation.
# isort: off
from regard.models import transformer, recurrent, convolutional, vision, timm_encoder  # noqa: F401

# isort: on
from regard.models.interface import DECODERS, ENCODERS, Model
from regard.models.recurrent import RecurrentDecoderSettings
from regard.models.shared_settings import PartSettings
from regard.models.transformer import TransformerSettings
from regard.models.vision import VisionSettings
from regard.models.weight_tying import tie_weights, tying_obstacles


class ModelSettings(Settings):
    """Encoder, decoder, and weight tying."""

    encoder: Annotated[PartSettings, ENCODERS]
    decoder: Annotated[PartSettings, DECODERS]
    share: Literal["auto", "all", "target", "none"] = Field(
        "auto",
        description="embeddings tied to the output layer: those of both sides (all), of the "
        "target, or none; auto: both if they have one vocabulary and one size, else "
        "the target's",
    )

    plugins: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (),
        validate_default=True,
        description="plug-ins that parts of the model come from, as name==version; written by "
        "training",
    )

    @field_validator("plugins")
    @classmethod
    def _record_plugins(
        cls, recorded: tuple[str, ...], info: ValidationInfo
    ) -> tuple[str, ...]:
        """Return the plug-ins of the model, if they are those that were recorded."""
        parts = [
            info.data[side] for side in ("encoder", "decoder") if side in info.data
        ]
        used = tuple(
            dict.fromkeys(name for part in parts for name in _plugins_of(part))
        )
        check_recorded(recorded, used, is_complete=len(parts) == 2)
        return used

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


def _plugins_of(part: Settings) -> Iterator[str]:
    """Yield the plug-ins that a side of a model and its variants come from."""
    variants: list[object] = [ENCODERS.get(type(part)), DECODERS.get(type(part))]
    for name, field in type(part).model_fields.items():
        registries = [item for item in field.metadata if isinstance(item, Registry)]
        variants += [registry[getattr(part, name)] for registry in registries]
    for variant in variants:
        if variant is not None and (plugin := plugin_of(variant)) is not None:
            yield plugin


@naming_plugins
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
    encoder = encoder_class(settings.encoder, source_vocabulary)
    decoder = decoder_class(settings.decoder, target_vocabulary, encoder.sizes)
    tie_weights(encoder, decoder, settings.resolved_share(joint))
    return Model(encoder, decoder)


def count_parameters(model: Model) -> int:
    """Count the parameters of a model, including frozen ones; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())
