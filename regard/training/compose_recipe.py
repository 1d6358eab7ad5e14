"""Compose the recipe of a run: parent run, preset, recipe or TOML file, data files and settings;
later ones win.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from regard.common.errors import ConfigurationError, UsageError
from regard.common.settings import merge, override, read_toml
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.data.corpus import CorpusSettings
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

TEXT, CAPTIONS = SMALLEST, "caption-transformer"
"""Default presets."""
SENTENCES = {
    "tokenizer": {"copy_tokens": len(COPY_CHARACTERS)},
    "variation": MEASURED.model_dump(),
}
"""Values beside those of a preset for sentence pairs."""
SIZES = (SMALLEST, "transformer-small", "transformer-base")
"""Presets that a time budget chooses from, small to large."""


@dataclass(frozen=True)
class ParentRun:
    """The run whose weights and vocabulary another begins with; settings and vocabularies are read
    once.
    """

    path: Path

    @classmethod
    def of(cls, recipe: Recipe) -> ParentRun | None:
        """The parent that a recipe names, if any."""
        return (
            None
            if recipe.training.parent is None
            else cls(Path(recipe.training.parent))
        )

    @cached_property
    def settings(self) -> FolderSettings:
        return load_settings(self.path)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.path, self.settings)

    def read_weights(self) -> dict[str, torch.Tensor]:
        """Read the weights; they are not kept, as they would fill memory while the other run
        trains.
        """
        return read_weights(self.path, self.settings)

    def check(self, recipe: Recipe) -> None:
        """Raise UsageError, with all causes, if vocabulary or shape of a recipe differ from those
        here.
        """
        tokenizer = recipe.tokenizer.model_dump()
        before = self.settings.tokenizer.model_dump()
        causes = [
            f"tokenizer.{name} = {tokenizer[name]!r}: with `parent=` the vocabulary of {self.path} "
            f"is kept ({'where it is not set' if before[name] is None else repr(before[name])}); "
            "leave it out"
            for name in (
                before if tokenizer["kind"] == before["kind"] else ["kind"]
            )  # other kinds, other settings
            if tokenizer[name] != before[name]
        ]
        UsageError.raise_all(causes or self._shape_conflicts(recipe))

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


@dataclass(frozen=True)
class TrainRequest:
    """Request to train: a whole recipe, or parts from which one is composed.

    `recipe` is a Recipe or a TOML file with a whole one or part of one; `data` holds values of its
    data table; `settings` has dotted keys. `budget` is a time such as 30m. With `resume` the run's
    own recipe is the default.
    """

    recipe: Recipe | Path | None = None
    preset: str | None = None
    parent: Path | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    budget: str | None = None
    resume: bool = False
    _corpora: list[CorpusSize | None] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def check(self, dry_run: bool = False) -> None:
        """Raise UsageError, with all causes, if arguments exclude each other."""
        causes = []
        if self.resume:
            arguments = {
                "preset": self.preset,
                "parent": self.parent,
                "budget": self.budget,
            }
            excluded = [
                f"`{name}=`" for name, value in arguments.items() if value is not None
            ]
            excluded += ["`dry_run=True`"] * dry_run
            causes += [
                f"{name}: a resumed run has its recipe already; leave {name} or `resume=True` out"
                + (
                    "; to train longer, set training.updates"
                    if name == "`budget=`"
                    else ""
                )
                for name in excluded
            ]
        if self.parent is not None and self.preset is not None:
            causes.append(
                "`preset=`: with `parent=` the model is that of the parent run; leave one of them "
                "out"
            )
        UsageError.raise_all(causes)

    def compose(self, out: Path | None = None, size: str | None = None) -> Recipe:
        """The recipe of a run in the folder `out`; `size`: a preset, if nothing else names a model.

        Raises ConfigurationError with all causes at once.
        """
        values, where = self._read(out)
        overrides = self._overrides()
        if self.resume:
            values = _without_other_end(values, override({}, overrides))
        path = self.parent or _parent_setting(override(values, overrides))
        parent = None if path is None else ParentRun(path)
        if parent is not None and not self.resume:
            values = merge(_inherit(parent), values)
        in_file = values.pop("preset", None)
        name = self.preset or in_file
        above: dict[str, Any] = {"data": dict(self.data)} if self.data else {}
        if name is not None or not _names_a_model(values):
            data = override(merge(values, above), overrides)["data"]
            images = isinstance(data, dict) and data.get("images")
            start_name = str(name or size or (CAPTIONS if images else TEXT))
            start = (
                preset(start_name) if images else merge(SENTENCES, preset(start_name))
            )
            if (
                name is None
                and isinstance(data, dict)
                and not images
                and not self.resume
            ):
                start = merge(start, self._suitable(data, start_name))
            values = merge(start, values)
        above |= (
            {"training": {"parent": str(parent.path)}} if parent is not None else {}
        )
        recipe = Recipe.parse(override(merge(values, above), overrides), where)
        if self.resume:  # its own languages hold
            return recipe
        inherited = Languages() if parent is None else parent.settings.languages
        return recipe.with_values(
            data=recipe.data.with_languages(inherited).model_dump()
        )

    def sizes(self, recipe: Recipe) -> dict[str, Recipe]:
        """The recipes that a time budget chooses from; for a single one it chooses updates and
        warm-up.
        """
        if self.budget is None:
            return {}
        if "images" in self.data or self.recipe or self.preset or self.parent:
            return {self.preset or "this model": recipe}
        return {name: self.compose(size=name) for name in SIZES}

    def describe_choices(self, recipe: Recipe) -> list[str]:
        """Describe the settings that suit the corpus, if `compose` has chosen some, and codes kept
        in another form.
        """
        lines = [
            line
            for size in self._corpora
            if size is not None
            for line in describe(size, recipe)
        ]
        for name in ("source_language", "target_language"):
            given = self.settings.get(f"data.{name}", self.data.get(name))
            lines += describe_code(str(given or ""), getattr(recipe.data, name))
        return lines

    def _suitable(self, data: Any, name: str) -> dict[str, Any]:
        """The values that suit the corpus beside those of a preset; it is read once. None if it
        cannot be read.
        """
        if not self._corpora:
            try:
                self._corpora.append(corpus_size(CorpusSettings.parse(data, "data")))
            except ConfigurationError:  # `compose` names it with all others
                self._corpora.append(None)
        (size,) = self._corpora
        seconds = math.inf
        if self.budget is not None and not torch.cuda.is_available():
            seconds = 60 * minutes_of(self.budget) * torch.get_num_threads()
        return {} if size is None else suitable(size, name, seconds)

    def _read(self, out: Path | None) -> tuple[dict[str, Any], str]:
        """The values to begin with, and the name of their origin for messages."""
        recipe = self.recipe
        if isinstance(recipe, Recipe):
            return recipe.model_dump(), "the recipe"
        if recipe is None and self.resume and out is not None:
            recipe = out / "train.toml"
        if recipe is None:
            return {"data": {}}, "the arguments"
        if self.resume and not recipe.is_file():
            raise UsageError(
                f"`resume=True`: {recipe} is missing, so {recipe.parent} is not a run; train "
                "without `resume=True`"
            )
        if Path(recipe.name.lower().removesuffix(".gz")).suffix in (
            ".tsv",
            ".csv",
            ".jsonl",
        ):
            why = "holds pairs, and a TOML file with settings belongs here"
            raise UsageError(f"{recipe}: {why}; give `pairs={recipe}`")
        values = (
            read_toml(recipe) if self.recipe is not None else read_run_recipe(recipe)
        )
        return {"data": {}, **values}, str(recipe)

    def _overrides(self) -> dict[str, Any]:
        overrides = dict(self.settings)
        if self.seed is not None:
            overrides["training.seed"] = self.seed
        if self.budget is not None:
            overrides["training.minutes"] = minutes_of(self.budget)
        return overrides


def data_table(
    images: str | Path | None = None,
    languages: str | None = None,
    test: int | str | Path | None = None,
    **files: str | Path | None,
) -> dict[str, Any]:
    """The data table of a recipe from its files; `captions` and `valid_captions` go to its table of
    images.

    `languages`: codes such as ko,en; of captions one; `test`: a file of pairs, or the number of
    pairs to hold out. Raises UsageError for other languages.
    """
    names: dict[str, Any] = {name: str(file) for name, file in files.items() if file}
    if test is not None:
        is_count = str(test).isdecimal()
        names |= (
            {"test_count": int(str(test))} if is_count else {"test_pairs": str(test)}
        )
    if languages is not None:
        is_captions = bool(images or files.get("captions"))
        parsed = parse_languages(languages, "`languages=`", is_captions)
        source, target = as_given(languages, parsed)
        names |= (
            {"target_language": target}
            if is_captions
            else {"source_language": source, "target_language": target}
        )
    table = {"folder": str(images)} if images else {}
    table |= {
        name: names.pop(name)
        for name in ("captions", "valid_captions")
        if name in names
    }
    return {**names, "images": table} if table else dict(names)


def length_setting(settings: FolderSettings) -> str:
    """The search setting that the data decide: the longest source sentence, or the longest caption,
    in training.
    """
    return "longest_source" if settings.images is None else "max_length"


def _inherit(parent: ParentRun) -> dict[str, Any]:
    """Values for fine-tuning a run: its model, tokenizer, search and batching, and a fifth of its
    peak rate.
    """
    settings = parent.settings
    values = {
        name: getattr(settings, name).model_dump()
        for name in ("model", "tokenizer", "search")
    }
    # The new data's, unless set.
    del (
        values["search"][length_setting(settings)],
        values["search"]["score_threshold"],
    )
    path = parent.path / "train.toml"
    before = read_run_recipe(path) if path.is_file() else {}
    schedule = ScheduleSettings.parse(before.get("schedule", {"peak": 1e-3}), str(path))
    peak = (
        learning_rate(schedule, max(1, schedule.warmup), settings.model.decoder.size)
        / 5
    )
    batching = {
        key: value
        for key, value in before.get("batching", {}).items()
        if key != "micro_batches"
    }
    images = {} if settings.images is None else {"images": settings.images.model_dump()}
    gentler = {"schedule": {"kind": "inverse_square_root", "peak": peak, "warmup": 200}}
    return merge(
        {
            **values,
            "batching": batching,
            "variation": before.get("variation", {}),
            "data": images,
        },
        gentler,
    )


def _parent_setting(values: Mapping[str, Any]) -> Path | None:
    training = values.get("training")
    return (
        Path(str(training["parent"]))
        if isinstance(training, dict) and training.get("parent")
        else None
    )


def _without_other_end(
    values: dict[str, Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """A run's values without its updates if minutes are set now, and the other way round: both
    cannot be.
    """
    before = values.get("training")
    new = overrides.get("training")
    ends = {"updates", "minutes"}
    if (
        not isinstance(before, dict)
        or not isinstance(new, dict)
        or len(ends & new.keys()) != 1
    ):
        return values
    return {
        **values,
        "training": {
            name: value
            for name, value in before.items()
            if name not in ends - new.keys()
        },
    }


def _names_a_model(values: Mapping[str, Any]) -> bool:
    """True if these values name the kinds of encoder and decoder, so that no preset is needed below
    them.
    """
    model = values.get("model")
    sides = (
        [model.get(side) for side in ("encoder", "decoder")]
        if isinstance(model, dict)
        else []
    )
    return bool(sides) and all(
        isinstance(side, dict) and "kind" in side for side in sides
    )
