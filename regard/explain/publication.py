"""Publish a model: a folder with page, runtime file, card and licence, ready for any web space."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from regard.common.atomic import atomic_folder, file_sha256, write_text
from regard.common.errors import ExportError
from regard.common.markdown import quote_command
from regard.common.reading import check_links
from regard.common.requests import takes
from regard.explain.description_page import render_description
from regard.explain.live_page_export import export_page
from regard.explain.published_card import card_body, card_metadata
from regard.explain.published_checklist import (
    ChecklistItem,
    make_checklist,
    render_checklist,
)
from regard.explain.published_model import LICENCE, PublishedModel, PublishedModels
from regard.interchange import runtime
from regard.interchange.parity import Parity
from regard.interchange.probe_sentences import DRAWN, SAMPLE
from regard.model_folder import ALIGNMENT, CONFIG, LANGUAGES, WEIGHTS
from regard.requests.publish_request import PublishRequest
from regard.runtime import native

SUMS = "SHA256SUMS"
CHECKLIST = "CHECKLIST.md"
PAGE = "index.html"
README = "README.md"
_SHOWN = 5
"""Number of strange files that a message names."""


@dataclass(frozen=True)
class Publication:
    """A folder that was written.

    - `sizes`: bytes of its files by name.
    - `checklist`: what is missing or to be decided.
    - `comparisons`: how exported models compare with the originals, a sentence for each.
    """

    folder: Path
    sizes: Mapping[str, int]
    checklist: tuple[ChecklistItem, ...]
    comparisons: tuple[str, ...]


@takes(PublishRequest)
def publish(request: PublishRequest) -> Publication:
    """Write a folder that can be put on any web space or forge as it is; nothing is uploaded.

    It has a page that translates (`index.html`), the model as a runtime file, a card (`README.md`)
    with metadata, the licence, the recipe, `SHA256SUMS`, and a checklist of what is missing. A
    model that cannot become a runtime file, such as a captioner, is published as a model folder,
    and its page describes it. The same run gives the same bytes. ABOUT.md and LICENSE in the run
    folder, if they are there, begin the card and are its licence.

    - `out`: a new folder, or one that was published before and not changed.
    - `reverse`: a model of the reverse direction, for a page and a card of both.
    - `licence`, `author`, `source_of_data`: as in `regard.train`; those of the run if left out.
    - `page`: if False, `index.html` describes the model, too.

    Raises ExportError, with all causes, and changes nothing, if `out` holds other files, or if a
    model does not translate alike when exported; UsageError for wrong arguments.
    """
    out = Path(request.out)
    published = PublishedModels.load(request)
    ExportError.raise_all([*_strange_files(out), *_missing_library(published)])
    out = out if out.name else out.absolute()
    command = _command(request)
    with atomic_folder(out) as folder:
        parities = dict(_write_models(folder, published, request, command))
        _write_texts(folder, published)
        sizes = _sizes(folder)
        body = card_body(published, command, is_inside=False, sizes=sizes)
        write_text(folder / README, card_metadata(published) + body)
        sums = (f"{file_sha256(folder / name)}  {name}\n" for name in _sizes(folder))
        write_text(folder / SUMS, "".join(sums))
        examples = _examples(request, parities)
        checklist = make_checklist(published, sizes, examples)
        write_text(folder / CHECKLIST, render_checklist(checklist))
        sizes = _sizes(folder)
    comparisons = tuple(f"{name} {parity.summary}" for name, parity in parities.items())
    return Publication(out, sizes, checklist, comparisons)


def _strange_files(out: Path) -> Iterator[str]:
    """Yield why a folder cannot be replaced: files that were not published, or changed since."""
    if not out.exists():
        return
    if not out.is_dir():
        yield f"{out}: is a file; choose a new folder"
        return
    published = {SUMS: "", CHECKLIST: ""} | _read_sums(out / SUMS)
    strange = [
        name
        for name, path in _files(out)
        if name not in published
        or path.is_symlink()
        or (published[name] and file_sha256(path) != published[name])
    ]
    if strange:
        shown = ", ".join(strange[:_SHOWN])
        more = f" and {len(strange) - _SHOWN:,} more" if len(strange) > _SHOWN else ""
        yield (
            f"{out}: holds what was not published here, or was changed since: {shown}{more}; "
            "choose a new folder, or move them away"
        )


def _read_sums(path: Path) -> dict[str, str]:
    """Return the SHA-256 of each published file by name; empty if there is no such list."""
    if path.is_symlink() or not path.is_file():
        return {}
    rows = path.read_text("utf-8", "replace").splitlines()
    return {name: digest for digest, _, name in (row.partition("  ") for row in rows)}


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each file below a folder, with its name from there, in order of names."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix(), path


def _sizes(folder: Path) -> dict[str, int]:
    return {name: path.stat().st_size for name, path in _files(folder)}


def _missing_library(published: PublishedModels) -> Iterator[str]:
    """Yield why no page can be made, if one is wanted."""
    if published.has_page:
        try:
            native.wasm_file()
        except RuntimeError as problem:
            yield f"{problem}; or publish without a page that translates: `page=False`"


def _write_models(
    folder: Path, published: PublishedModels, request: PublishRequest, command: str
) -> Iterator[tuple[str, Parity]]:
    """Write the models and the page; yield how each export compares with the original."""
    readme = card_body(published, command, is_inside=True)
    source = None if request.source is None else Path(request.source)
    for number, model in enumerate(published.models):
        if model.obstacles:
            _copy_model(model, folder / model.name)
            continue
        changes = runtime.CardChanges(model.languages, readme)
        parity = runtime.export(
            model.folder,
            folder / model.file,
            request.precision,
            None if number else source,
            changes=changes,
        )
        yield model.file, parity
    page = folder / PAGE
    if not published.has_page:
        write_text(page, render_description(published.title, readme))
        return
    languages = published.models[0].languages
    greeting = published.about
    compared = export_page(request.folders, page, source, languages, readme, greeting)
    for model, parity in zip(published.models, compared, strict=True):
        yield f"{PAGE}, {model.title}", parity


def _examples(request: PublishRequest, parities: Mapping[str, Parity]) -> str:
    """Return the file of the run whose sentences a page proposes; empty if there is none."""
    own = (
        parity.source
        for name, parity in parities.items()
        if name.startswith(PAGE) and parity.source not in (SAMPLE, DRAWN)
    )
    return next(own, "") if request.source is None else ""


def _copy_model(model: PublishedModel, out: Path) -> None:
    """Copy the files of a model folder that decoding needs."""
    names = [CONFIG, WEIGHTS, ALIGNMENT, LANGUAGES, *model.settings.seal.files]
    check_links(model.folder, *names)
    out.mkdir()
    for name in names:
        if (model.folder / name).is_file():
            shutil.copyfile(model.folder / name, out / name)


def _write_texts(folder: Path, published: PublishedModels) -> None:
    """Write the licence and the recipes."""
    if published.licence_text:
        write_text(folder / LICENCE, published.licence_text)
    for model in published.models:
        recipe = model.folder / "train.toml"
        if recipe.is_file():
            shutil.copyfile(recipe, folder / model.recipe_file)


def _command(request: PublishRequest) -> str:
    """Return the command that publishes again, with RUN and OUT for the folders."""
    words = ["publish", "RUN", "OUT"]
    for field in fields(request):
        value = getattr(request, field.name)
        if field.name in ("run", "out") or value == field.default:
            continue
        flag = f"--{field.name.replace('_', '-')}"
        if field.name == "page":
            words.append("--no-page")
        else:
            words += [flag, "RUN1" if field.name == "reverse" else str(value)]
    return quote_command(*words)
