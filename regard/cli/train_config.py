"""From what a person types to a whole recipe: a file, a preset or another run, and the changes on top."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.model_folder import FolderSettings
    from regard.training import Recipe

__all__ = ["TrainOptions", "longest_of", "sets", "told"]

TEXT, CAPTIONS = "transformer-tiny", "caption-transformer"
"""The presets that are taken where none is named."""


@dataclass(frozen=True)
class TrainOptions:
    """What the command line says beside a file or a preset."""

    files: dict[str, str]
    images: dict[str, str]
    sets: list[str]

    def recipe(
        self, config: Path | None, preset: str | None, parent: Path | None = None, resume: bool = False
    ) -> Recipe:
        """The recipe that a file, a preset or another run begins, with the command line's changes on top."""
        from regard.settings import merge, override, read_toml
        from regard.training import Recipe
        from regard.training.recipe import preset as preset_values

        values: dict[str, Any] = {"data": {}}
        where = "the command line"
        if resume and config is not None and not config.is_file():
            raise UsageError(f"--resume: {config} is missing, so {config.parent} is no run; train without --resume")
        if config is not None:
            values, where = {**values, **read_toml(config)}, str(config)
        if resume:
            values = _with_one_end(values, override({}, self.sets))
        asked = override(values, self.sets).get("training")
        parent = parent or (Path(str(asked["parent"])) if isinstance(asked, dict) and asked.get("parent") else None)
        if parent is not None and not resume:
            values = merge(_inherited(parent), values)
        in_file = values.pop("preset", None)
        named = preset or in_file
        if named is not None or not _names_a_model(values):
            data = values["data"]
            pictures = self.images or (isinstance(data, dict) and data.get("images"))
            values = merge(preset_values(str(named or (CAPTIONS if pictures else TEXT))), values)
        given: dict[str, Any] = {**self.files, **({"images": self.images} if self.images else {})}
        above = {"data": given} if given else {}
        above |= {"training": {"parent": str(parent)}} if parent is not None else {}
        values = override(merge(values, above), self.sets)
        return Recipe.parse(values, where)


def told(files: Mapping[str, str | None]) -> dict[str, str]:
    """Those that were given."""
    return {name: file for name, file in files.items() if file}


def sets(sets: list[str] | None, seed: int | None, budget: str | None) -> list[str]:
    """All assignments of the command line; later ones win."""
    from regard.training.budget import minutes_of

    more = [f"training.seed={seed}"] if seed is not None else []
    if budget is not None:
        more.append(f"training.minutes={minutes_of(budget)}")
    return [*(sets or []), *more]


def _inherited(parent: Path) -> dict[str, Any]:
    """What training goes on with from another run: its model, vocabulary and search, and gentler steps."""
    from regard.model_folder import load_settings
    from regard.settings import merge, read_toml
    from regard.training.schedule import ScheduleSettings, learning_rate

    settings = load_settings(parent)
    kept = {name: getattr(settings, name).model_dump() for name in ("model", "tokenizer", "search")}
    del kept["search"][longest_of(settings)]  # that of the data, unless said
    before = read_toml(parent / "train.toml") if (parent / "train.toml").is_file() else {}
    was = ScheduleSettings.parse(before.get("schedule", {"peak": 1e-3}), str(parent / "train.toml"))
    highest = learning_rate(was, was.warmup, settings.model.decoder.size)
    schedule = {"kind": "inverse_square_root", "peak": highest / 5, "warmup": 200}
    batching = {key: value for key, value in before.get("batching", {}).items() if key != "batches"}
    images = {} if settings.images is None else {"images": settings.images.model_dump()}
    return merge({**kept, "batching": batching, "data": images}, {"schedule": schedule})


def longest_of(settings: FolderSettings) -> str:
    """What a model's data say of its search: the longest source, or the longest caption, that it has seen."""
    return "longest_source" if settings.images is None else "max_length"


def _with_one_end(values: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings without its updates where minutes are asked for, and the other way round: both cannot be."""
    before, now = values.get("training"), asked.get("training")
    ends = {"updates", "minutes"}
    if not isinstance(before, dict) or not isinstance(now, dict) or len(ends & now.keys()) != 1:
        return values
    return {**values, "training": {name: value for name, value in before.items() if name not in ends - now.keys()}}


def _names_a_model(values: Mapping[str, Any]) -> bool:
    """Whether these settings say what encoder and decoder are, so that no preset need be put below them."""
    model = values.get("model")
    sides = [model.get(side) for side in ("encoder", "decoder")] if isinstance(model, dict) else []
    return bool(sides) and all(isinstance(side, dict) and "kind" in side for side in sides)
