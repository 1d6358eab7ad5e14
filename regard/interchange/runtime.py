"""Export to a runtime file: one file that translates without PyTorch, kept only if it translates as the model does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import regard
from regard.atomic import atomic_file
from regard.attention.alignment_choice import AlignmentChoice
from regard.data.languages import Languages
from regard.data.vocabulary import EOS
from regard.engine.packed_model import PackedModel, pack_model, why_not_packed
from regard.engine.program import Precision
from regard.engine.runtime_file import FORMAT, runtime_file, share_embeddings
from regard.errors import ExportError
from regard.interchange.parity import Parity
from regard.interchange.probe_sentences import real_sentences
from regard.model_folder import ModelFolder, load_folder, load_language_id, model_fingerprint
from regard.models import Batch
from regard.pipeline import RuntimeTranslator
from regard.pipeline.loading import alignment_choice
from regard.runtime.model import is_runtime_file
from regard.search import SearchSettings, Task, decode

Embeddings = Literal["table", "packed"]
TOKENS, GREEDY, BEAM = "tokenisation", "greedy search", "beam search"
LEAST = {"float32": 0.97, "bfloat16": 0.8, "int8": 0.9}
"""Least share of sentences that have the same tokens as those of the packed model; float32: as the model's own."""
MAX_DIFFERENCE = 1e-3
"""Largest difference of scores of equal translations."""


def export(
    folder: Path,
    out: Path,
    precision: Precision = "int8",
    source: Path | None = None,
    embeddings: Embeddings = "table",
    languages: Languages | None = None,
) -> Parity:
    """Write a model folder as a runtime file, and compare the two on real sentences: those of `source`, or of the
    validation data in its folder, or of the sample.

    `embeddings`: of a precision below float32, a table of their own, or, if they are tied to the output projection, the
    packed one, for a smaller file. In float32 these are the same numbers, and lie in the file once.
    `languages`: of source and target; those of the folder if not given.
    Raises ExportError, with all causes, if the file could not hold the model or translates differently; nothing is left
    behind then.
    """
    if out.exists() and not is_runtime_file(out):
        raise ExportError(f"{out}: there is something already that is no runtime file; choose a new name, or remove it")
    model = load_folder(folder)
    if causes := obstacles(model):
        raise ExportError(*(f"{folder}: {cause}" for cause in causes))
    packed = pack_model(model.model, precision)
    if embeddings == "packed":
        share_embeddings(packed)
    sentences, origin = real_sentences(folder, model.tokenizer.source, source)
    choice = alignment_choice(folder, model)
    languages = languages or model.settings.languages
    about = card(folder, model, precision, choice, languages)
    content = runtime_file(model, packed, choice, about, _language_id(folder, model, languages))
    out.parent.mkdir(exist_ok=True)
    with atomic_file(out, durable=True) as beside:
        beside.write_bytes(content)
        parity = compare(model, packed, RuntimeTranslator(beside, threads=1), sentences, origin)
        _check(parity, precision)
    return parity


def obstacles(model: ModelFolder) -> list[str]:
    """Return why a model cannot be exported, a sentence for each cause."""
    settings, causes = model.settings, list[str]()
    if settings.model.encoder.reads != "text":
        causes.append("this model reads images, and their encoders run on PyTorch only; export a translator")
    elif (reason := why_not_packed(model.model)) is not None:
        causes.append(f"{reason}; a runtime file holds nothing but such programs")
    defaults = SearchSettings.model_fields
    unsupported = ("sample", "mbr", "coverage_penalty", "groups")
    causes += [
        f"search.{name} = {value!r}: a runtime file is searched greedily or with a beam; set it back in config.json"
        for name in unsupported
        if (value := getattr(settings.search, name)) != defaults[name].default
    ]
    return causes


def _language_id(folder: Path, model: ModelFolder, languages: Languages) -> str:
    """Return what tells the languages apart, with the codes that they have now; empty: the folder has none."""
    language_id = load_language_id(folder)
    if language_id is None:
        return ""
    codes = dict(zip(model.settings.languages.pair, languages.pair, strict=True))
    return language_id.renamed(codes).to_json(model.settings.seal.id)


def card(
    folder: Path, model: ModelFolder, precision: Precision, choice: AlignmentChoice | None, languages: Languages
) -> dict[str, Any]:
    """Return what the file says of the model."""
    readme = folder / "README.md"
    return {
        "regard": regard.__version__,
        "format": FORMAT,
        "languages": languages.pair,
        "language_codes": model.tokenizer.source.language_codes,
        "precision": precision,
        "fingerprint": model_fingerprint(folder),
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "model": json.loads(model.settings.model.model_dump_json()),
        "tokenizer": json.loads(model.settings.tokenizer.model_dump_json()),
        "search": json.loads(model.settings.search.model_dump_json()),
        "warnings": model.settings.model.ablations(),
        "alignment": asdict(choice) if choice else None,
        "readme": readme.read_text("utf-8", "replace") if readme.is_file() else "",
    }


def compare(
    model: ModelFolder, packed: PackedModel, exported: RuntimeTranslator, sentences: Sequence[str], origin: str
) -> Parity:
    """Tokenise and translate with both, by greedy search and with a beam; the model itself in float32, else packed."""
    sources = [[*model.tokenizer.source.encode(text), EOS] for text in sentences]
    mismatches = {TOKENS: sum(ids != exported.encode(text) for ids, text in zip(sources, sentences, strict=True))}
    original: Any = model.model if packed.precision == "float32" else packed
    difference = 0.0
    for name, beam in ((GREEDY, 1), (BEAM, model.settings.search.beam)):
        search_settings = model.settings.search
        changed = {"min_length": max(1, search_settings.min_length), "max_whole": max(map(len, sources))}
        settings = search_settings.with_values(beam=beam, longest_source=None, **changed)
        options = exported.model.options()
        options.beam = beam
        results = exported.model.translate(sentences, options)
        mismatches[name] = 0
        for ids, line in zip(sources, results, strict=True):
            if len(line.parts) != 1 or not line.source:  # split, or without letters
                continue
            batch = Batch.of([ids], original.device)
            max_steps = settings.max_steps(len(ids), original.max_target)
            task = Task(0, max_steps, byte_tokens=model.tokenizer.target.byte_tokens)
            (reference,) = decode(original, original.encode(batch), [task], settings)
            best, expected = line.hypotheses[0], reference[0]
            same = best.ids == expected.ids
            mismatches[name] += not same
            difference = max(difference, abs(best.score - expected.score)) if same else difference
    return Parity(len(sources), origin, "largest difference of scores", difference, mismatches)


def _check(parity: Parity, precision: Precision) -> None:
    """Raise ExportError if the file differs too much from the model."""
    causes = []
    if parity.mismatches[TOKENS]:
        causes.append(f"{parity.mismatches[TOKENS]} sentences are tokenised differently")
    if not parity.difference <= MAX_DIFFERENCE:
        causes.append(f"scores differ by {parity.difference:.2g}, at most {MAX_DIFFERENCE:g} is allowed")
    if min(parity.agreement(GREEDY), parity.agreement(BEAM)) < LEAST[precision]:
        causes.append(f"fewer than {LEAST[precision]:.0%} of the translations are the same")
    if causes:
        raise ExportError(
            *(f"the runtime file does not translate as the model does: {cause}" for cause in causes),
            f"{parity}; this is a bug in Regard: please report it",
        )
