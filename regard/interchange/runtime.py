"""Export to a runtime file, which translates without PyTorch; kept only if it translates like the
model.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from regard.attention.alignment_choice import AlignmentChoice
from regard.common.atomic import atomic_file
from regard.common.counting import counted
from regard.common.errors import ExportError, RegardError
from regard.common.reading import is_runtime_file
from regard.common.version import __version__
from regard.data.languages import Languages
from regard.interchange.parity import (
    BEAM,
    GREEDY,
    TOKENS,
    Parity,
    best_targets,
    encode,
)
from regard.interchange.probe_sentences import real_sentences
from regard.model_folder import (
    ModelFolder,
    load_folder,
    load_language_id,
    model_fingerprint,
)
from regard.pipeline import RuntimeTranslator
from regard.pipeline.export_cache import export_name, write_export
from regard.pipeline.folder_loading import alignment_choice
from regard.runtime.engine.packed_model import (
    pack_model,
    why_not_encoded,
    why_not_packed,
)
from regard.runtime.engine.program import Precision
from regard.runtime.engine.runtime_file import FORMAT, runtime_file, share_embeddings
from regard.search import LengthPenalty, SearchSettings
from regard.search.forced_decoding import force_decode

Embeddings = Literal["table", "packed"]
READS_IMAGES = (
    "this model reads images, and their encoders run on PyTorch only; export a "
    "translator"
)
LIMITS: dict[str, tuple[float, float]] = {
    "float32": (1e-3, 0.97),
    "bfloat16": (0.02, 0.8),
    "int8": (0.05, 0.5),
}
"""Largest difference of a file from the model, and smallest share of sentences with the same
tokens.

The difference is the mean relative difference of scores, or the difference itself for scores below
one. With rounded weights, other hypotheses may win.
"""


@dataclass(frozen=True)
class CardChanges:
    """Values that a card has instead of those of the model folder; None: those of the folder."""

    languages: Languages | None = None
    readme: str | None = None


AS_IN_FOLDER = CardChanges()


def export(
    folder: Path,
    out: Path,
    precision: Precision = "int8",
    source: Path | None = None,
    embeddings: Embeddings = "table",
    changes: CardChanges = CardChanges(),
) -> Parity:
    """Write a model folder as a runtime file, and compare the two on real sentences.

    The sentences are those of `source`, or of the validation data in the folder, or of the sample.
    `embeddings` applies to precisions below float32: "table" writes embeddings separately; "packed"
    reads embeddings that are tied to the output projection from the packed weights, for a smaller
    file. In float32 these numbers are equal and written once. `changes` are made in the card.
    Raises ExportError, with all causes, and leaves nothing behind, if the file could not hold the
    model or translates differently.
    """
    if out.exists() and not is_runtime_file(out):
        raise ExportError(
            f"{out}: there is something already that is no runtime file; choose a new name, or "
            "remove it"
        )
    model = load_folder(folder)
    ExportError.raise_all(f"{folder}: {cause}" for cause in obstacles(model))
    sentences, origin = real_sentences(folder, model.tokenizer.source, source)
    content = _content(folder, model, precision, embeddings, changes)
    out.parent.mkdir(exist_ok=True)
    with atomic_file(out, durable=True, unnamed=True) as beside:
        beside.write_bytes(content)
        parity = compare(model, RuntimeTranslator(beside, threads=1), sentences, origin)
        _check(parity, precision)
    return parity


def keep_export(
    folder: Path, name: str, model: ModelFolder, precision: Precision
) -> Path | None:
    """Write the export of a folder, which holds `model`, into the cache by its `name`; return its
    path.

    Returns None if it cannot be made or written, or would hide a warning, so that PyTorch has to be
    used. Unlike in `export`, it is not compared with the model, since the engine decodes a model in
    memory with the same programs and weights.
    """
    if obstacles(model) or model.settings.model.ablations():
        return None
    with (
        suppress(OSError, ValueError, MemoryError, RegardError, Warning),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        content = _content(folder, model, precision, name=name)
        # The export is stored only if the folder has not changed meanwhile.
        if export_name(folder, precision) == name:
            return write_export(name, content)
    return None


def _content(
    folder: Path,
    model: ModelFolder,
    precision: Precision,
    embeddings: Embeddings = "table",
    changes: CardChanges = CardChanges(),
    name: str = "",
) -> bytes:
    """Return the content of a runtime file; `name` is recorded in its card (see `export_name`)."""
    packed = pack_model(model.model, precision)
    if embeddings == "packed":
        share_embeddings(packed)
    choice = alignment_choice(folder, model)
    languages = changes.languages or model.settings.languages
    about = card(folder, model, precision, choice, languages)
    if changes.readme is not None:
        about["readme"] = changes.readme
    if name:
        about["name"] = name
    return runtime_file(
        model, packed, choice, about, _language_id(folder, model, languages)
    )


def obstacles(model: ModelFolder) -> list[str]:
    """Return the reasons why a model cannot be exported."""
    settings = model.settings
    causes = settings.tokenizer.export_obstacles
    if settings.model.encoder.reads != "text":
        causes.append(READS_IMAGES)
    elif reason := why_not_packed(model.model) or why_not_encoded(model.model.encoder):
        causes.append(f"{reason}; a runtime file holds nothing but such programs")
    defaults = SearchSettings.model_fields
    unsupported = ("sample", "mbr", "coverage_penalty", "groups")
    causes += [
        f"search.{name} = {value!r}: a runtime file is searched greedily or with a beam; set it "
        "back in config.json"
        for name in unsupported
        if (value := getattr(settings.search, name)) != defaults[name].default
    ]
    return causes


def _language_id(folder: Path, model: ModelFolder, languages: Languages) -> str:
    """Return the language identification with the present language codes, empty if the folder has
    none.
    """
    language_id = load_language_id(folder)
    if language_id is None:
        return ""
    codes = dict(zip(model.settings.languages.pair, languages.pair, strict=True))
    return language_id.renamed(codes).to_json(model.settings.seal.id)


def card(
    folder: Path,
    model: ModelFolder,
    precision: Precision,
    choice: AlignmentChoice | None,
    languages: Languages,
) -> dict[str, object]:
    """Return the card of the file, which describes the model."""
    readme = folder / "README.md"
    return {
        "regard": __version__,
        "format": FORMAT,
        "languages": languages.pair,
        "language_codes": model.tokenizer.source.language_codes,
        "precision": precision,
        "fingerprint": model_fingerprint(folder),
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        **model.settings.model_dump(
            mode="json", include={"model", "tokenizer", "search"}
        ),
        "familiar": asdict(model.settings.familiar) if model.settings.familiar else {},
        "quality": asdict(model.settings.quality) if model.settings.quality else {},
        "warnings": model.settings.model.ablations(),
        "alignment": asdict(choice) if choice else None,
        "readme": readme.read_text("utf-8", "replace") if readme.is_file() else "",
    }


def compare(
    model: ModelFolder,
    exported: RuntimeTranslator,
    sentences: Sequence[str],
    origin: str,
) -> Parity:
    """Tokenise and translate with both, greedily and with a beam; score the translations with the
    model.
    """
    sources = encode(model, sentences)
    mismatches = {
        TOKENS: sum(
            ids != exported.encode(text)
            for ids, text in zip(sources, sentences, strict=True)
        )
    }
    own = model.settings.search
    differences = list[float]()
    changed = {
        "min_length": max(1, own.min_length),
        "max_whole": max(map(len, sources)),
        "longest_source": None,
    }
    for name, beam in ((GREEDY, 1), (BEAM, own.beam)):
        options = exported.model.options()
        settings = own.with_values(beam=beam, **changed)
        options.beam = beam
        lines = exported.model.translate(sentences, options)
        # Lines that are split, or copied because they have no letters, are not searched as one
        # source.
        whole = [
            (ids, line.hypotheses[0])
            for ids, line in zip(sources, lines, strict=True)
            if line.source
        ]
        searched = [ids for ids, _ in whole]
        targets = best_targets(model, searched, settings, model.tokenizer)
        mismatches[name] = sum(
            ids != best.ids for ids, (_, best) in zip(targets, whole, strict=True)
        )
        forced = force_decode(
            model.model, searched, [best.ids for _, best in whole], False
        )
        penalty = LengthPenalty(settings.length_penalty)
        scores = (
            float(item.log_probs.sum()) / penalty(len(item.log_probs))
            for item in forced
        )
        differences += [
            abs(h.score - s) / max(1.0, abs(s))
            for (_, h), s in zip(whole, scores, strict=True)
        ]
    mean = sum(differences) / max(1, len(differences))
    return Parity(
        len(sources), origin, "mean relative difference of scores", mean, mismatches
    )


def _check(parity: Parity, precision: Precision) -> None:
    """Raise ExportError if the file differs too much from the model."""
    limit, least = LIMITS[precision]
    causes = []
    if parity.mismatches[TOKENS]:
        causes.append(
            f"{counted(parity.mismatches[TOKENS], 'sentence is', 'sentences are')} tokenised "
            "differently"
        )
    if not parity.difference <= limit:
        causes.append(
            f"scores differ by {parity.difference:.2g}, at most {limit:g} is allowed"
        )
    if min(parity.agreement(GREEDY), parity.agreement(BEAM)) < least:
        causes.append(f"fewer than {least:.0%} of the translations are the same")
    ExportError.raise_all(
        (
            f"the runtime file does not translate as the model does: {cause}"
            for cause in causes
        ),
        f"{parity}; this is a bug in Regard: please report it",
    )
