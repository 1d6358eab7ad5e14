"""Small random weights for lessons, rounded to tenths so that readers can check the numbers by
hand.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from regard.attention import SCORES, Attention
from regard.common.shapes import Float, Tensor
from regard.data.vocabulary import EOS
from regard.learn.lessons.block_steps import PaperOrder
from regard.models import Model, ModelSettings, build
from regard.models.transformer import TransformerDecoder, TransformerEncoder
from regard.requests.walkthrough_request import SmallSettings

SPREAD = 0.5
"""Standard deviation of the matrices, small enough for a softmax with several large weights."""
SPREAD_OF_NORM = 0.2
"""Standard deviation of the scales and shifts of norms."""
SIZE = 32
"""Largest model size whose numbers fit on a page."""
FEEDFORWARD = 64
"""Largest size of the feed-forward network whose numbers fit on a page."""
_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


def small_sides(settings: SmallSettings) -> dict[str, Any]:
    """Return the settings of encoder and decoder."""
    defaults = {
        "size": 4,
        "heads": 1 if settings.unprojected else 2,
        "feedforward": 6,
        "norm": "pre" if settings.unprojected else "post",
        "score": "scaled_dot",
    }
    set_values = settings.set_values()
    fixed = {
        "kind": "transformer",
        "layers": 1,
        "dropout": 0.0,
        "scale_embedding": False,
    }
    chosen = {name: set_values.get(name, value) for name, value in defaults.items()}
    return {**fixed, **chosen}


def small_problems(settings: SmallSettings) -> list[str]:
    """Return a sentence for each invalid setting."""
    sides = small_sides(settings)
    causes = []
    limits = (
        ("size", settings.size, 2, SIZE),
        ("feedforward", settings.feedforward, 1, FEEDFORWARD),
    )
    for name, value, least, largest in limits:
        if value is not None and not least <= value <= largest:
            causes.append(
                f"`{name}`: wanted {least} to {largest}, got {value}; larger ones are not legible"
            )
    heads = sides["heads"]
    size = sides["size"]
    if heads < 1 or size % heads:
        causes.append(
            f"`heads`: a size of {size} cannot be split into {heads} equal heads; give a divisor "
            "of it"
        )
    if settings.unprojected and heads > 1:
        causes.append(
            f"`unprojected=True` has one head, got {heads}; leave `heads` out"
        )
    if sides["score"] not in SCORES:
        causes.append(
            f"`score`: there is no score {settings.score!r}; wanted one of {', '.join(SCORES)}"
        )
    if sides["norm"] not in ("pre", "post"):
        causes.append(f"`norm`: wanted pre or post, got {settings.norm!r}")
    return causes


class WordVocabulary:
    """Vocabulary of the words of a few texts and the special tokens."""

    def __init__(self, texts: Sequence[str]) -> None:
        words = dict.fromkeys(word for text in texts for word in text.split())
        self.names = [*_SPECIAL, *words]
        self._ids = {word: EOS + 1 + number for number, word in enumerate(words)}

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, text: str) -> list[int]:
        """Return the id of each word."""
        return [self._ids[word] for word in text.split()]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the token of each id."""
        return [self.names[index] for index in ids]


def small_model(
    settings: SmallSettings, source: WordVocabulary, target: WordVocabulary
) -> Model:
    """Build a Transformer of one layer, with positions in the paper's order and random weights."""
    sides = small_sides(settings)
    parsed = ModelSettings.parse(
        {"encoder": sides, "decoder": sides, "share": "none"}, "a walkthrough"
    )
    model = build(parsed, len(source), len(target), joint=False).eval()
    seed = settings.seed or 0
    encoder = model.encoder
    decoder = model.decoder
    assert isinstance(encoder, TransformerEncoder), "built as a Transformer"
    assert isinstance(decoder, TransformerDecoder), "built as a Transformer"
    for side in (encoder, decoder):
        embedding = side.input_embedding
        positions = embedding.position_embedding
        embedding.position_embedding = PaperOrder(positions, sides["size"])  # type: ignore[arg-type, assignment]
    if settings.unprojected:
        _unproject(model, sides["size"], sides["score"])
    randomise(model, seed, SPREAD)
    for side, vocabulary in ((encoder, source), (decoder, target)):
        vectors = [
            random_tenths((sides["size"],), seed, word) for word in vocabulary.names
        ]
        side.embedding.weight.data.copy_(torch.stack(vectors))
    for module in model.modules():
        # Without projections, norms must return vectors of equal length.
        if isinstance(module, nn.LayerNorm) and settings.unprojected:
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
    return model


def _unproject(model: Model, size: int, score: str) -> None:
    """Replace each attention by one without Q, K, V and output matrices."""
    for layer in model.modules():
        for name, module in list(layer.named_children()):
            if not isinstance(module, Attention):
                continue
            unprojected = Attention(
                module.role,
                size,
                size,
                size,
                1,
                score,
                project_keys=False,
                project_values=False,
            )
            setattr(layer, name, unprojected)


def randomise(module: nn.Module, seed: int, spread: float = 1.0) -> None:
    """Draw all matrices, and the scales and shifts of norms; other vectors keep their values.

    The numbers of a parameter depend on its name and the seed only.
    """
    norms = {
        name for name, part in module.named_modules() if isinstance(part, nn.LayerNorm)
    }
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim >= 2:
                parameter.copy_(random_tenths(parameter.shape, seed, name, spread))
            elif name.rpartition(".")[0] in norms:
                mean = 1.0 if name.endswith("weight") else 0.0
                deviations = random_tenths(parameter.shape, seed, name, SPREAD_OF_NORM)
                parameter.copy_(mean + deviations)


def random_tenths(
    shape: Sequence[int], seed: int, name: str, spread: float = 1.0
) -> Float[Tensor, "..."]:
    """Draw normal numbers, rounded to tenths; equal names and seeds give equal numbers."""
    generator = torch.Generator().manual_seed(seed + zlib.crc32(name.encode()))
    return torch.randn(*shape, generator=generator).mul(spread).mul(10).round().div(10)
