"""The bench that experiments work on: the sample, models trained on it side by side, and their comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from regard.common.atomic import write_text
from regard.common.settings import merge
from regard.comparison import CompareRequest, Comparison, compare_request
from regard.comparison.test_data import Files
from regard.data.text import write_lines
from regard.learn.lab.training import Job, TrainingPool
from regard.learn.samples.writing import write_sample
from regard.search import SearchOptions
from regard.training.recipe import Recipe

SEEDS = 3
"""Seeds of each model with `--full`."""
TEXTS, IMAGES = "sample", "image-sample"
COMMON: dict[str, Any] = {
    "batching": {"tokens": 512, "micro_batches": 1},
    "training": {"validate_with": 100, "precision": "float32", "ema_decay": 0.99, "patience": 1000},
}
"""Settings of all models: small batches, since the models are small and the time is short."""


@dataclass(frozen=True)
class Trained:
    """Runs by the name of their model, and the reasons of those that failed."""

    runs: Mapping[str, tuple[Path, ...]]
    failed: Mapping[str, str] = field(default_factory=dict)


class Bench:
    """Bench of one experiment: its folder, its time, and the training and comparison of its models.

    `full`: three seeds and more updates; `workers` train at once, each on one thread. `minutes` were promised.
    """

    def __init__(
        self, out: Path, full: bool, workers: int, seed: int, minutes: float, say: Callable[[str], None]
    ) -> None:
        self.out, self.full, self.seed, self.say = out, full, seed, say
        self._pool = TrainingPool(workers, minutes, say)

    @property
    def seeds(self) -> int:
        """Number of seeds of each model."""
        return SEEDS if self.full else 1

    def choose(self, quick: Any, full: Any) -> Any:
        """Return one of two values, by the time there is."""
        return full if self.full else quick

    def texts(self) -> Path:
        """Write the Korean–English sample, once; return its folder."""
        return self._sample(TEXTS, False)

    def images(self) -> Path:
        """Write the drawn images with captions, once; return their folder."""
        return self._sample(IMAGES, True)

    def _sample(self, name: str, images: bool) -> Path:
        folder = self.out / name
        if not (folder / "README.md").exists():
            self.say("writing the sample")
            write_sample(folder, images)
        return folder

    def train(
        self, models: Mapping[str, Mapping[str, Any]], updates: int, of_images: bool = False, may_fail: bool = False
    ) -> Trained:
        """Train each model with each seed for so many updates, on the sample; values are those of a recipe."""
        data = self._image_files() if of_images else self._text_files()
        jobs = []
        for name, values in models.items():
            recipe = Recipe.parse(_recipe(values, data, updates), name)
            path = self.out / "recipes" / f"{name}.toml"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, tomli_w.dumps(recipe.model_dump(exclude_none=True)))
            for seed in range(self.seed, self.seed + self.seeds):
                jobs.append(Job(name, path, self.out / "runs" / f"{name}-seed{seed}", seed, updates))
        self.say(f"training {len(models)} models" + f" with {self.seeds} seeds each" * (self.seeds > 1))
        failed = self._pool.train(jobs, may_fail)
        runs = {name: tuple(job.folder for job in jobs if job.model == name) for name in models}
        reasons = {job.model: failed[job.folder] for job in jobs if job.folder in failed}
        return Trained({name: folders for name, folders in runs.items() if name not in reasons}, reasons)

    def _text_files(self) -> dict[str, Any]:
        folder = self.texts().absolute()
        names = {"source": "train.ko", "target": "train.en", "valid_source": "valid.ko", "valid_target": "valid.en"}
        return {key: str(folder / name) for key, name in names.items()}

    def _image_files(self) -> dict[str, Any]:
        folder = self.images().absolute()
        captions = {"captions": "train.en.tsv", "valid_captions": "valid.en.tsv"}
        paths = {key: str(folder / name) for key, name in captions.items()}
        return {"images": {"folder": str(folder / "images"), **paths}}

    def compare(self, trained: Trained, part: str = "test", lines: Sequence[tuple[str, str]] = ()) -> Comparison:
        """Compare runs on a part of the sample, or on own pairs, which are written as that part."""
        if part.endswith(".tsv"):
            folder = self.images()
            files = Files(images=str(folder / "images"), test_captions=str(folder / part))
        else:
            folder = self.out / "own" if lines else self.texts()
            source, target = folder / f"{part}.ko", folder / f"{part}.en"
            if lines:
                folder.mkdir(exist_ok=True)
                write_lines(source, [pair[0] for pair in lines])
                write_lines(target, [pair[1] for pair in lines])
            files = Files(test_source=str(source), test_target=(str(target),))
        runs = [(name, folder) for name, folders in trained.runs.items() for folder in folders]
        options, out = SearchOptions(beam=1), self.out / "comparison" / part
        request = CompareRequest(files, runs, options=options, speed=False, ter=False)
        return compare_request(request, out, "cpu", None, lambda _, values: self.say(str(values.get("text", ""))))


def _recipe(values: Mapping[str, Any], data: Mapping[str, Any], updates: int) -> dict[str, Any]:
    """Put a recipe together: what all models have, the data, an end, and the values of this model."""
    every = max(1, updates // 8)
    fitted = {
        "data": dict(data),
        "schedule": {} if "kind" in values.get("schedule", {}) else {"warmup": every},
        "training": {"updates": updates, "validate_every": every, "log_every": max(1, every // 4)},
    }
    return merge(merge(COMMON, fitted), values)
