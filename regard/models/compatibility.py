"""Where else a model could run: which other toolkits know its parts, and every reason why one does not."""

from __future__ import annotations

from regard.models.build import ModelSettings
from regard.models.transformer import TransformerSettings

__all__ = ["ctranslate2_obstacles", "huggingface_obstacles"]


def ctranslate2_obstacles(settings: ModelSettings) -> list[str]:
    """Why CTranslate2 cannot hold such a model; nothing where it can."""
    return _unknown(settings, "CTranslate2")


def huggingface_obstacles(settings: ModelSettings, joint: bool) -> list[str]:
    """Why such a model is no Marian model, which is what Hugging Face would load; nothing where it is one."""
    causes = _unknown(settings, "Hugging Face's Marian")
    for side, part in _transformers(settings):
        if part.norm != "post":
            causes.append(f"model.{side}.norm is {part.norm!r}: a Marian model normalises after each sublayer ('post')")
        if part.positions != "sinusoidal":
            causes.append(f"model.{side}.positions is {part.positions!r}: a Marian model adds sinusoids")
        if part.activation == "swiglu":
            causes.append(f"model.{side}.activation is 'swiglu': a Marian model has no gate")
        if part.norm == "post" and part.normalised_last:
            causes.append(f"model.{side}.final_norm is {part.final_norm!r}: a Marian model has none")
    causes += _unequal(settings)
    if settings.shared(joint) == "none":
        causes.append("model.share is 'none': the output layer of a Marian model is the embedding of its target")
    return causes


def _transformers(settings: ModelSettings) -> list[tuple[str, TransformerSettings]]:
    """The sides that are Transformers, with their names."""
    sides = (("encoder", settings.encoder), ("decoder", settings.decoder))
    return [(side, part) for side, part in sides if isinstance(part, TransformerSettings)]


def _unknown(settings: ModelSettings, where: str) -> list[str]:
    """What no other toolkit's Transformer has."""
    known = dict(_transformers(settings))
    causes = [
        f"model.{side}.kind is {part.kind!r}: {where} knows Transformers only"
        for side, part in (("encoder", settings.encoder), ("decoder", settings.decoder))
        if side not in known
    ]
    for side, part in known.items():
        if part.score != "scaled_dot":
            causes.append(f"model.{side}.score is {part.score!r}: {where} scores by scaled dot products only")
        if part.window is not None:
            causes.append(f"model.{side}.window is {part.window}: every position of {where} reads all others")
    return causes


def _unequal(settings: ModelSettings) -> list[str]:
    """What a Marian model has once, and this one twice and differently."""
    encoder, decoder = settings.encoder, settings.decoder
    if not isinstance(encoder, TransformerSettings) or not isinstance(decoder, TransformerSettings):
        return []
    return [
        f"model.*.{name} is {getattr(encoder, name)} in the encoder and {getattr(decoder, name)} in the decoder: "
        "a Marian model has one for both"
        for name in ("size", "activation", "scaled")
        if getattr(encoder, name) != getattr(decoder, name)
    ]
