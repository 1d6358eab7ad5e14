"""The training loop: updates, looks at the validation data, the journal, and stopping without losing anything."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.checkpoint import WEIGHTS, put_weights, save_tensors, weights
from regard.data.ahead import Ahead
from regard.data.batching import Batches, PairBatch, Position, Update
from regard.errors import TrainingError
from regard.models import Model, device_of
from regard.training import resume
from regard.training.crew import Crew
from regard.training.journal import Journal
from regard.training.loss import Loss, Objective
from regard.training.recipe import Recipe
from regard.training.schedule import rate

__all__ = ["Outcome", "Progress", "Trainer", "stops"]

Validate = Callable[[Model], dict[str, float]]
SPEED_KNOWN = 30  # updates after which a time budget is turned into updates


@dataclass
class Progress:
    """Where a run stands; all of it is in a checkpoint."""

    update: int = 0
    updates: int | None = None  # where it ends, once known
    tokens: int = 0
    seconds: float = 0.0  # of training, looks at the validation data not counted
    position: Position = field(default_factory=Position)
    best: float = -math.inf
    best_update: int = 0
    looks_since_best: int = 0

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        values["best"] = None if math.isinf(self.best) else self.best
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        best = -math.inf if values["best"] is None else values["best"]
        return cls(**{**values, "position": Position(**values["position"]), "best": best})


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `stopped` is the signal that stopped it, if one did."""

    progress: Progress
    reason: str
    stopped: int | None = None


class Trainer:
    """Trains one model in one run folder. `say` is told each event as it is written to the journal."""

    def __init__(
        self,
        model: Model,
        batches: Batches,
        recipe: Recipe,
        folder: Path,
        validate: Validate,
        say: Callable[[str, dict[str, Any]], None] | None = None,
    ) -> None:
        self.model, self.batches, self.recipe, self.folder = model, batches, recipe, folder
        self.validate, self.say = validate, say
        self.settings = recipe.training
        self.objective = Objective(model, self.settings.label_smoothing, self.settings.rdrop)
        self.optimizer = _optimizer(model, recipe)
        self.average = {name: value.clone() for name, value in weights(model).items()}
        self.checkpoints = resume.Checkpoints(folder / "checkpoints", self.settings.keep)
        self.journal = Journal(folder / "journal.jsonl")
        self.progress = Progress(updates=self.settings.updates)
        self.signal: int | None = None
        threads = min(torch.get_num_threads(), batches.together) if device_of(model).type == "cpu" else 1
        self.crew = Crew(self.objective, self.settings.precision, device_of(model), threads)

    def run(self) -> Outcome:
        """Train until the updates are done, patience ends or a signal comes; the folder has the best weights then."""
        ahead = Ahead(map(_with_tensors, self.batches.updates(self.progress.position)))
        with stops(self._stop), ahead as stream:
            meter = _Meter()
            while (reason := self._finished()) is None:
                self._update(stream, meter)
                if self.progress.update % self.settings.log_every == 0:
                    self._log(meter)
                if self.progress.update % self.settings.validate_every == 0:
                    self._look()
            if self.signal is None and self.progress.update % self.settings.validate_every:
                self._look()
            if not (self.folder / WEIGHTS).exists():  # stopped before the first look: what there is can be used
                with self._averaged():
                    save_tensors(self.folder / WEIGHTS, weights(self.model), {"update": str(self.progress.update)})
            self._save()
        self._note("end", reason=reason, update=self.progress.update, seconds=self.progress.seconds)
        return Outcome(self.progress, reason, self.signal)

    def resume(self) -> bool:
        """Go on from the newest checkpoint; False where there is none."""
        found = self.checkpoints.load()
        if found is None:
            return False
        parts, state = found
        put_weights(self.model, parts["model"], self.checkpoints.folder)
        resume.put_optimizer(self.optimizer, self.model, parts["optimizer"])
        for name, value in self.average.items():
            value.copy_(parts["average"][name])
        torch.set_rng_state(parts["random"]["cpu"])
        self.progress = Progress.from_json(state)
        if self.settings.updates is not None:
            self.progress.updates = self.settings.updates
        self.journal.cut(self.progress.update)
        self._note("resume", update=self.progress.update)
        return True

    def _update(self, stream: Iterator[tuple[Update, list[PairBatch]]], meter: _Meter) -> None:
        began, progress = time.perf_counter(), self.progress
        self.model.train()
        update, batches = next(stream)
        progress.update += 1
        keys = [f"{self.settings.seed}/{progress.update}/{number}" for number in range(len(batches))]
        losses = self.crew.gradients(list(zip(batches, keys, strict=True)), update.tokens)
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf))
        self._check(norm)
        now = rate(self.recipe.schedule, progress.update, self.model.decoder.output.weight.shape[1])
        for settings in self.optimizer.param_groups:
            settings["lr"] = now
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._remember()
        progress.position, progress.tokens = update.after, progress.tokens + update.tokens
        spent = time.perf_counter() - began
        progress.seconds += spent
        meter.add(losses, norm, spent)
        self._resolve_budget(meter)

    def _check(self, norm: float) -> None:
        if not math.isfinite(norm):
            raise TrainingError(
                f"update {self.progress.update}: the gradient is not a number any more, so nothing was changed; the "
                "last checkpoint is kept. Lower schedule.peak or lengthen schedule.warmup, then train with --resume"
            )

    def _remember(self) -> None:
        """Move the running average of the weights; young averages follow faster."""
        memory = min(self.settings.average, (1 + self.progress.update) / (10 + self.progress.update))
        current = weights(self.model)
        torch._foreach_lerp_(list(self.average.values()), list(current.values()), 1 - memory)

    def _resolve_budget(self, meter: _Meter) -> None:
        """Turn minutes into updates, once, when the speed is known: from then on the run is fixed."""
        progress, minutes = self.progress, self.settings.minutes
        if minutes is None or progress.updates is not None or progress.update < SPEED_KNOWN:
            return
        each = meter.median_seconds()
        left = minutes * 60 - progress.seconds
        progress.updates = progress.update + max(0, int(left / each))
        self.recipe = self.recipe.with_values(
            training={**self.recipe.training.model_dump(), "updates": progress.updates, "minutes": None}
        )
        self.recipe.write(self.folder / "train.toml")
        self._note("budget", update=progress.update, minutes=minutes, updates=progress.updates, each=each)

    def _finished(self) -> str | None:
        progress = self.progress
        if self.signal is not None:
            return f"stopped by {signal.Signals(self.signal).name}"
        if progress.updates is not None and progress.update >= progress.updates:
            return "all updates done"
        if progress.looks_since_best >= self.settings.patience:
            return f"no better score in {self.settings.patience} looks"
        return None

    def _log(self, meter: _Meter) -> None:
        p = self.progress
        now = rate(self.recipe.schedule, p.update, self.model.decoder.output.weight.shape[1])
        values = {**meter.read(), "rate": now, "tokens": p.tokens, "seconds": p.seconds, "epoch": p.position.epoch}
        self._note("train", update=p.update, updates=p.updates, **values)

    def _look(self) -> None:
        """Validate the averaged weights, keep them if they are the best so far, and save a checkpoint."""
        progress, began = self.progress, time.perf_counter()
        with self._averaged():
            self.model.eval()
            scores = self.validate(self.model)
            score = -scores["loss"] if self.settings.best_by == "loss" else scores[self.settings.best_by]
            progress.looks_since_best += 1
            if score > progress.best:
                progress.best, progress.best_update, progress.looks_since_best = score, progress.update, 0
                save_tensors(self.folder / WEIGHTS, weights(self.model), {"update": str(progress.update)})
        spent = time.perf_counter() - began
        best = progress.best_update == progress.update
        sums = {"tokens": progress.tokens, "seconds": progress.seconds, "validation_seconds": spent}
        self._note("valid", update=progress.update, **scores, best=best, **sums)
        self._save()

    def _save(self) -> None:
        parts = {
            "model": weights(self.model),
            "average": self.average,
            "optimizer": resume.optimizer_tensors(self.optimizer, self.model),
            "random": {"cpu": torch.get_rng_state()},
        }
        self.checkpoints.save(self.progress.update, parts, self.progress.as_json())

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """The model with the averaged weights, for as long as the block runs."""
        if not self.settings.average:
            yield
            return
        current = weights(self.model)
        kept = {name: value.clone() for name, value in current.items()}
        try:
            for name, value in current.items():
                value.copy_(self.average[name])
            yield
        finally:
            for name, value in current.items():
                value.copy_(kept[name])

    def _note(self, event: str, **values: Any) -> None:
        self.journal.write(event, **values)
        if self.say is not None:
            self.say(event, values)

    def _stop(self, number: int) -> None:
        self.signal = number


class _Meter:
    """Sums since the last line of the journal."""

    def __init__(self) -> None:
        self._smoothed = self._entropy = self._seconds = self._norm = 0.0
        self._tokens = 0
        self._all: list[float] = []

    def add(self, losses: list[Loss], norm: float, seconds: float) -> None:
        self._smoothed += sum(float(loss.smoothed) for loss in losses)
        self._entropy += sum(float(loss.entropy) for loss in losses)
        self._tokens += sum(loss.tokens for loss in losses)
        self._seconds += seconds
        self._norm = norm
        if len(self._all) < SPEED_KNOWN:
            self._all.append(seconds)

    def read(self) -> dict[str, float]:
        """What the journal says of the updates since the last reading."""
        values = {
            "loss": self._smoothed / self._tokens,
            "entropy": self._entropy / self._tokens,
            "gradient": self._norm,
            "tokens_per_second": self._tokens / self._seconds,
        }
        self._smoothed = self._entropy = self._seconds = 0.0
        self._tokens = 0
        return values

    def median_seconds(self) -> float:
        """Seconds of a typical update; the first few warm caches up."""
        later = sorted(self._all[5:] or self._all)
        return later[len(later) // 2]


def _optimizer(model: Model, recipe: Recipe) -> torch.optim.Optimizer:
    s = recipe.training
    kind = torch.optim.AdamW if s.optimizer == "adamw" else torch.optim.Adam
    # The rate is set before every step; fused is three to five times as fast on a CPU.
    return kind(model.parameters(), lr=0.0, betas=(s.beta1, s.beta2), eps=1e-9, weight_decay=s.weight_decay, fused=True)


def _with_tensors(update: Update) -> tuple[Update, list[PairBatch]]:
    return update, [plan.batch() for plan in update.plans]


@contextmanager
def stops(stop: Callable[[int], None]) -> Iterator[None]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; a second one stops at once."""

    def once(number: int, _: Any) -> None:
        stop(number)
        for name, old in before.items():
            signal.signal(name, old)

    before = {}
    try:
        for name in (signal.SIGINT, signal.SIGTERM):
            before[name] = signal.signal(name, once)
    except ValueError:  # not in the main thread: nobody can press Ctrl-C here
        pass
    try:
        yield
    finally:
        for name, old in before.items():
            signal.signal(name, old)
