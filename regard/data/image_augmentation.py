"""Image augmentation for training: random mirroring, cropping and colour jitter.

The seed, the epoch and the image alone determine what is drawn, so that a resumed run equals an
uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regard.common.counting import counted
from regard.data.batch import Example, Resample
from regard.data.caption_files import CaptionSet, mentions_side
from regard.data.images import AugmentParams, ImageSettings, SourcePixels
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import EOS


def flippable(
    caption_set: CaptionSet, settings: ImageSettings, writing: bool
) -> tuple[list[bool], str]:
    """Return which images may be mirrored, and a sentence for the report. `writing`: they show
    formulas or text.
    """
    if settings.flip != "auto":
        return [settings.flip] * len(
            caption_set
        ), "on, as set" if settings.flip else "off, as set"
    if writing:
        reason = "off: the captions are made of characters or tokens, so the images show writing"
        return [False] * len(caption_set), reason
    free = [not mentions_side(image.captions) for image in caption_set.images]
    if all(free):
        return free, "on: no caption says left or right"
    fixed = len(free) - sum(free)
    return (
        free,
        f"on, except for the {fixed:,} of {counted(len(free), 'image')} with a caption that says "
        "left or right",
    )


def varies(
    settings: ImageSettings, free: Sequence[bool], images: Sequence[SourcePixels]
) -> bool:
    """Return whether training images differ from epoch to epoch."""
    cropped = any(image.pixels.shape[:2] != image.size for image in images)
    return (
        any(free) or settings.random_crop > 0 or settings.colour_jitter > 0 or cropped
    )


def augmented(
    examples: Sequence[Example],
    free: Sequence[bool],
    settings: ImageSettings,
    tokenizer: Tokenizer,
    dropout: float,
) -> Resample:
    """Make a function that augments the images of examples and, with `dropout`, segments their
    captions anew.

    `free`: which images may be mirrored.
    """

    def resample(indices: Sequence[int], seed: int) -> list[Example]:
        varied = []
        for index in indices:
            example = examples[index]
            assert isinstance(example.source, SourcePixels), (
                "captions have images as sources"
            )
            generator = np.random.Generator(np.random.PCG64([seed, index]))
            params = _draw_params(example.source, settings, free[index], generator)
            varied.append(
                replace(example, source=replace(example.source, augment=params))
            )
        if not dropout:
            return varied
        texts = tokenizer.target.detokenised(
            [target for example in varied for target in example.targets]
        )
        ids = iter(tokenizer.sample([], texts, dropout, seed)[1])
        targets = [[[*next(ids), EOS] for _ in example.targets] for example in varied]
        return [
            replace(example, target=first, extra_targets=tuple(rest))
            for example, (first, *rest) in zip(varied, targets, strict=True)
        ]

    return resample


def _draw_params(
    image: SourcePixels,
    settings: ImageSettings,
    free: bool,
    generator: np.random.Generator,
) -> AugmentParams:
    """Draw crop, mirroring and colours; always with equally many draws, so that no setting changes
    another's draws.
    """
    draws = generator.random(8)
    (Y, X), (height, width) = image.pixels.shape[:2], image.size
    height = max(1, round(height * (1 - settings.random_crop * draws[0])))
    width = max(1, round(width * (1 - settings.random_crop * draws[1])))
    top = int(draws[2] * (Y - height + 1))
    left = int(draws[3] * (X - width + 1))
    colours = None
    if settings.colour_jitter:
        brightness, contrast, saturation = (
            1 + settings.colour_jitter * (2 * draws[5:] - 1)
        ).tolist()
        colours = (brightness, contrast, saturation)
    return AugmentParams(
        (top, left, top + height, left + width), bool(free and draws[4] < 0.5), colours
    )
