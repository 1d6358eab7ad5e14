"""Inference pipelines: raw text or images in, translated text or captions out, with attention
readings.

`opening` opens a runtime file as a `RuntimeTranslator`, without PyTorch, or has `loading` build a
`FolderTranslator` or `Captioner` from a model folder (from several: an ensemble). Both translators
are a `Translator`, which takes lines the way that `regard.text.text_path` describes; they only
decode: tokenizer, search, reranking, teacher forcing for readings and alignments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.lazy import lazy_names

if TYPE_CHECKING:
    from regard.pipeline.captioner import Caption, Captioner, ImageInput
    from regard.pipeline.folder_loading import load, load_captioner, load_translator
    from regard.pipeline.folder_translator import FolderTranslator
    from regard.pipeline.model_loading import open_runtime
    from regard.pipeline.runtime_translator import RuntimeTranslator
    from regard.pipeline.translator import Translator
    from regard.text.translation import AlignmentChoice, Translation, last_layer

__all__ = [
    "AlignmentChoice",
    "Caption",
    "Captioner",
    "FolderTranslator",
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
    "folder_translator": ("FolderTranslator",),
    "folder_loading": ("load", "load_captioner", "load_translator"),
    "model_loading": ("open_runtime",),
    "runtime_translator": ("RuntimeTranslator",),
    "translator": ("Translator",),
    "regard.text.translation": ("AlignmentChoice", "Translation", "last_layer"),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
