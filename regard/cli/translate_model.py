"""Open the model of `regard translate`: a runtime file, the cached export of a folder, or folders.

PyTorch is not imported for a runtime file, nor for a model folder whose export is in the cache.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from regard.cli import options
from regard.cli.app import say, setup_torch
from regard.common.errors import RegardError, UsageError
from regard.common.reading import is_runtime_file
from regard.requests.translate_request import TranslateCommand

if TYPE_CHECKING:
    from regard.data.language_id import LanguageId
    from regard.data.languages import Languages
    from regard.model_folder import FolderSettings
    from regard.models import Model
    from regard.pipeline import FolderTranslator, RuntimeTranslator, Translator
    from regard.search import ConstraintEncoder, SearchSettings


@dataclass(frozen=True)
class TranslateModel:
    """The model of the command: how it is loaded, and what is known of it before.

    `folder`: None for a runtime file; `encoder`: encodes constraints without loading the model of a
    folder; `export_name`: name under which the export is cached for later calls without PyTorch, or
    empty if it is not cached.
    """

    make: Callable[[], Translator]
    settings: Callable[[], SearchSettings]
    max_line: int
    device: str
    folder: Path | None
    languages: Callable[[], Languages]
    encoder: Callable[[], ConstraintEncoder]
    language_id: Callable[[], LanguageId | None]
    export_name: str = ""

    def keep_export(self) -> None:
        """Write the export to the cache; called after the output, because it takes some time."""
        if not (self.export_name and self.folder):
            return
        from regard.interchange.runtime import keep_export
        from regard.model_folder import ModelFolder

        sys.stdout.flush()
        translator = cast("FolderTranslator", self.make())
        model = ModelFolder(
            translator.settings,
            translator.tokenizer,
            cast("Model", translator.model),
        )
        keep_export(self.folder, self.export_name, model, translator.engine.precision)


def open_model(
    command: TranslateCommand, find_kind: Callable[[], str]
) -> TranslateModel:
    """Return the model: a runtime file, the cached export of a model folder, or model folders.

    `find_kind` returns the kind of the input, or raises RegardError.
    """
    runs = command.runs
    workers = command.workers
    if workers is not None and command.cluster is None:
        why = (
            "threads of one process translate a file; say how many with --threads, or translate on "
            "a --cluster"
        )
        raise UsageError(f"--workers {workers}: {why}")
    if is_runtime_file(runs[0]):
        return _runtime_file(command)
    from regard.pipeline.export_cache import find_export

    name = ""
    export = None
    if _supports_export(command, find_kind):
        name, export = find_export(
            runs[0], command.decoding_precision, command.device, command.threads
        )
    if export is not None:
        # If settings contradict each other, the error is raised below.
        with suppress(RegardError):
            export.search.with_values(**command.settings)
            return _library_model(export)
    if command.file == "-" and sys.stdin.isatty():
        say(f"opening {runs[0]} …")  # the import of PyTorch takes seconds
    setup_torch(command.threads, command.seed)
    model = _model_folders(command)
    if name and export is None:
        return replace(model, make=cache(model.make), export_name=name)
    return model


def _supports_export(command: TranslateCommand, find_kind: Callable[[], str]) -> bool:
    """Return whether the export of a model folder supports all options of the call, so that PyTorch
    is not needed.
    """
    from regard.data.text_kinds import LINES
    from regard.pipeline.runtime_translator import UNSUPPORTED

    if command.with_ or command.cluster or command.stream:
        return False
    if not command.settings.keys().isdisjoint(UNSUPPORTED):
        return False
    # An error of the input is raised again later, after errors of the model.
    with suppress(RegardError):
        kind = find_kind()
        # PyTorch reads alignments in float32, whatever the precision of the search.
        needs_alignments = command.alignments or kind not in LINES
        return command.decoding_precision == "float32" or not needs_alignments
    return False


def _model_folders(command: TranslateCommand) -> TranslateModel:
    """Return the model of a folder, or the ensemble of several."""
    from regard.model_folder import load_language_id, load_settings
    from regard.pipeline import load_translator

    runs = command.runs
    is_cluster = command.cluster is not None
    if is_cluster and command.device not in ("auto", "cpu"):
        raise UsageError(
            f"--cluster and --device {command.device}: clusters translate on the CPU only; leave "
            "one out"
        )
    device = options.select_device("cpu" if is_cluster else command.device)
    make = partial(
        load_translator,
        runs if len(runs) > 1 else runs[0],
        device,
        command.decoding_precision,
    )
    settings = load_settings(runs[0])
    search = settings.search
    return TranslateModel(
        make=make,
        settings=lambda: search,
        max_line=search.max_line,
        device=device,
        folder=runs[0],
        languages=lambda: settings.languages,
        encoder=partial(_folder_encoder, runs[0], settings),
        language_id=partial(load_language_id, runs[0]),
    )


def _runtime_file(command: TranslateCommand) -> TranslateModel:
    """Return the model of a runtime file.

    Raises UsageError for options that only model folders support.
    """
    from regard.pipeline import open_runtime

    if command.with_:
        raise UsageError(
            f"--with: {command.run} is a runtime file, which is no member of an ensemble; give "
            "model folders"
        )
    translator = open_runtime(
        command.run, command.device, command.precision, command.threads
    )
    return _library_model(translator)


def _library_model(translator: RuntimeTranslator) -> TranslateModel:
    """Return the model of a translator that runs on the C library."""
    return TranslateModel(
        make=lambda: translator,
        settings=lambda: translator.search,
        max_line=translator.model.options().max_line,
        device="cpu",
        folder=None,
        languages=lambda: translator.languages,
        encoder=lambda: translator.constraint_encoder,
        language_id=lambda: translator.language_id,
    )


def _folder_encoder(run: Path, settings: FolderSettings) -> ConstraintEncoder:
    """Load the encoder of constraints of a model folder."""
    from regard.data.letter_case import letter_case
    from regard.model_folder import load_tokenizer
    from regard.search import ConstraintEncoder

    vocabulary = load_tokenizer(run, settings).target
    return ConstraintEncoder(vocabulary, letter_case(settings.languages.target))
