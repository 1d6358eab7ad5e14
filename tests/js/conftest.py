"""A small exported model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.pairs import maker

ALIGNMENT: dict[str, Any] = {
    "layer": "decoder.layers.0.cross_attention",
    "head": 1,
    "shifted": False,
}


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that writes the runtime file of a model with random weights, each once."""
    make_pair = maker(lambda: tmp_path_factory.mktemp("model") / "run")

    def file(
        encoder: str = "transformer",
        decoder: str = "transformer",
        *rest: Any,
        **more: Any,
    ) -> Path:
        choice = ALIGNMENT if decoder == "transformer" else {}
        _, runtime = make_pair(encoder, decoder, *rest, **more, **choice)
        return runtime.model.path

    return file
