"""Compose the recipe of a run from parent run, preset, recipe, data files and settings.

Later ones take precedence over earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from regard.common.errors import ConfigurationError, RegardError, UsageError
from regard.common.settings import Settings, merge, override, read_toml
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.corpus import Corpus, read_corpus
from regard.data.corpus_settings import CorpusSettings
from regard.data.file_formats import PairFiles
from regard.data.language_codes import base_language
from regard.data.languages import Languages, as_given, describe_code, parse_languages
from regard.data.text_augmentation import MEASURED
from regard.data.tokenizer import Tokenizer
from regard.model_folder import (
    FolderSettings,
    load_settings,
    load_tokenizer,
    read_weights,
    shapes_of,
)
from regard.requests.train_request import TrainArguments
from regard.training.auto_settings import (
    SMALLEST,
    CorpusSize,
    corpus_size,
    describe,
    suitable,
)
from regard.training.budget import minutes_of
from regard.training.recipe import Recipe, preset, read_run_recipe
from regard.training.schedule import ScheduleSettings, learning_rate

TEXT_PRESET = SMALLEST
"""Default preset for sentence pairs."""
CAPTION_PRESET = "caption-transformer"
"""Default preset for images with captions."""
SENTENCE_DEFAULTS = {
    "tokenizer": {"copy_tokens": len(COPY_CHARACTERS)},
    "variation": MEASURED.model_dump(),
}
"""Values for sentence pairs, over which those of a preset take precedence."""
FILE_ARGUMENTS = (
    "source",
    "target",
    "pairs",
    "columns",
    "alignments",
    "corrections",
    "valid_source",
    "valid_target",
    "valid_pairs",
)
"""Arguments of a request that name files and columns; the data table has settings of the same
names.
"""
BUDGET_PRESETS = (SMALLEST, "transformer-small", "transformer-base")
"""Presets that a time budget chooses from, small to large."""


@dataclass(frozen=True)
class ParentRun:
    """The run whose weights and vocabulary another run starts from (fine-tuning).

    Settings and vocabulary are read once.
    """

    path: Path

    @classmethod
    def of(cls, recipe: Recipe) -> ParentRun | None:
        """Return the parent that a recipe names, if any."""
        parent = recipe.training.parent
        return None if parent is None else cls(Path(parent))

    @cached_property
    def settings(self) -> FolderSettings:
        return load_settings(self.path)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.path, self.settings)

    def read_weights(self) -> dict[str, torch.Tensor]:
        """Read the weights, without caching them: they would fill memory during the training."""
        return read_weights(self.path, self.settings)

    def check(self, recipe: Recipe) -> None:
        """Raise UsageError, with all causes, if the recipe changes the vocabulary or the shape."""
        tokenizer = recipe.tokenizer.model_dump()
        before = self.settings.tokenizer.model_dump()
        # Tokenizers of different kinds have different settings, so only the kind is compared.
        names = list(before) if tokenizer["kind"] == before["kind"] else ["kind"]
        causes = []
        for name in names:
            if tokenizer[name] == before[name]:
                continue
            kept = "where it is not set" if before[name] is None else repr(before[name])
            causes.append(
                f"tokenizer.{name} = {tokenizer[name]!r}: with `parent=` the vocabulary of "
                f"{self.path} is kept ({kept}); leave it out"
            )
        UsageError.raise_all(causes or self._shape_conflicts(recipe))

    def describe_languages(self, recipe: Recipe) -> Iterator[str]:
        """Yield a sentence if the recipe translates between other languages."""
        parent = self.settings.languages
        child = recipe.data.languages
        codes = zip(parent.pair, child.pair, strict=True)
        if any(
            before and after and base_language(before) != base_language(after)
            for before, after in codes
        ):
            yield (
                f"{self.path} translates {parent}, and these pairs are {child}: its vocabulary and "
                "weights are of other languages; train without `parent=`, unless they are close"
            )

    def validation_pairs(self) -> Corpus | None:
        """Read the parent's own validation pairs; None if they are no longer there."""
        files: PairFiles | None = PairFiles(pairs=str(self.path / "valid.tsv"))
        path = self.path / "train.toml"
        try:
            if not (self.path / "valid.tsv").is_file():
                recipe = Recipe.parse(read_run_recipe(path), str(path))
                files = recipe.data.evaluation_files.get("valid")
            corpus = None if files is None else read_corpus(files, name="valid")
        except RegardError:
            return None
        return corpus or None  # an empty one tells nothing

    def _shape_conflicts(self, recipe: Recipe) -> list[str]:
        sizes = len(self.tokenizer.source), len(self.tokenizer.target)
        wanted = shapes_of(recipe.model, sizes, recipe.tokenizer.joint)
        stored = {
            name: tuple(weight.shape) for name, weight in self.read_weights().items()
        }
        different = [
            name
            for name in sorted({*wanted, *stored})
            if wanted.get(name) != stored.get(name)
        ]
        if not different:
            return []
        name = different[0]
        return [
            f"with `parent=` the weights of {self.path} are kept, and this model has others (such "
            f"as {name}: {stored.get(name, 'none')} there, {wanted.get(name, 'none')} here); leave "
            "out what changes the model's shape, or train without `parent=`"
        ]


class RecipeComposer:
    """Composes the recipe of a run from its request, and reads what that needs once."""

    def __init__(self, request: TrainArguments) -> None:
        self.request = request
        self.data = data_table(request)
        self._corpora = list[CorpusSize | None]()

    def check(self, dry_run: bool = False) -> None:
        """Raise UsageError, with all causes, if arguments exclude each other."""
        causes = []
        if self.request.resume:
            arguments = {"preset": self.request.preset, "parent": self.request.parent}
            excluded = [
                f"`{name}=`" for name, value in arguments.items() if value is not None
            ]
            if dry_run:
                excluded.append("`dry_run=True`")
            causes = [
                f"{name}: a resumed run has its recipe already; leave {name} or `resume=True` out"
                for name in excluded
            ]
            ends = {"training.updates", "training.minutes"} & {
                *(self.request.settings or {})
            }
            if self.request.budget is not None and ends:
                causes.append(
                    f"`budget=`: it and {ends.pop()} both set the end of the run; leave one of "
                    "them out"
                )
        if self.request.parent is not None and self.request.preset is not None:
            causes.append(
                "`preset=`: with `parent=` the model is that of the parent run; leave one of them "
                "out"
            )
        UsageError.raise_all(causes)

    def compose(self, out: Path | None = None, size: str | None = None) -> Recipe:
        """Return the recipe of a run in the folder `out`.

        `size` is the preset to use if nothing else names a model. Raises ConfigurationError with
        all causes at once.
        """
        values, where = self._read(out)
        overrides = self._overrides()
        if self.request.resume:
            values = _without_other_end(values, override({}, overrides))
        path = self.request.parent or _parent_setting(override(values, overrides))
        parent = None if path is None else ParentRun(Path(path))
        if parent is not None and not self.request.resume:
            values = merge(_inherit(parent), values)
        preset_in_file = values.pop("preset", None)
        chosen = self.request.preset or preset_in_file
        arguments: dict[str, object] = {"data": dict(self.data)} if self.data else {}
        if chosen is not None or not _names_a_model(values):
            data = override(merge(values, arguments), overrides)["data"]
            images = isinstance(data, dict) and data.get("images")
            name = str(chosen or size or (CAPTION_PRESET if images else TEXT_PRESET))
            preset_values = preset(name)
            if not images:
                preset_values = merge(SENTENCE_DEFAULTS, preset_values)
            is_text = isinstance(data, dict) and not images
            if chosen is None and is_text and not self.request.resume:
                preset_values = merge(preset_values, self._suitable(data, name))
            values = merge(preset_values, values)
        if parent is not None:
            arguments["training"] = {"parent": str(parent.path)}
        recipe = Recipe.parse(override(merge(values, arguments), overrides), where)
        if self.request.resume:  # a resumed run keeps its languages
            return recipe
        inherited = Languages() if parent is None else parent.settings.languages
        return recipe.with_values(
            data=recipe.data.with_languages(inherited).model_dump()
        )

    def sizes(self, recipe: Recipe) -> dict[str, Recipe]:
        """Return the recipes that a time budget chooses from; empty without a budget.

        From a single recipe only updates and warm-up are chosen.
        """
        if self.request.budget is None or self.request.resume:
            return {}
        if (
            "images" in self.data
            or self.request.recipe
            or self.request.preset
            or self.request.parent
        ):
            return {self.request.preset or "this model": recipe}
        return {name: self.compose(size=name) for name in BUDGET_PRESETS}

    @property
    def more_minutes(self) -> float | None:
        """The minutes that a resumed run is to train; None without a budget."""
        if self.request.budget is None or not self.request.resume:
            return None
        return minutes_of(self.request.budget)

    def describe_choices(self, recipe: Recipe) -> list[str]:
        """Describe the settings that `compose` chose for the corpus, and changed language codes."""
        lines: list[str] = []
        for size in self._corpora:
            if size is not None:
                lines += describe(size, recipe)
        settings = self.request.settings or {}
        for name in ("source_language", "target_language"):
            requested = settings.get(f"data.{name}", self.data.get(name))
            lines += describe_code(str(requested or ""), getattr(recipe.data, name))
        return lines

    def _suitable(self, data: Any, name: str) -> dict[str, object]:
        """Return values that suit the corpus better than those of a preset.

        The corpus is read once. If it cannot be read, there are no such values.
        """
        if not self._corpora:
            try:
                self._corpora.append(corpus_size(CorpusSettings.parse(data, "data")))
            except ConfigurationError:  # `compose` reports it with all other problems
                self._corpora.append(None)
        (size,) = self._corpora
        seconds = math.inf
        if self.request.budget is not None and not torch.cuda.is_available():
            seconds = 60 * minutes_of(self.request.budget) * torch.get_num_threads()
        return {} if size is None else suitable(size, name, seconds)

    def _read(self, out: Path | None) -> tuple[dict[str, object], str]:
        """Return the values of the recipe or file, and their origin for messages."""
        recipe = self.request.recipe
        if isinstance(recipe, Settings):
            return recipe.model_dump(), "the recipe"
        if recipe is None and self.request.resume and out is not None:
            recipe = out / "train.toml"
        if recipe is None:
            return {"data": {}}, "the arguments"
        recipe = Path(recipe)
        if self.request.resume and not recipe.is_file():
            raise UsageError(
                f"`resume=True`: {recipe} is missing, so {recipe.parent} is not a run; train "
                "without `resume=True`"
            )
        if Path(recipe.name.lower().removesuffix(".gz")).suffix in (
            ".tsv",
            ".csv",
            ".jsonl",
            ".xlsx",
            ".ods",
            ".tmx",
        ):
            why = "holds pairs, and a TOML file with settings belongs here"
            raise UsageError(f"{recipe}: {why}; give `pairs={recipe}`")
        values = (
            read_toml(recipe)
            if self.request.recipe is not None
            else read_run_recipe(recipe)
        )
        return {"data": {}, **values}, str(recipe)

    def _overrides(self) -> dict[str, object]:
        overrides = dict(self.request.settings or {})
        if self.request.seed is not None:
            overrides["training.seed"] = self.request.seed
        if self.request.budget is not None and not self.request.resume:
            overrides["training.minutes"] = minutes_of(self.request.budget)
        return overrides


def data_table(request: TrainArguments) -> dict[str, object]:
    """Return the data table of a recipe. Raises UsageError for languages that are none."""
    table: dict[str, object] = {}
    for name in FILE_ARGUMENTS:
        path = getattr(request, name)
        if path is not None:
            table[name] = str(path)
    card_texts = {
        "licence": request.licence,
        "author": request.author,
        "origin": request.source_of_data,
    }
    table |= {name: text for name, text in card_texts.items() if text is not None}
    if request.test is not None:
        test = str(request.test)
        if test.isdecimal():
            table["test_count"] = int(test)
        else:
            table["test_pairs"] = test
    is_captions = request.images is not None or request.captions is not None
    if request.languages is not None:
        parsed = parse_languages(request.languages, "`languages=`", is_captions)
        source, target = as_given(request.languages, parsed)
        if not is_captions:
            table["source_language"] = source
        table["target_language"] = target

    images = {
        "folder": request.images,
        "captions": request.captions,
        "valid_captions": request.valid_captions,
    }
    image_table = {name: str(path) for name, path in images.items() if path is not None}
    if image_table:
        table["images"] = image_table
    return table


def length_setting(settings: FolderSettings) -> str:
    """Return the search setting that the training data determine.

    It is the length of the longest source sentence, or of the longest caption.
    """
    return "longest_source" if settings.images is None else "max_length"


def _inherit(parent: ParentRun) -> dict[str, object]:
    """Return values for fine-tuning a run.

    They are its model, tokenizer, search and batching, and a fifth of its peak learning rate.
    """
    settings = parent.settings
    values: dict[str, Any] = {
        name: getattr(settings, name).model_dump()
        for name in ("model", "tokenizer", "search")
    }
    # These two follow from the new data, unless they are set.
    del values["search"][length_setting(settings)]
    del values["search"]["score_threshold"]

    path = parent.path / "train.toml"
    before = read_run_recipe(path) if path.is_file() else {}
    batching = dict(before.get("batching", {}))
    batching.pop("micro_batches", None)
    values["batching"] = batching
    values["variation"] = before.get("variation", {})
    values["data"] = {}
    if settings.images is not None:
        values["data"]["images"] = settings.images.model_dump()

    schedule = ScheduleSettings.parse(before.get("schedule", {"peak": 1e-3}), str(path))
    size = settings.model.decoder.size
    peak = learning_rate(schedule, max(1, schedule.warmup), size) / 5
    values["schedule"] = {"kind": "inverse_square_root", "peak": peak, "warmup": 200}
    return values


def _parent_setting(values: Mapping[str, object]) -> Path | None:
    training = values.get("training")
    if isinstance(training, dict) and training.get("parent"):
        return Path(str(training["parent"]))
    return None


def _without_other_end(
    values: dict[str, object], overrides: Mapping[str, object]
) -> dict[str, object]:
    """Return a run's values without its updates if minutes are set now, and vice versa.

    A recipe cannot have both.
    """
    before = values.get("training")
    new = overrides.get("training")
    if not isinstance(before, dict) or not isinstance(new, dict):
        return values
    unset = {"updates", "minutes"} - new.keys()
    if len(unset) != 1:
        return values
    training = {name: value for name, value in before.items() if name not in unset}
    return {**values, "training": training}


def _names_a_model(values: Mapping[str, object]) -> bool:
    """Return whether these values name the kinds of encoder and decoder, and need no preset."""
    model = values.get("model")
    if not isinstance(model, dict):
        return False
    sides = [model.get("encoder"), model.get("decoder")]
    return all(isinstance(side, dict) and "kind" in side for side in sides)
