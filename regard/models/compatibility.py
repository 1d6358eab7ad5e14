"""Export compatibility with CTranslate2 and Hugging Face: the reasons against an export."""

from __future__ import annotations

from regard.attention import AttentionPositions
from regard.models.registry import ModelSettings
from regard.models.shared_settings import POSITIONS
from regard.models.transformer import TransformerDecoderSettings, TransformerSettings


def ctranslate2_obstacles(settings: ModelSettings) -> list[str]:
    """Return the reasons why CTranslate2 cannot run a model of these settings; none if it can."""
    return _unsupported(settings, "CTranslate2") + [
        f"model.{side}.positions is {part.positions!r}: CTranslate2 gets positions that are added "
        "to embeddings"
        for side, part in _transformers(settings)
        if issubclass(POSITIONS[part.positions], AttentionPositions)
    ]


def huggingface_obstacles(settings: ModelSettings, joint: bool) -> list[str]:
    """Return the reasons why Hugging Face cannot load a model of these settings as a Marian model.

    `joint`: source and target have one vocabulary.
    """
    causes = _unsupported(settings, "Hugging Face's Marian")
    for side, part in _transformers(settings):
        if part.norm == "pre":
            causes.append(
                f"model.{side}.norm is {part.norm!r}: a Marian model normalises after each "
                "sublayer ('post')"
            )
        if part.positions != "sinusoidal":
            causes.append(
                f"model.{side}.positions is {part.positions!r}: a Marian model has sinusoidal "
                "positions"
            )
        if part.activation == "swiglu":
            causes.append(
                f"model.{side}.activation is 'swiglu': a Marian model has no gated activation"
            )
        if part.norm == "post" and part.has_final_norm:
            causes.append(
                f"model.{side}.final_norm is {part.final_norm!r}: a Marian model has none"
            )
    causes += _different_sides(settings)
    if settings.resolved_share(joint) == "none":
        causes.append(
            "model.share is 'none': a Marian model ties the output layer to the target embedding"
        )
    return causes


def _transformers(settings: ModelSettings) -> list[tuple[str, TransformerSettings]]:
    """Return the sides that are Transformers, with their names."""
    sides = (("encoder", settings.encoder), ("decoder", settings.decoder))
    return [
        (side, part) for side, part in sides if isinstance(part, TransformerSettings)
    ]


def _unsupported(settings: ModelSettings, toolkit: str) -> list[str]:
    """Return the settings that the Transformers of other toolkits do not have, as sentences."""
    transformers = dict(_transformers(settings))
    causes = [
        f"model.{side}.kind is {part.kind!r}: {toolkit} supports Transformers only"
        for side, part in (("encoder", settings.encoder), ("decoder", settings.decoder))
        if side not in transformers
    ]
    for side, part in transformers.items():
        if part.score != "scaled_dot":
            causes.append(
                f"model.{side}.score is {part.score!r}: {toolkit} supports scaled_dot only"
            )
        if part.normaliser != "softmax":
            causes.append(
                f"model.{side}.normaliser is {part.normaliser!r}: {toolkit} has the softmax"
            )
        if part.norm not in ("pre", "post"):
            causes.append(
                f"model.{side}.norm is {part.norm!r}: {toolkit} has layer normalisation"
            )
        if not part.residual:
            causes.append(
                f"model.{side}.residual is false: {toolkit} has residual connections"
            )
        if isinstance(part, TransformerDecoderSettings) and not part.causal:
            causes.append(
                f"model.{side}.causal is false: {toolkit} hides later positions"
            )
        if part.window is not None:
            causes.append(
                f"model.{side}.window is {part.window}: {toolkit} has no local attention"
            )
    return causes


def _different_sides(settings: ModelSettings) -> list[str]:
    """Return the settings that encoder and decoder of a Marian model share, but that differ here.

    Each is a sentence.
    """
    encoder = settings.encoder
    decoder = settings.decoder
    if not isinstance(encoder, TransformerSettings):
        return []
    if not isinstance(decoder, TransformerSettings):
        return []
    causes = []
    for name in ("size", "activation", "scale_embedding"):
        in_encoder = getattr(encoder, name)
        in_decoder = getattr(decoder, name)
        if in_encoder != in_decoder:
            causes.append(
                f"model.*.{name} is {in_encoder} in the encoder and {in_decoder} in the decoder: "
                "a Marian model has one for both"
            )
    return causes
