"""Small random weights for lessons, rounded to tenths so that they can be followed with a
pencil.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.attention import SCORES, Attention
from regard.common.shapes import Float, Tensor
from regard.data.vocabulary import EOS
from regard.learn.lessons.block_steps import PaperOrder
from regard.models import Model, ModelSettings, build
from regard.models.transformer import TransformerDecoder, TransformerEncoder

SPREAD = 0.5
"""Standard deviation of the matrices: the softmax of a small model stays soft."""
SPREAD_OF_NORM = 0.2
SIZE, FEEDFORWARD = 32, 64
"""The largest sizes whose numbers fit on a page."""
_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


@dataclass(frozen=True)
class SmallSettings:
    """Sizes and kinds of a block of random weights; None: 4 numbers, 2 heads, 6 hidden, post-norm,
    scaled dot product.

    `unprojected` leaves out Q, K, V and output matrices; it has one head and, unless `norm` is
    given, pre-norm.
    """

    size: int | None = None
    heads: int | None = None
    feedforward: int | None = None
    norm: str | None = None
    score: str | None = None
    unprojected: bool = False
    causal: bool = False
    seed: int | None = None

    @property
    def given(self) -> list[str]:
        """Names of the settings that are set."""
        return [
            name
            for name, value in vars(self).items()
            if value is not None and value is not False
        ]

    def sides(self) -> dict[str, Any]:
        """Return the settings of encoder and decoder."""
        defaults = {
            "size": 4,
            "heads": 1 if self.unprojected else 2,
            "feedforward": 6,
            "norm": "pre" if self.unprojected else "post",
            "score": "scaled_dot",
        }
        given = {
            name: getattr(self, name)
            for name in defaults
            if getattr(self, name) is not None
        }
        fixed = {
            "kind": "transformer",
            "layers": 1,
            "dropout": 0.0,
            "scale_embedding": False,
        }
        return {**fixed, **defaults, **given}

    def problems(self) -> list[str]:
        """Return what is wrong, a sentence for each cause."""
        sides = self.sides()
        causes = []
        for name, value, largest in (
            ("size", self.size, SIZE),
            ("feedforward", self.feedforward, FEEDFORWARD),
        ):
            least = 2 if name == "size" else 1
            if value is not None and not least <= value <= largest:
                causes.append(
                    f"`{name}`: wanted {least} to {largest}, got {value}; larger ones are not "
                    "legible"
                )
        heads = sides["heads"]
        size = sides["size"]
        if heads < 1 or size % heads:
            causes.append(
                f"`heads`: a size of {size} cannot be split into {heads} equal heads; give a "
                "divisor of it"
            )
        if self.unprojected and heads > 1:
            causes.append(
                f"`unprojected=True` has one head, got {heads}; leave `heads` out"
            )
        if sides["score"] not in SCORES:
            causes.append(
                f"`score`: there is no score {self.score!r}; wanted one of {', '.join(SCORES)}"
            )
        if sides["norm"] not in ("pre", "post"):
            causes.append(f"`norm`: wanted pre or post, got {self.norm!r}")
        return causes


class WordVocabulary:
    """The words of a few texts as tokens, beside the special ones."""

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
    sides = settings.sides()
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
        # Vectors of one length.
        if isinstance(module, nn.LayerNorm) and settings.unprojected:
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
    return model


def _unproject(model: Model, size: int, score: str) -> None:
    """Replace each attention by one without Q, K, V and output matrices."""
    for layer in model.modules():
        for name, module in list(layer.named_children()):
            if isinstance(module, Attention):
                bare = Attention(
                    module.role,
                    size,
                    size,
                    size,
                    1,
                    score,
                    project_keys=False,
                    project_values=False,
                )
                setattr(layer, name, bare)


def randomise(module: nn.Module, seed: int, spread: float = 1.0) -> None:
    """Draw all matrices, and scales and shifts of norms, each by its name; other vectors keep their
    values.
    """
    norms = {
        name for name, part in module.named_modules() if isinstance(part, nn.LayerNorm)
    }
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim >= 2:
                parameter.copy_(random_tenths(parameter.shape, seed, name, spread))
            elif name.rpartition(".")[0] in norms:
                offset = float(name.endswith("weight"))
                parameter.copy_(
                    offset + random_tenths(parameter.shape, seed, name, SPREAD_OF_NORM)
                )


def random_tenths(
    shape: Sequence[int], seed: int, name: str, spread: float = 1.0
) -> Float[Tensor, "..."]:
    """Draw normal numbers, the same for each name and seed, rounded to tenths."""
    generator = torch.Generator().manual_seed(seed + zlib.crc32(name.encode()))
    return torch.randn(*shape, generator=generator).mul(spread).mul(10).round().div(10)
