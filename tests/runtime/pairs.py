"""Translators of random weights, and their runtime files."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.small_models import folder

from regard.common.errors import LineWarning
from regard.model_folder import load_folder
from regard.pipeline import (
    AlignmentChoice,
    RuntimeTranslator,
    Translation,
    Translator,
    load_translator,
)
from regard.runtime.engine import EngineName, pack_model, why_not_packed
from regard.runtime.engine.runtime_file import runtime_file

Pair = tuple[Translator, RuntimeTranslator]
Maker = Callable[..., Pair]


def maker(new_folder: Callable[[], Path]) -> Maker:
    """Return a function that makes a translator of random weights and its runtime file, each once.

    `new_folder` names a folder that is not there yet.
    """
    made: dict[tuple[Any, ...], Pair] = {}

    def pair(
        encoder: str,
        decoder: str,
        precision: Any = "float32",
        copy_tokens: int = 0,
        languages: tuple[str, str] = ("", ""),
        **choice: Any,
    ) -> Pair:
        key = (encoder, decoder, precision, copy_tokens, languages, *choice.items())
        if key not in made:
            options: Any = {"copy_tokens": copy_tokens, "languages": languages}
            path = folder(new_folder(), encoder, decoder, end=0.5, **options)
            model = load_folder(path)

            assert why_not_packed(model.model) is None

            aligned = AlignmentChoice(**choice) if choice else None
            search = json.loads(model.settings.search.model_dump_json())
            values = {"precision": precision, "search": search, "languages": languages}
            packed = pack_model(model.model, precision)
            file = path.with_suffix(".regard")
            file.write_bytes(runtime_file(model, packed, aligned, values))
            reference: EngineName = "pytorch" if precision == "float32" else "auto"
            translator = load_translator(path, precision=precision, engine=reference)
            translator.choice = aligned
            made[key] = translator, RuntimeTranslator(file, threads=2)
        return made[key]

    return pair


def assert_same(pair: Pair, lines: Sequence[str], **options: Any) -> list[Translation]:
    """Translate with both, compare all that is told of the lines, and return the translations."""
    results = []
    notes = []
    for translator in pair:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results.append(translator.translate(lines, **options))
        messages = [one.message for one in caught]
        notes.append(
            [(m.index, str(m)) for m in messages if isinstance(m, LineWarning)]
        )

    expected, actual = results

    assert notes[1] == notes[0]

    for one, other in zip(actual, expected, strict=True):
        assert _told_of(one) == _told_of(other)
        assert _scores(one) == pytest.approx(_scores(other), abs=2e-4, rel=1e-4)
    return actual


def _told_of(translation: Translation) -> list[Any]:
    """Return what has to be equal to the letter."""
    told: list[Any] = [translation.notes, translation.doubtful, translation.repetition]
    told += [(part.source, part.text, part.doubtful) for part in translation.parts]
    for one in (translation, *translation.nbest):
        told.append((one.text, one.tokens, one.alignments, one.is_complete))
    return told


def _scores(translation: Translation) -> list[float]:
    return [one.score for one in (translation, *translation.parts, *translation.nbest)]
