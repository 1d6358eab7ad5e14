"""From raw text or pictures to raw text: a folder is loaded, and translates or captions, with what it looked at."""

from regard.pipeline.captioner import Caption, Captioner, ImageInput
from regard.pipeline.loading import load, load_captioner, load_translator
from regard.pipeline.translation import AlignmentChoice, Translation, last_layer
from regard.pipeline.translator import Translator

__all__ = [
    "AlignmentChoice",
    "Caption",
    "Captioner",
    "ImageInput",
    "Translation",
    "Translator",
    "last_layer",
    "load",
    "load_captioner",
    "load_translator",
]
