"""Export to a live page: one HTML file that translates in a browser, without a server or a
network.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.common.atomic import write_bytes
from regard.common.errors import ExportError, LineWarning, UsageError
from regard.data.languages import Languages, language_names
from regard.evaluation.faithfulness import measure_faithfulness
from regard.interchange import runtime
from regard.interchange.parity import Parity
from regard.interchange.probe_sentences import (
    DRAWN,
    SAMPLE,
    SAMPLE_LANGUAGES,
    real_sentences,
)
from regard.interchange.runtime import CardChanges
from regard.model_folder import load_folder, load_settings
from regard.models import Model
from regard.pipeline import default_choice, load_translator
from regard.runtime import native
from regard.runtime.model import RuntimeModel
from regard.runtime.module_script import module_script
from regard.visualisation.live_page import LiveModel, Trust, render_live_page

MAX_EXAMPLE = 200  # most characters of a sentence that a page proposes
EXAMPLES = 5
"""Maximum number of sentences that a page proposes."""
MEASURED = 12  # sentences on which the faithfulness of attention is measured


def export_page(
    folders: Sequence[Path],
    out: Path,
    source: Path | None = None,
    languages: Languages | None = None,
    readme: str | None = None,
    greeting: str = "",
) -> list[Parity]:
    """Write a page that translates with a model, or with two of opposite directions, in int8.

    Each model is compared with its runtime file, as `regard export --to runtime` does; `source`
    holds sentences for the first model. `languages` replaces the languages of the first model and,
    reversed, those of the second; `readme` replaces what both tell about themselves; `greeting`, in
    Markdown, is shown above them. Raises ExportError, with all causes, if a model cannot be
    exported or the runtime library for browsers is missing.
    """
    if not 1 <= len(folders) <= 2:
        raise UsageError(
            f"a page holds one model, or two of opposite directions; got {len(folders)}"
        )
    for folder in folders:
        if load_settings(folder).model.encoder.reads != "text":
            raise ExportError(f"{folder}: {runtime.READS_IMAGES}")
    try:
        wasm = native.wasm_file().read_bytes()
    except RuntimeError as problem:
        raise ExportError(str(problem)) from problem
    exported = [_model(folders[0], source, CardChanges(languages, readme))]
    if len(folders) == 2:
        reverse = None if languages is None else languages.reversed
        exported.append(_model(folders[1], None, CardChanges(reverse, readme)))
    out.parent.mkdir(exist_ok=True)
    models = [replace(model, greeting=greeting) for model, _ in exported]
    write_bytes(out, render_live_page(models, wasm, module_script()).encode())
    return [parity for _, parity in exported]


def _model(
    folder: Path, source: Path | None, changes: CardChanges
) -> tuple[LiveModel, Parity]:
    """Export one model, and return it with the comparison of both."""
    with tempfile.TemporaryDirectory(prefix="regard-page-") as temporary:
        file = Path(temporary) / "model.regard"
        parity = runtime.export(folder, file, "int8", source, "packed", changes)
        card = RuntimeModel(file).card
        content = file.read_bytes()
    codes = card["languages"]
    sentences, origin = real_sentences(
        folder, load_folder(folder).tokenizer.source, source, codes[0]
    )
    facts = {
        "languages": " → ".join(filter(None, codes)),
        "parameters": f"{card['parameters']:,}",
        "precision": card["precision"],
        "size": f"{len(content) / 1e6:.1f} MB",
        "fingerprint": card["fingerprint"],
        "regard": card["regard"],
    }
    # Random token sequences, and samples of another language, are no sentences of the model.
    is_of_language = origin != SAMPLE or codes[0] in SAMPLE_LANGUAGES
    are_real = origin != DRAWN and is_of_language
    all_names = language_names()
    model = LiveModel(
        content,
        languages=(codes[0], codes[1]),
        alignment=card["alignment"],
        examples=choose_examples(sentences, EXAMPLES if are_real else 1),
        readme=card["readme"],
        facts={name: value for name, value in facts.items() if value},
        trust=measure_trust(folder, sentences) if are_real else None,
        names={code: all_names[code][:2] for code in codes if code in all_names},
    )
    return model, parity


def choose_examples(sentences: Sequence[str], count: int) -> tuple[str, ...]:
    """Return up to `count` sentences of at most MAX_EXAMPLE characters: the first one, and others
    of all lengths, shortest first.
    """
    short = list(dict.fromkeys(line for line in sentences if len(line) <= MAX_EXAMPLE))
    others = sorted(short[1:], key=len)
    if count == 1 or not others:
        return tuple(short[:1])
    indices = [number * len(others) // (count - 1) for number in range(count - 1)]
    return (*short[:1], *(others[index] for index in dict.fromkeys(indices)))


def measure_trust(folder: Path, sentences: Sequence[str]) -> Trust | None:
    """Measure how well the attention that a page shows first agrees with attributions, on the first
    short sentences.

    Return None if the model has no attention, or if no sentence could be measured.
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
        # Long lines are split and then have no readings.
        if translation.readings is not None and translation.text:
            choice = translator.choice or default_choice(translation.readings)
            item = measure_faithfulness(
                translator, line, translation.ids, translation.readings, choice
            )
            measured.append((item.gradient_agreement, item.erasure_agreement))
    if not measured:
        return None
    agreement = {
        "gradient × input": _mean([gradient for gradient, _ in measured]),
        "word erasure": _mean([erasure for _, erasure in measured]),
    }
    return Trust(len(measured), agreement)


def _mean(values: Sequence[float]) -> float:
    """Return the mean of the numbers that are not NaN; NaN if there is none."""
    numbers = [value for value in values if not math.isnan(value)]
    return statistics.fmean(numbers) if numbers else math.nan
