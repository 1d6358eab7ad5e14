"""Export to a live page: one HTML file that translates in a browser, without a server or a network."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from regard.atomic import write_bytes
from regard.data.languages import Languages
from regard.errors import ExportError, UsageError
from regard.interchange import runtime
from regard.interchange.parity import Parity
from regard.interchange.probe_sentences import real_sentences
from regard.model_folder import load_folder
from regard.runtime import native
from regard.runtime.model import RuntimeModel
from regard.visualisation.live import LiveModel, render_live_page

MAX_EXAMPLE = 200
"""Characters of the sentence that a page opens with, at most."""


def export_page(
    folders: Sequence[Path], out: Path, source: Path | None = None, languages: Languages | None = None
) -> list[Parity]:
    """Write a page that translates with a model, or with two of opposite directions, in int8.

    Each model is compared with its runtime file as `regard export --to runtime` does; `source` holds sentences for the
    first. `languages`: of the first, and of the second the other way round, instead of their own.
    Raises ExportError, with all causes, if a model cannot be exported or the library for browsers is missing.
    """
    if not 1 <= len(folders) <= 2:
        raise UsageError(f"a page holds one model, or two of opposite directions; got {len(folders)}")
    try:
        wasm = native.wasm_file().read_bytes()
    except RuntimeError as problem:
        raise ExportError(str(problem)) from problem
    models, parities = [], []
    reverse = None if languages is None else Languages(source=languages.target, target=languages.source)
    for number, folder in enumerate(folders):
        model, parity = _model(folder, *((None, reverse) if number else (source, languages)))
        models.append(model)
        parities.append(parity)
    out.parent.mkdir(exist_ok=True)
    write_bytes(out, render_live_page(models, wasm).encode())
    return parities


def _model(folder: Path, source: Path | None, languages: Languages | None) -> tuple[LiveModel, Parity]:
    with tempfile.TemporaryDirectory(prefix="regard-page-") as temporary:
        file = Path(temporary) / "model.regard"
        parity = runtime.export(folder, file, "int8", source, "packed", languages)
        card, content = RuntimeModel(file).card, file.read_bytes()
    sentences, _ = real_sentences(folder, load_folder(folder).tokenizer.source, source)
    example = next((line for line in sentences if len(line) <= MAX_EXAMPLE), "")
    codes = card["languages"]
    facts = {
        "languages": " → ".join(filter(None, codes)),
        "parameters": f"{card['parameters']:,}",
        "precision": card["precision"],
        "size": f"{len(content) / 1e6:.1f} MB",
        "fingerprint": card["fingerprint"],
        "regard": card["regard"],
    }
    shown = {name: value for name, value in facts.items() if value}
    return LiveModel(content, (codes[0], codes[1]), card["alignment"], example, card["readme"], shown), parity
