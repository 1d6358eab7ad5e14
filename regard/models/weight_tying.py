"""Weight tying (Press and Wolf 2017).

One matrix serves as output layer, as target embedding and, if both sides have one vocabulary, as
source embedding.
"""

from __future__ import annotations

from regard.models.interface import Decoder, Encoder


def tying_obstacles(encoder_size: int, decoder_size: int, joint: bool) -> list[str]:
    """Return the reasons why both sides cannot share one embedding matrix.

    `joint`: source and target have one vocabulary.
    """
    causes = []
    if not joint:
        causes.append(
            "model.share = 'all' needs one vocabulary; set tokenizer.joint = true or "
            "model.share = 'target'"
        )
    if encoder_size != decoder_size:
        causes.append(
            f"model.share = 'all' needs embeddings of one size, got {encoder_size} in the "
            f"encoder and {decoder_size} in the decoder; make them equal or set "
            "model.share = 'target'"
        )
    return causes


def tie_weights(encoder: Encoder, decoder: Decoder, shared: str) -> None:
    """Tie the output layer to the target embedding (`shared`: target), or to both (all)."""
    if shared != "none":
        decoder.output.weight = decoder.embedding.weight
    if shared == "all":
        encoder.embedding.weight = decoder.embedding.weight
