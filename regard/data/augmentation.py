"""Training pictures looked at anew in each epoch: mirrored, cut, in another light. What is drawn depends on the seed,
the epoch and the picture alone, so that a resumed run sees what an uninterrupted one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pydantic
from pydantic import Field

from regard.data.batch import Example, Resample
from regard.data.caption_files import CaptionSet, mentions_side
from regard.data.images import AugmentParams, ImageSizeSettings, SourcePixels
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import EOS

__all__ = ["ImageSettings", "augmented", "flippable", "varies"]


class ImageSettings(ImageSizeSettings):
    """Where pictures and captions come from, and how training sees them."""

    folder: str | None = Field(None, description="Folder of the pictures; names in the captions are seen from there.")
    captions: str | None = Field(
        None, description="Their captions: lines of file, tab, caption; Flickr8k tokens; COCO JSON; or JSON lines."
    )
    valid_captions: str | None = Field(None, description="Captions on which training is watched.")
    valid_folder: str | None = Field(None, description="Folder of their pictures, where it is another.")
    skip_bad: bool = Field(False, description="Leave out what cannot be used, and count it, instead of refusing all.")
    captions_per_image: int = Field(
        5, ge=1, description="Captions of a picture that are learnt together: it is read once."
    )
    flip: bool | Literal["auto"] = Field(
        "auto",
        description="Mirror every second training picture; auto: but not those whose captions say left or right, nor "
        "where a vocabulary of characters or tokens says that the pictures are of writing.",
    )
    random_crop: float = Field(
        0.0, ge=0, lt=1, description="Leave out up to this share of both sides of training pictures, at random."
    )
    colour_jitter: float = Field(
        0.0, ge=0, lt=1, description="Change light, contrast and colour of training pictures by up to this share."
    )

    @pydantic.model_validator(mode="after")
    def _are_named(self) -> ImageSettings:
        if self.folder is None or self.captions is None:
            given, missing = ("folder", "captions") if self.captions is None else ("captions", "folder")
            without = f"{given} is given without {missing}; " if self.folder != self.captions else ""
            raise ValueError(f"{without}give folder and captions (--images and --captions)")
        return self

    @property
    def paths(self) -> dict[str, Path]:
        """Every file of captions by corpus and role."""
        given = {"train.captions": self.captions, "valid.captions": self.valid_captions}
        return {role: Path(path) for role, path in given.items() if path is not None}

    @property
    def size_settings(self) -> ImageSizeSettings:
        """What of this is kept with a model."""
        return ImageSizeSettings(**{name: getattr(self, name) for name in ImageSizeSettings.model_fields})


def flippable(album: CaptionSet, settings: ImageSettings, writing: bool) -> tuple[list[bool], str]:
    """Which pictures may be mirrored, and a sentence for the report. `writing`: they are of formulas or of text."""
    if settings.flip != "auto":
        return [settings.flip] * len(album), "on, as asked" if settings.flip else "off, as asked"
    if writing:
        return [False] * len(album), "off: the captions are made of characters or tokens, so the pictures show writing"
    free = [not mentions_side(picture.captions) for picture in album.images]
    if all(free):
        return free, "on: no caption says left or right"
    kept = len(free) - sum(free)
    return free, f"on, but for the {kept:,} of {len(free):,} pictures of which a caption says left or right"


def varies(settings: ImageSettings, free: Sequence[bool], pictures: Sequence[SourcePixels]) -> bool:
    """Whether training pictures are not the same in each epoch."""
    cropped = any(picture.pixels.shape[:2] != picture.size for picture in pictures)
    return any(free) or settings.random_crop > 0 or settings.colour_jitter > 0 or cropped


def augmented(
    examples: Sequence[Example],
    free: Sequence[bool],
    settings: ImageSettings,
    captions: Sequence[Sequence[str]] | None = None,
    tokenizer: Tokenizer | None = None,
    dropout: float = 0.0,
) -> Resample:
    """Gives examples anew: their pictures looked at in another way and, with `dropout`, their `captions` cut into other
    pieces. `free`: which may be mirrored.
    """

    def again(lines: Sequence[int], seed: int) -> list[Example]:
        found = []
        for line in lines:
            example = examples[line]
            assert isinstance(example.source, SourcePixels), "captions are of pictures"
            chance = np.random.Generator(np.random.PCG64([seed, line]))
            picture = replace(example.source, augment=_drawn_augmentation(example.source, settings, free[line], chance))
            found.append(replace(example, source=picture))
        if captions is None or tokenizer is None:
            return found
        texts = [caption for line in lines for caption in captions[line]]
        cut = iter(tokenizer.sample([], texts, dropout, seed)[1])
        targets = [[[*next(cut), EOS] for _ in captions[line]] for line in lines]
        return [
            replace(example, target=first, extra_targets=tuple(more))
            for example, (first, *more) in zip(found, targets, strict=True)
        ]

    return again


def _drawn_augmentation(
    picture: SourcePixels, settings: ImageSettings, free: bool, chance: np.random.Generator
) -> AugmentParams:
    """Always as many draws, so that no setting changes what another one draws."""
    draws = chance.random(8)
    (Y, X), (height, width) = picture.pixels.shape[:2], picture.size
    height = max(1, round(height * (1 - settings.random_crop * draws[0])))
    width = max(1, round(width * (1 - settings.random_crop * draws[1])))
    top, left = int(draws[2] * (Y - height + 1)), int(draws[3] * (X - width + 1))
    colours = None
    if settings.colour_jitter:
        light, contrast, colour = (1 + settings.colour_jitter * (2 * draws[5:] - 1)).tolist()
        colours = (light, contrast, colour)
    return AugmentParams((top, left, top + height, left + width), bool(free and draws[4] < 0.5), colours)
