"""Served model folders that only PyTorch can run: captioners, and translators that cannot be
exported.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from regard.explain.explanation import explain_caption
from regard.model_folder import folder_languages, load_language_id
from regard.pipeline.captioner import Captioner
from regard.pipeline.folder_loading import load
from regard.pipeline.folder_translator import FolderTranslator
from regard.serving.results import served_hypotheses
from regard.serving.served_translator import ServedTranslator
from regard.serving.service import SearchRequest, ServedHypothesis
from regard.visualisation.explanation_data import page_data


def open_folder(
    path: Path,
    precision: Any,
    threads: int,
    most_bytes: int,
    languages: Sequence[str] = (),
) -> ServedFolder | ServedCaptioner:
    """Load a model folder. Raises ModelFolderError if it is damaged.

    `languages`: codes of source and target, whose casing rules apply; by default those of the
    folder.
    """
    torch.set_num_threads(threads)
    pipeline = load(path, precision=precision)
    warnings.simplefilter("ignore")  # the notes of each line say the same
    description = _describe(path, pipeline, precision)
    if isinstance(pipeline, Captioner):
        return ServedCaptioner(pipeline, description)
    return ServedFolder(pipeline, description, most_bytes, languages)


def _describe(
    path: Path, pipeline: FolderTranslator | Captioner, precision: str
) -> dict[str, Any]:
    """Return the description of a model, in the same format as that of a runtime file."""
    languages = folder_languages(path)
    language_id = load_language_id(path)
    readme = path / "README.md"
    card = {
        "parameters": sum(
            parameter.numel() for parameter in pipeline.model.parameters()
        ),
        "precision": precision,
        "languages": [languages.source, languages.target],
        "readme": readme.read_text("utf-8", "replace") if readme.is_file() else "",
    }
    return {
        "kind": "captions" if isinstance(pipeline, Captioner) else "translation",
        "engine": "pytorch",
        "card": card,
        "has_attention": True,
        "language_id": language_id.to_json() if language_id else "",
    }


class ServedFolder(ServedTranslator):
    """A translator that PyTorch runs."""

    def __init__(
        self,
        translator: FolderTranslator,
        description: dict[str, Any],
        most_bytes: int,
        languages: Sequence[str],
    ) -> None:
        super().__init__(
            translator, translator.attention_heads(), most_bytes, languages
        )
        self._description = description

    def about(self) -> dict[str, Any]:
        """Return the description of the model."""
        return self._description


class ServedCaptioner:
    """A captioner, which runs on PyTorch in the thread of its caller."""

    def __init__(self, captioner: Captioner, description: dict[str, Any]) -> None:
        self._captioner = captioner
        self._description = description

    def about(self) -> dict[str, Any]:
        """Return the description of the model."""
        return self._description

    def check(self) -> None:
        """Do nothing: the model is in memory, so changes of its files do not matter."""

    def caption(self, image: bytes, search: SearchRequest) -> list[ServedHypothesis]:
        """Caption an image, the bytes of a PNG, JPEG or WebP file.

        Raises DataError if the bytes are no such image, and Stopped.
        """
        options = search.given_options(self._captioner.settings.search.beam)
        needs_attention = search.attention != "none"
        (caption,) = self._captioner.caption(
            [image], nbest=search.nbest, readings=needs_attention, **options
        )
        return served_hypotheses(caption, search)

    def explain_image(self, image: bytes) -> msgspec.Raw:
        """Return a caption as data for figures: the image as the model sees it, and the cells that
        each word attends to.
        """
        caption, data = explain_caption(self._captioner, image)
        return msgspec.Raw(msgspec.json.encode(page_data(data, caption.text, ("", ""))))
