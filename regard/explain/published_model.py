"""Models to publish, with their records and what people state about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.common.errors import UsageError
from regard.common.reading import check_links, file_bytes
from regard.data.corpus_settings import canonical_licence
from regard.data.languages import Languages, english_name, parse_languages
from regard.explain.licences import licence_text
from regard.interchange import runtime
from regard.model_folder import FolderSettings, load_folder
from regard.models import count_parameters
from regard.requests.publish_request import PublishRequest
from regard.training.run_record import RunRecord

ABOUT = "ABOUT.md"
"""File in a run folder with which its card begins; its author writes it."""
LICENCE = "LICENSE"
"""File with the text of the licence, as forges look for it."""


@dataclass(frozen=True)
class PublishedModel:
    """A model of one direction.

    - `name`: that of its files: "model", or "reverse".
    - `obstacles`: why it cannot become a runtime file; then its folder is published.
    """

    folder: Path
    name: str
    settings: FolderSettings
    record: RunRecord
    languages: Languages
    parameters: int
    obstacles: tuple[str, ...]

    @classmethod
    def load(cls, folder: Path, name: str) -> PublishedModel:
        """Load a model folder with its record. Raises ModelFolderError."""
        model = load_folder(folder)
        return cls(
            folder=folder,
            name=name,
            settings=model.settings,
            record=RunRecord.read(folder),
            languages=model.settings.languages,
            parameters=count_parameters(model.model),
            obstacles=tuple(runtime.obstacles(model)),
        )

    @property
    def is_captioner(self) -> bool:
        """True if the model reads images."""
        return self.settings.images is not None

    @property
    def noun(self) -> str:
        """Noun for what its data are counted in."""
        return "caption" if self.is_captioner else "pair"

    @property
    def file(self) -> str:
        """Path of the runtime file, or of the model folder, below the published folder."""
        return self.name if self.obstacles else f"{self.name}.regard"

    @property
    def recipe_file(self) -> str:
        """Path of the recipe below the published folder."""
        return "train.toml" if self.name == "model" else f"train-{self.name}.toml"

    @property
    def title(self) -> str:
        """Name of the model for people, such as "Korean → English"."""
        source, target = map(english_name, self.languages.pair)
        if self.is_captioner:
            return f"Captions in {target}" if target else "Captions of images"
        if source and target:
            return f"{source} → {target}"
        return "A translation model"


@dataclass(frozen=True)
class PublishedModels:
    """One model, or two of opposite directions, and what is stated of them.

    `has_page`: whether `index.html` translates.
    """

    models: tuple[PublishedModel, ...]
    licence: str
    author: str
    origin: str
    about: str
    licence_text: str
    has_page: bool

    @classmethod
    def load(cls, request: PublishRequest) -> PublishedModels:
        """Load the models of a request. Raises UsageError if they do not belong together."""
        first, *others = (
            PublishedModel.load(folder, name)
            for folder, name in zip(request.folders, ("model", "reverse"), strict=False)
        )
        given = request.languages
        if given is not None:
            codes = parse_languages(given, "`languages=`", first.is_captioner)
            first = replace(first, languages=codes)
        back = first.languages.reversed
        others = [
            replace(model, languages=back)
            if given is not None or not model.languages.codes
            else model
            for model in others
        ]
        models = [first, *others]
        _check_directions(models, request.licence)
        licence = _stated(models, "licence")
        if request.licence is not None:
            licence = _parse_licence(request.licence)
        author = request.author or _stated(models, "author")
        text = _own_text(first.folder, LICENCE) or licence_text(licence, author)
        return cls(
            models=tuple(models),
            licence=licence,
            author=author,
            origin=request.source_of_data or _stated(models, "origin"),
            about=_own_text(first.folder, ABOUT),
            licence_text=text,
            has_page=request.page and not any(model.obstacles for model in models),
        )

    @property
    def title(self) -> str:
        """Title of card and page."""
        first = self.models[0]
        if len(self.models) == 2 and all(first.languages.pair):
            return first.title.replace("→", "↔")
        return first.title


def _check_directions(models: Sequence[PublishedModel], licence: str | None) -> None:
    """Raise UsageError, with all causes, unless two models translate in opposite directions."""
    if len(models) == 1:
        return
    causes = [
        f"{model.folder}: describes images, and has no reverse direction; publish it alone"
        for model in models
        if model.is_captioner
    ]
    first, second = (model.languages for model in models)
    if all((*first.pair, *second.pair)) and first.reversed != second:
        causes.append(
            f"{models[1].folder}: translates {second}, and the reverse of {models[0].folder} is "
            f"{first.reversed}; give a model of that direction, or `languages=`"
        )
    licences = {_value(model, "licence") for model in models} - {""}
    if licence is None and len(licences) > 1:
        causes.append(
            f"the two models have different licences, {' and '.join(sorted(licences))}; state "
            "that of both, `licence=`"
        )
    UsageError.raise_all(causes)


def _parse_licence(text: str) -> str:
    try:
        return canonical_licence(text)
    except ValueError as problem:
        raise UsageError(f"`licence=`: {problem}") from None


def _stated(models: Sequence[PublishedModel], name: str) -> str:
    """Return what the recipes state of their data under this name, each statement once."""
    values = dict.fromkeys(_value(model, name) for model in models)
    return "; ".join(filter(None, values))


def _value(model: PublishedModel, name: str) -> str:
    recipe = model.record.recipe
    return "" if recipe is None else getattr(recipe.data, name) or ""


def _own_text(folder: Path, name: str) -> str:
    """Return the text of a file in a model folder; empty if there is none."""
    check_links(folder, name)
    path = folder / name
    if not path.is_file():
        return ""
    try:
        return file_bytes(path).decode("utf-8-sig").strip() + "\n"
    except UnicodeDecodeError as problem:
        raise UsageError(
            f"{path}: is not UTF-8 ({problem}); save it as UTF-8"
        ) from None
