"""Pictures drawn by code, with captions in English and Korean, the facts they state, and where each noun is."""

from regard.data.samples.pictures.corpus import LANGUAGES, UNSEEN, Captioned, PictureSample, pictures
from regard.data.samples.pictures.drawing import draw
from regard.data.samples.pictures.scene import SIDE, Box, Meaning, Scene, Thing
from regard.data.samples.pictures.wording import Caption, Language, Named

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
