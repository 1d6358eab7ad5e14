"""Pictures drawn by code, with captions in English and Korean, the facts they state, and where each noun is."""

from regard.samples.images.corpus import LANGUAGES, UNSEEN, Captioned, PictureSample, pictures
from regard.samples.images.drawing import draw
from regard.samples.images.scene import SIDE, Box, Meaning, Scene, Thing
from regard.samples.images.wording import Caption, Language, Named

__all__ = [
    "LANGUAGES",
    "SIDE",
    "UNSEEN",
    "Box",
    "Caption",
    "Captioned",
    "Language",
    "Meaning",
    "Named",
    "PictureSample",
    "Scene",
    "Thing",
    "draw",
    "pictures",
]
