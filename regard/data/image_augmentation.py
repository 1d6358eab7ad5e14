"""Image augmentation for training: random mirroring, cropping and colour jitter.

The random choices depend on the seed, the epoch and the image alone, so that a resumed run equals
an uninterrupted one.
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
    """Return for each image whether it may be mirrored, and a sentence for the report.

    `writing` says that the images show formulas or text.
    """
    if settings.flip != "auto":
        note = "on, as set" if settings.flip else "off, as set"
        return [settings.flip] * len(caption_set), note
    if writing:
        note = "off: the captions are made of characters or tokens, so the images show writing"
        return [False] * len(caption_set), note
    may_flip = [not mentions_side(image.captions) for image in caption_set.images]
    if all(may_flip):
        return may_flip, "on: no caption says left or right"
    exceptions = len(may_flip) - sum(may_flip)
    note = (
        f"on, except for the {exceptions:,} of {counted(len(may_flip), 'image')} with a caption "
        "that says left or right"
    )
    return may_flip, note


def varies(
    settings: ImageSettings, free: Sequence[bool], images: Sequence[SourcePixels]
) -> bool:
    """Return whether training images differ from epoch to epoch; `free` are those that may be
    mirrored.
    """
    if any(free) or settings.random_crop > 0 or settings.colour_jitter > 0:
        return True
    return any(image.pixels.shape[:2] != image.size for image in images)


def augmented(
    examples: Sequence[Example],
    free: Sequence[bool],
    settings: ImageSettings,
    tokenizer: Tokenizer,
    dropout: float,
) -> Resample:
    """Make a function that augments the images of examples and, with `dropout`, segments their
    captions anew.

    `free` says of each image whether it may be mirrored.
    """

    def resample(indices: Sequence[int], seed: int) -> list[Example]:
        augmented_examples = []
        for index in indices:
            example = examples[index]
            image = example.source
            assert isinstance(image, SourcePixels), "captions have images as sources"
            generator = np.random.Generator(np.random.PCG64([seed, index]))
            params = _draw_params(image, settings, free[index], generator)
            image = replace(image, augment=params)
            augmented_examples.append(replace(example, source=image))
        if not dropout:
            return augmented_examples
        return _resegmented(augmented_examples, tokenizer, dropout, seed)

    return resample


def _resegmented(
    examples: Sequence[Example], tokenizer: Tokenizer, dropout: float, seed: int
) -> list[Example]:
    """Return the examples with newly sampled segmentations of their captions."""
    texts = tokenizer.target.detokenised(
        [target for example in examples for target in example.targets]
    )
    _, sampled = tokenizer.sample([], texts, dropout, seed)
    ids = iter(sampled)
    resegmented = []
    for example in examples:
        first, *others = [[*next(ids), EOS] for _ in example.targets]
        resegmented.append(replace(example, target=first, extra_targets=tuple(others)))
    return resegmented


def _draw_params(
    image: SourcePixels,
    settings: ImageSettings,
    free: bool,
    generator: np.random.Generator,
) -> AugmentParams:
    """Draw the crop, the mirroring and the colours of an image.

    The number of draws is always the same, so that no setting affects the draws of another.
    """
    draws = generator.random(8)
    Y, X = image.pixels.shape[:2]
    height, width = image.size
    height = max(1, round(height * (1 - settings.random_crop * draws[0])))
    width = max(1, round(width * (1 - settings.random_crop * draws[1])))
    top = int(draws[2] * (Y - height + 1))
    left = int(draws[3] * (X - width + 1))
    box = (top, left, top + height, left + width)
    is_mirrored = bool(free and draws[4] < 0.5)
    colours = None
    if settings.colour_jitter:
        factors = 1 + settings.colour_jitter * (2 * draws[5:] - 1)
        brightness, contrast, saturation = factors.tolist()
        colours = (brightness, contrast, saturation)
    return AugmentParams(box, is_mirrored, colours)
