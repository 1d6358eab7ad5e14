"""Inference pipelines: raw text or images in, translated text or captions out, with attention readings.

`loading` builds a `Translator` or `Captioner` from a model folder (from several: an ensemble). A line passes through
`line_splitter` (lines longer than any in training), the tokenizer, the engine's search, reranking and teacher forcing
for readings and alignments (`base`, `translator`, `captioner`), and comes out as a `Translation` or `Caption`.
"""

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
