"""A small exported model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.small_models import folder

from regard.model_folder import load_folder
from regard.pipeline import AlignmentChoice
from regard.runtime.engine import pack_model
from regard.runtime.engine.runtime_file import runtime_file


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that writes the runtime file of a model with random weights, each once."""
    made: dict[tuple[Any, ...], Path] = {}

    def file(
        encoder: str = "transformer",
        decoder: str = "transformer",
        precision: Any = "float32",
        copy_tokens: int = 0,
        languages: tuple[str, str] = ("", ""),
    ) -> Path:
        key = (encoder, decoder, precision, copy_tokens, languages)
        if key not in made:
            new = tmp_path_factory.mktemp("model") / "run"
            rest = {"copy_tokens": copy_tokens, "languages": languages}
            path = folder(new, encoder, decoder, end=0.5, **rest)  # type: ignore[arg-type]
            model = load_folder(path)
            choice = (
                AlignmentChoice("decoder.layers.0.cross_attention", 1, False)
                if decoder == "transformer"
                else None
            )
            values: dict[str, Any] = {
                "precision": precision,
                "search": json.loads(model.settings.search.model_dump_json()),
            }
            values["languages"] = languages
            made[key] = path.with_suffix(".regard")
            made[key].write_bytes(
                runtime_file(model, pack_model(model.model, precision), choice, values)
            )
        return made[key]

    return file
