"""Model folders with random weights, for tests that do not depend on its quality."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.common.checksums import tensor_digest
from regard.data.images import ImageSizeSettings
from regard.data.languages import Languages
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.vocabulary import EOS
from regard.model_folder import FolderSettings, named_weights, save_folder, save_weights
from regard.models import DECODERS, ENCODERS, ModelSettings, build
from regard.search import SearchSettings

SENTENCES = [
    "나는 집에 간다",
    "나는 빵을 먹고 있었다",
    "I go home",
    "I was eating bread",
    "너는 책을 읽는다",
    "you read a book",
]
ENCODER_KINDS = [e.model_fields["kind"].default for e in ENCODERS if e.reads == "text"]
DECODER_KINDS = [decoder.model_fields["kind"].default for decoder in DECODERS]
SMALL = {"size": 16, "dropout": 0.0}
SIDES: dict[str, dict[str, Any]] = {
    "transformer": {"layers": 2, "heads": 2, "feedforward": 16},
    "recurrent": {"embedding": 16},
    "no_attention": {"embedding": 16},
    "convolutional": {"layers": 2, "embedding": 16},
}
for kind in SIDES:
    SIDES[kind] |= {"kind": kind, **SMALL}


def pairs(unpack: bool = True) -> list[Any]:
    """Return each encoder with each decoder as parameters, all but one pair for each in the slow
    tests.

    Without `unpack` a pair is one parameter, as fixtures need it.
    """
    parameters = []
    for e, encoder in enumerate(ENCODER_KINDS):
        for d, decoder in enumerate(DECODER_KINDS):
            values = (encoder, decoder) if unpack else ((encoder, decoder),)
            marks = () if d % len(ENCODER_KINDS) == e else pytest.mark.slow
            parameters.append(
                pytest.param(*values, id=f"{encoder}-{decoder}", marks=marks)
            )
    return parameters


SHORT: dict[str, Any] = {"beam": 3, "max_ratio": 1.0, "max_extra": 8}
FRAME = ImageSizeSettings(height=12, width=20, cell=4)  # image size of the captioner


def folder(  # noqa: PLR0913 - the kinds of a model folder
    path: Path,
    encoder: str = "transformer",
    decoder: str = "transformer",
    end: float = 0.0,
    languages: tuple[str, str] = ("", ""),
    score_threshold: float | None = -8.0,
    copy_tokens: int = 0,
    normaliser: str = "",
    **search: Any,
) -> Path:
    """Write a model folder with random weights; `end` is the output bias of end of sentence,
    `normaliser` that of the decoder; `search` are settings.
    """
    torch.manual_seed(5)
    tokenizer_settings = TokenizerSettings(copy_tokens=copy_tokens)
    tokenizer = Tokenizer.train(SENTENCES, SENTENCES, tokenizer_settings)
    side = SIDES[decoder]
    if normaliser:
        side = {**side, "normaliser": normaliser}
    model_settings = ModelSettings.parse(
        {"encoder": SIDES[encoder], "decoder": side}, "test"
    )
    model = build(
        model_settings, len(tokenizer.source), len(tokenizer.target), joint=True
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
        model.decoder.output.bias[EOS] = end
        # It prefers single bytes, which may be control characters.
        if decoder == "convolutional":
            tokens = range(len(tokenizer.target))
            is_byte = [tokenizer.target._processor.is_byte(token) for token in tokens]
            model.decoder.output.bias[torch.tensor(is_byte)] = -10.0

    own = {**SHORT, "longest_source": 40, "score_threshold": score_threshold}
    settings = FolderSettings(
        model=model_settings,
        tokenizer=tokenizer_settings,
        search=SearchSettings(**(own | search)),
        languages=Languages(source=languages[0], target=languages[1]),
    )
    return _save(path, settings, tokenizer, model)


def captioner_folder(path: Path, decoder: str = "recurrent") -> Path:
    """Write a captioner with random weights: a ResNet with cells of 4 × 4 pixels, and a decoder."""
    torch.manual_seed(7)
    tokenizer_settings = TokenizerSettings()
    tokenizer = Tokenizer.train(SENTENCES, SENTENCES, tokenizer_settings)
    encoder = {"kind": "resnet", "depths": [1, 1], "width": 8, **SMALL}
    model_settings = ModelSettings.parse(
        {"encoder": encoder, "decoder": SIDES[decoder]}, "test"
    )
    model = build(
        model_settings, len(tokenizer.source), len(tokenizer.target), joint=True
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
        model.decoder.output.bias[EOS] = -1.0

    search = SearchSettings(**SHORT)
    settings = FolderSettings(
        model=model_settings, tokenizer=tokenizer_settings, search=search, images=FRAME
    )
    return _save(path, settings, tokenizer, model)


def _save(
    path: Path, settings: FolderSettings, tokenizer: Tokenizer, model: Any
) -> Path:
    weights = named_weights(model)
    save_folder(path, settings, tokenizer, origin=tensor_digest(weights, {}))
    save_weights(path, weights)
    return path
