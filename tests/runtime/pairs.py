"""Translators of random weights, and their runtime files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from small import folder

from regard.model_folder import load_folder
from regard.pipeline import AlignmentChoice, RuntimeTranslator, Translator, load_translator
from regard.runtime.engine import EngineName, pack_model, why_not_packed
from regard.runtime.engine.runtime_file import runtime_file

Maker = Callable[..., tuple[Translator, RuntimeTranslator]]


def maker(new_folder: Callable[[], Path]) -> Maker:
    """Return a function that makes a translator of random weights and its runtime file, each once.

    `new_folder` names a folder that is not there yet.
    """
    made: dict[tuple[Any, ...], tuple[Translator, RuntimeTranslator]] = {}

    def pair(
        encoder: str, decoder: str, precision: Any = "float32", copy_tokens: int = 0, **choice: Any
    ) -> tuple[Translator, RuntimeTranslator]:
        key = (encoder, decoder, precision, copy_tokens, *choice.items())
        if key not in made:
            path = folder(new_folder(), encoder, decoder, end=0.5, copy_tokens=copy_tokens)
            model = load_folder(path)
            assert why_not_packed(model.model) is None
            aligned = AlignmentChoice(**choice) if choice else None
            values = {
                "precision": precision,
                "search": json.loads(model.settings.search.model_dump_json()),
            }
            file = path.with_suffix(".regard")
            file.write_bytes(
                runtime_file(model, pack_model(model.model, precision), aligned, values)
            )
            reference: EngineName = "pytorch" if precision == "float32" else "auto"
            translator = load_translator(path, precision=precision, engine=reference)
            translator.choice = aligned
            made[key] = translator, RuntimeTranslator(file, threads=2)
        return made[key]

    return pair
