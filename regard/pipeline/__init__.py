"""Inference pipelines: raw text or images in, translated text or captions out, with attention readings.

`opening` opens a runtime file as a `RuntimeTranslator`, without PyTorch, or has `loading` build a `Translator` or
`Captioner` from a model folder (from several: an ensemble). A line passes through
`line_splitter` (lines longer than any in training), the tokenizer, the engine's search, reranking and teacher forcing
for readings and alignments (`base`, `translator`, `captioner`), and comes out as a `Translation` or `Caption`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.lazy import lazy_names

if TYPE_CHECKING:
    from regard.pipeline.captioner import Caption, Captioner, ImageInput
    from regard.pipeline.loading import load, load_captioner, load_translator
    from regard.pipeline.opening import open_runtime
    from regard.pipeline.runtime_translator import RuntimeTranslator
    from regard.pipeline.translation import AlignmentChoice, Translation, last_layer
    from regard.pipeline.translator import Translator

__all__ = [
    "AlignmentChoice",
    "Caption",
    "Captioner",
    "ImageInput",
    "RuntimeTranslator",
    "Translation",
    "Translator",
    "last_layer",
    "load",
    "load_captioner",
    "load_translator",
    "open_runtime",
]

_MODULES = {
    "captioner": ("Caption", "Captioner", "ImageInput"),
    "loading": ("load", "load_captioner", "load_translator"),
    "opening": ("open_runtime",),
    "runtime_translator": ("RuntimeTranslator",),
    "translation": ("AlignmentChoice", "Translation", "last_layer"),
    "translator": ("Translator",),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
