"""Sample images of coloured shapes, with English and Korean captions.

Each caption comes with the facts that it states and the image regions of its nouns.
"""

from regard.learn.samples.images.drawing import draw
from regard.learn.samples.images.scene import SIDE, Entity, Meaning
from regard.learn.samples.images.scene_corpus import (
    LANGUAGES,
    UNSEEN,
    CaptionedScene,
    ImageSample,
    image_sample,
)

__all__ = [
    "LANGUAGES",
    "SIDE",
    "UNSEEN",
    "CaptionedScene",
    "Entity",
    "ImageSample",
    "Meaning",
    "draw",
    "image_sample",
]
