"""Export to a live page: one HTML file that translates in a browser, without a server or a
network.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import warnings
from collections.abc import Sequence
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
from regard.model_folder import load_folder
from regard.models import Model
from regard.pipeline import last_layer, load_translator
from regard.runtime import native
from regard.runtime.model import RuntimeModel
from regard.visualisation.live_page import LiveModel, Trust, render_live_page

# Characters of a sentence that a page proposes, and how many of these, at most.
MAX_EXAMPLE, EXAMPLES = (
    200,
    5,
)
MEASURED = 12  # sentences on which the faithfulness of attention is measured


def export_page(
    folders: Sequence[Path],
    out: Path,
    source: Path | None = None,
    languages: Languages | None = None,
) -> list[Parity]:
    """Write a page that translates with a model, or with two of opposite directions, in int8.

    Each model is compared with its runtime file as `regard export --to runtime` does; `source`
    holds sentences for the first. `languages`: of the first, and of the second the other way round,
    instead of their own. Raises ExportError, with all causes, if a model cannot be exported or the
    library for browsers is missing.
    """
    if not 1 <= len(folders) <= 2:
        raise UsageError(
            f"a page holds one model, or two of opposite directions; got {len(folders)}"
        )
    try:
        wasm = native.wasm_file().read_bytes()
    except RuntimeError as problem:
        raise ExportError(str(problem)) from problem
    reverse = (
        None
        if languages is None
        else Languages(source=languages.target, target=languages.source)
    )
    options = [(source, languages), (None, reverse)]
    exported = [
        _model(folder, *own) for folder, own in zip(folders, options, strict=False)
    ]
    out.parent.mkdir(exist_ok=True)
    write_bytes(out, render_live_page([model for model, _ in exported], wasm).encode())
    return [parity for _, parity in exported]


def _model(
    folder: Path, source: Path | None, languages: Languages | None
) -> tuple[LiveModel, Parity]:
    with tempfile.TemporaryDirectory(prefix="regard-page-") as temporary:
        file = Path(temporary) / "model.regard"
        parity = runtime.export(folder, file, "int8", source, "packed", languages)
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
    shown = {name: value for name, value in facts.items() if value}
    # Of the model's language.
    is_own = origin != DRAWN and (origin != SAMPLE or codes[0] in SAMPLE_LANGUAGES)
    trust = measure_trust(folder, sentences) if is_own else None
    names = {
        code: language_names()[code][:2] for code in codes if code in language_names()
    }
    languages_shown = (codes[0], codes[1])
    examples = choose_examples(sentences, EXAMPLES if is_own else 1)
    model = LiveModel(
        content,
        languages_shown,
        card["alignment"],
        examples,
        card["readme"],
        shown,
        trust,
        names,
    )
    return model, parity


def choose_examples(sentences: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the first of the sentences that are short enough, and others of all lengths, shortest
    first.
    """
    short = list(dict.fromkeys(line for line in sentences if len(line) <= MAX_EXAMPLE))
    others = sorted(short[1:], key=len)
    places = (
        dict.fromkeys(place * len(others) // (count - 1) for place in range(count - 1))
        if count > 1
        else ()
    )
    return (*short[:1], *(others[place] for place in places if place < len(others)))


def measure_trust(folder: Path, sentences: Sequence[str]) -> Trust | None:
    """Measure how far the attention that a page shows first agrees with attributions, on some of
    the sentences.

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
        # Not split, and something was written.
        if translation.readings is not None and translation.text:
            target = translator.tokenizer.target.ids(translation.tokens)
            choice = translator.choice or last_layer(translation.readings)
            item = measure_faithfulness(
                translator, line, target, translation.readings, choice
            )
            measured.append((item.gradient_agreement, item.erasure_agreement))
    if not measured:
        return None
    columns = (
        [value for value in values if not math.isnan(value)]
        for values in zip(*measured, strict=True)
    )
    means = (statistics.fmean(numbers) if numbers else math.nan for numbers in columns)
    return Trust(
        len(measured),
        dict(zip(("gradient × input", "word erasure"), means, strict=True)),
    )
