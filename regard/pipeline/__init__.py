"""Inference pipelines from raw text or images to translations or captions, with attention readings.

`model_loading` opens a runtime file as a `RuntimeTranslator`, without PyTorch. `folder_loading`
builds a `FolderTranslator` or `Captioner` from a model folder, or from several as an ensemble. Both
translators are subclasses of `Translator`, which processes lines as `regard.text.text_path`
describes, and implement decoding: tokenizer, search, reranking, and teacher forcing for readings
and alignments.
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
    from regard.text.translation import (
        AlignmentChoice,
        Translation,
        default_choice,
        last_layer,
    )

__all__ = [
    "AlignmentChoice",
    "Caption",
    "Captioner",
    "FolderTranslator",
    "ImageInput",
    "RuntimeTranslator",
    "Translation",
    "Translator",
    "default_choice",
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
    "regard.text.translation": (
        "AlignmentChoice",
        "Translation",
        "default_choice",
        "last_layer",
    ),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
