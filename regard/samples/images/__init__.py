"""Sample images of coloured shapes, with English and Korean captions, the facts they state, and noun regions."""

from regard.samples.images.corpus import LANGUAGES, UNSEEN, CaptionedScene, ImageSample, image_sample
from regard.samples.images.drawing import draw
from regard.samples.images.scene import SIDE, Box, Meaning, Scene, Thing
from regard.samples.images.wording import Caption, Language, Mention

__all__ = [
    "LANGUAGES",
    "SIDE",
    "UNSEEN",
    "Box",
    "Caption",
    "CaptionedScene",
    "ImageSample",
    "Language",
    "Meaning",
    "Mention",
    "Scene",
    "Thing",
    "draw",
    "image_sample",
]
