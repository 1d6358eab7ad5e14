"""From raw text to raw text: a folder is loaded, lines go in, translations come out, with what the model looked at."""

from regard.pipeline.loading import load
from regard.pipeline.translation import AlignmentChoice, Translation, last_layer
from regard.pipeline.translator import Translator

__all__ = ["AlignmentChoice", "Translation", "Translator", "last_layer", "load"]
