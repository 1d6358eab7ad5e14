"""Export to a live page: one HTML file that translates in a browser, without a server or a network."""

from __future__ import annotations

import json
import math
import re
import statistics
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.atomic import write_bytes
from regard.errors import ExportError, LineWarning, UsageError
from regard.evaluation.faithfulness import measure_faithfulness
from regard.interchange import runtime
from regard.interchange.parity import Parity
from regard.interchange.probe_sentences import DRAWN, SAMPLE, SAMPLE_LANGUAGES, real_sentences
from regard.model_folder import load_folder
from regard.models import Model
from regard.pipeline import last_layer, load_translator
from regard.runtime import native
from regard.runtime.model import RuntimeModel
from regard.visualisation.live import LiveModel, Trust, render_live_page

MAX_EXAMPLE = 200
"""Characters of the sentence that a page opens with, at most."""
MEASURED = 12
"""Sentences on which the faithfulness of attention is measured."""


def export_page(folders: Sequence[Path], out: Path, source: Path | None = None) -> list[Parity]:
    """Write a page that translates with a model, or with two of opposite directions, in int8.

    Each model is compared with its runtime file as `regard export --to runtime` does; `source` holds sentences for the
    first. Raises ExportError, with all causes, if a model cannot be exported or the library for browsers is missing.
    """
    if not 1 <= len(folders) <= 2:
        raise UsageError(f"a page holds one model, or two of opposite directions; got {len(folders)}")
    try:
        wasm = native.wasm_file().read_bytes()
    except RuntimeError as problem:
        raise ExportError(str(problem)) from problem
    models, parities = [], []
    for number, folder in enumerate(folders):
        model, parity = _model(folder, None if number else source)
        models.append(model)
        parities.append(parity)
    out.parent.mkdir(exist_ok=True)
    write_bytes(out, render_live_page(models, wasm).encode())
    return parities


def _model(folder: Path, source: Path | None) -> tuple[LiveModel, Parity]:
    with tempfile.TemporaryDirectory(prefix="regard-page-") as temporary:
        file = Path(temporary) / "model.regard"
        parity = runtime.export(folder, file, "int8", source, "packed")
        card, content = RuntimeModel(file).card, file.read_bytes()
    languages = languages_of(folder)
    vocabulary = load_folder(folder).tokenizer.source
    sentences, origin = real_sentences(folder, vocabulary, source, languages[0])
    example = next((line for line in sentences if len(line) <= MAX_EXAMPLE), "")
    facts = {
        "languages": " → ".join(filter(None, languages)),
        "parameters": f"{card['parameters']:,}",
        "precision": card["precision"],
        "size": f"{len(content) / 1e6:.1f} MB",
        "fingerprint": card["fingerprint"],
        "regard": card["regard"],
    }
    shown = {name: value for name, value in facts.items() if value}
    is_own = origin != DRAWN and (origin != SAMPLE or languages[0] in SAMPLE_LANGUAGES)  # of the model's language
    trust = measure_trust(folder, sentences) if is_own else None
    return LiveModel(content, languages, card["alignment"], example, card["readme"], shown, trust), parity


def measure_trust(folder: Path, sentences: Sequence[str]) -> Trust | None:
    """Measure how far the attention that a page shows first agrees with attributions, on some of the sentences.

    None: the model has no attention, or no sentence could be measured.
    """
    translator = load_translator(folder)
    if not isinstance(translator.model, Model) or not translator.cross_attention():
        return None
    short = [line for line in sentences if len(line) <= MAX_EXAMPLE][:MEASURED]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LineWarning)  # nobody reads these translations
        translations = translator.translate(short, readings=True)
    measured = []
    for line, translation in zip(short, translations, strict=True):
        if translation.readings is None or not translation.text:
            continue  # split, or nothing was written
        target = translator.tokenizer.target.ids(translation.tokens)
        choice = translator.choice or last_layer(translation.readings)
        measured.append(measure_faithfulness(translator, line, target, translation.readings, choice))
    if not measured:
        return None
    pairs = {
        "gradient × input": [item.gradient_agreement for item in measured],
        "word erasure": [item.erasure_agreement for item in measured],
    }
    return Trust(len(measured), {name: _mean(values) for name, values in pairs.items()})


def _mean(values: Sequence[float]) -> float:
    """Return the mean of the numbers among the values; NaN if there are none."""
    numbers = [value for value in values if not math.isnan(value)]
    return statistics.fmean(numbers) if numbers else math.nan


def languages_of(folder: Path) -> tuple[str, str]:
    """Return the languages of source and target, by the names of training files such as train.en; empty: unknown."""
    try:
        values: Any = json.loads((folder / "data.json").read_text("utf-8"))
        paths = [Path(values["files"][f"train.{side}"]["path"]) for side in ("source", "target")]
    except (OSError, ValueError, KeyError, TypeError):
        return "", ""
    names = [path.suffix.removeprefix(".") for path in paths]
    source, target = (name if re.fullmatch("[a-z]{2,3}", name) and name not in ("txt", "tsv") else "" for name in names)
    return source, target
