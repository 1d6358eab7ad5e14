"""Trainer: the training loop with validation, early stopping, checkpoints and the journal of a
run.
"""

from __future__ import annotations

import math
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.common.counting import counted
from regard.common.errors import TrainingError
from regard.common.reading import reason_of
from regard.data.batch import TrainingBatch
from regard.data.batch_stream import BatchSource, Position, Update
from regard.model_folder import WEIGHTS, named_weights
from regard.models import Model
from regard.training.best_weights import BestWeights
from regard.training.checkpoint import (
    Checkpoints,
    has_checkpoint,
    init_optimizer_state,
    optimizer_tensors,
)
from regard.training.checkpoint_tensors import Parts
from regard.training.distributed import World, full_tensor
from regard.training.gradient_workers import out_of_memory
from regard.training.journal import Journal, Report
from regard.training.loss import Loss
from regard.training.loss_meter import Meter
from regard.training.moving_average import MovingAverage
from regard.training.prefetch import Prefetcher
from regard.training.recipe import Recipe
from regard.training.schedule import learning_rate
from regard.training.updater import Updater

# Loss, chrf, bleu, of captions cider; all of it goes into the journal.
Validate = Callable[[Model], dict[str, Any]]
# Micro-batches of this process with their indices in the update.
Batches = list[tuple[int, TrainingBatch]]
RECENT = 120.0  # seconds by whose pace the time left is estimated
# Share of the time that the end of a run is expected to take before there was a validation.
CLOSING = 0.03
CLOSINGS = 3.0  # how many times a validation it takes, by default
PROGRESS = 1.0  # seconds between two reports of progress


@dataclass
class Progress:
    """State of a run beside its tensors, part of every checkpoint."""

    update: int = 0
    updates: int | None = None  # at which it ends, once known
    tokens: int = 0
    seconds: float = 0.0  # of training, without validation
    # Seconds of the clock, with validation and checkpoints, which `training.minutes` limits.
    elapsed: float = 0.0
    # Seconds that the end of the run will take, by the last validation.
    closing: float = 0.0
    batch_parts: int = (
        1  # parts that each micro-batch is computed in, after one did not fit in memory
    )
    position: Position = field(default_factory=Position)
    best: float = -math.inf
    best_by: str = ""  # the score that `best` is
    best_loss: float = math.inf  # of the same validation: breaks ties
    best_update: int = 0
    validations_since_best: int = 0
    validated_at: int = 0  # the update of the last validation

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        for name in ("best", "best_loss"):
            values[name] = None if math.isinf(values[name]) else values[name]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        """Raise ValueError, KeyError or TypeError for values that are not of a run."""
        for name, default in asdict(cls()).items():
            kinds = {"best_by": str, "position": dict}.get(
                name, (int, float, type(default), type(None))
            )
            if not isinstance(values[name], kinds) or isinstance(values[name], bool):
                raise TypeError(f"its state has {name} = {values[name]!r:.40}")
        known = {
            name: value
            for name, value in values.items()
            if value is not None or name == "updates"
        }
        return cls(**{**known, "position": Position.from_json(values["position"])})


@dataclass(frozen=True)
class Outcome:
    """End of a run and its reason; `stopped` is the number of the signal that stopped it, if one
    did.
    """

    progress: Progress
    reason: str
    stopped: int | None = None


class Trainer:
    """Trains a model in a run folder. `report` is called with each event as it is written to the
    journal.

    Each process of `world` computes its share of every update; the main one validates, writes and
    reports. The end of the run, which `training.minutes` includes, is expected to take `closings`
    times as long as a validation.
    """

    def __init__(  # noqa: PLR0913 - all that a training depends on
        self,
        model: Model,
        batches: BatchSource,
        recipe: Recipe,
        folder: Path,
        validate: Validate,
        report: Report | None = None,
        world: World | None = None,
        closings: float = CLOSINGS,
    ) -> None:
        self.model = model
        self.batches = batches
        self.recipe = recipe
        self.folder = folder
        self.validate = validate
        self.report = report
        self.world = world or World()
        self.closings = closings
        self.settings = recipe.training
        _check_per_update(batches, self.world, self.settings.sharded == "layers")
        self.updater = Updater(
            model, recipe, -(-batches.per_update // self.world.size), self.world
        )
        self.ema = MovingAverage(model, self.settings.ema_decay)
        self.checkpoints = Checkpoints(
            folder / "checkpoints", self.settings.keep_checkpoints, self.world
        )
        self.journal = Journal(folder / "journal.jsonl")
        self.best = BestWeights(
            folder / WEIGHTS, lambda problem: self._record("restored", problem=problem)
        )
        self.progress = Progress(
            updates=self.settings.updates, best_by=self.settings.best_by
        )
        self.signal: int | None = None  # that all processes stop for
        self._received: int | None = None  # signal of this process
        self._saved = time.monotonic()
        self._saved_update = -1
        self._clock = _Clock()

    def run(self) -> Outcome:
        """Train until the updates are done, patience ends or a signal comes; the folder then has
        the best weights.

        Raises TrainingError if memory, disk or a gradient do not allow to continue; the last
        checkpoint is kept.
        """
        try:
            return self._run()
        except Exception as problem:
            if isinstance(problem, TrainingError) or not out_of_memory(problem):
                raise
            cause = reason_of(problem)
        raise TrainingError(
            f"update {self.progress.update}: out of memory ({cause}) outside the batches of an "
            f"update; {self._last_checkpoint()}. Take a smaller model or batching.tokens, or close "
            "other programs and continue with `resume=True`"
        )

    def _run(self) -> Outcome:
        guide = self.updater.guide
        if guide is not None and self.world.is_main:
            guide.save_choice(self.folder)
        prefetcher = Prefetcher(
            map(self._load, self.batches.updates(self.progress.position))
        )
        with handle_stop_signals(self._request_stop), prefetcher as updates:
            meter = Meter()
            self._clock = _Clock(self.progress.elapsed)
            while (reason := self._reason_to_end()) is None:
                self._update(updates, meter)
                if self.progress.update % self.settings.log_every == 0:
                    self._log(meter)
                if self.progress.update % self.settings.validate_every == 0:
                    self._validate()
                elif self._checkpoint_is_due():
                    self._save_checkpoint()
            if (
                self.signal is None
                and self.progress.validated_at < self.progress.update
            ):
                self._validate()
            # Stopped before the first validation: the folder is usable.
            if not self.progress.best_update:
                with self.ema.swapped_in(self.world.sharded):
                    self._save_weights()
            self._settle_minutes()
            self._save_checkpoint()
        self.updater.workers.close()
        self._record(
            "end",
            reason=reason,
            update=self.progress.update,
            seconds=self.progress.seconds,
        )
        return Outcome(self.progress, reason, self.signal)

    def resume(self) -> bool:
        """Restore the newest undamaged checkpoint, and the best weights from it; False if there is
        none.

        Raises TrainingError if every checkpoint is damaged, or the best weights cannot be restored.
        """
        optimizer = self.updater.optimizer
        init_optimizer_state(optimizer)
        own = self._parts()
        signals = list[int]()
        # An interrupt in PyTorch's reading would look like damage.
        with handle_stop_signals(signals.append):
            seal = self.checkpoints.load(
                own,
                lambda problem: self._record("damaged", problem=problem),
                Progress.from_json,
            )
        if signals:
            signal.raise_signal(signals[0])
        if seal is None:
            optimizer.state.clear()
            if self.world.is_main:
                self.journal.truncate(0)
            self.world.barrier()
            return False
        torch.set_rng_state(own["random"]["cpu"])
        self.progress = Progress.from_json(seal.state)
        self._saved_update = self.progress.update
        # Other scores cannot be compared.
        if self.progress.best_by not in (
            "",
            self.settings.best_by,
        ):
            (
                self.progress.best,
                self.progress.best_loss,
                self.progress.validations_since_best,
            ) = (
                -math.inf,
                math.inf,
                0,
            )
        self.progress.best_by = self.settings.best_by
        if self.settings.updates is not None:
            self.progress.updates = self.settings.updates
        if self.world.is_main:
            self.journal.truncate(self.progress.update)
            self.best.resume(*seal.best)
        self.world.barrier()
        self._record("resume", update=self.progress.update)
        return True

    def _update(self, updates: Iterator[tuple[Update, Batches]], meter: Meter) -> None:
        began = time.perf_counter()
        progress = self.progress
        s = self.settings
        self.model.train()
        update, batches = next(updates)
        progress.update += 1
        sampling = s.scheduled_sampling * min(
            1.0, progress.update / max(1, s.scheduled_sampling_ramp)
        )
        self.updater.workers.configure(
            s.rdrop if progress.update > s.rdrop_after else 0.0, sampling
        )
        losses = self._accumulate(update, batches)
        norm = self.updater.clip()
        self._check_finite(norm)
        self.updater.step(self._learning_rate())
        self.ema.update(progress.update)
        progress.position = update.after
        progress.tokens = progress.tokens + update.tokens
        seconds = time.perf_counter() - began
        progress.seconds += seconds
        meter.add(losses, norm, update.tokens, seconds)
        progress.elapsed = self._clock.after(progress.update)
        if self.world.size > 1:
            progress.elapsed, progress.closing = self.world.broadcast(
                progress.elapsed, progress.closing
            )
            self.signal = (
                int(self.world.all_reduce_max(float(self._received or 0))[0]) or None
            )
        if (
            self.world.is_main
            and self.report is not None
            and self._clock.is_report_due()
        ):
            self.report(
                "progress",
                self._progress_values()
                | {"tokens_per_second": update.tokens / seconds},
            )

    def _accumulate(self, update: Update, batches: Batches) -> list[Loss]:
        """The losses of an update; its micro-batches are halved until they fit in memory, if that
        is allowed.
        """
        while True:
            try:
                return self.updater.accumulate(
                    self.progress.update,
                    batches,
                    update.tokens,
                    self.progress.batch_parts,
                )
            except Exception as problem:
                if not out_of_memory(problem):
                    raise
                cause = reason_of(problem)
            # Outside the except clause: while the exception is held, it holds the tensors of the
            # failed pass.
            self._halve(batches, cause)

    def _halve(self, batches: Batches, cause: str) -> None:
        """Compute micro-batches in twice as many parts. Raises TrainingError if that is not allowed
        or possible.
        """
        progress = self.progress
        largest = max(len(batch.source) for _, batch in batches)
        self.updater.free_memory()
        if (
            not self.settings.halve_batches
            or self.world.size > 1
            or progress.batch_parts >= largest
        ):
            more = 2 * self.batches.per_update
            halve = "; or continue with `resume=True` and `training.halve_batches=true`"
            raise TrainingError(
                f"update {progress.update}: out of memory ({cause}); nothing was changed and "
                f"{self._last_checkpoint()}. Train anew with batching.micro_batches={more}: "
                "updates of the same size from smaller "
                f"batches{'' if self.settings.halve_batches or self.world.size > 1 else halve}"
            )
        progress.batch_parts *= 2
        self._record("halved", update=progress.update, parts=progress.batch_parts)

    def _check_finite(self, norm: float) -> None:
        if not math.isfinite(norm):
            raise TrainingError(
                f"update {self.progress.update}: the gradient is infinite or NaN, so nothing was "
                f"changed; {self._last_checkpoint()}. Lower schedule.peak or lengthen "
                "schedule.warmup, then train with `resume=True`; should it stop here again, the "
                "weights were damaged before: delete the newest folder in "
                f"{self.checkpoints.folder}"
            )

    def _last_checkpoint(self) -> str:
        return (
            "the last checkpoint is kept"
            if has_checkpoint(self.folder)
            else "there is no checkpoint yet"
        )

    @property
    def _is_time_up(self) -> bool:
        """Return whether what `training.minutes` leaves is needed for the end of the run."""
        minutes = self.settings.minutes
        progress = self.progress
        if minutes is None or not progress.update:
            return False
        return (
            progress.elapsed + (progress.closing or 60 * minutes * CLOSING)
            >= 60 * minutes
        )

    def _settle_minutes(self) -> None:
        """Write the updates that `training.minutes` came to into the recipe: a run by it has the
        same weights.
        """
        progress = self.progress
        minutes = self.settings.minutes
        if minutes is None or self.signal is not None:
            return
        progress.updates = progress.update
        self.recipe = self.recipe.with_values(
            training={
                **self.recipe.training.model_dump(),
                "updates": progress.updates,
                "minutes": None,
            }
        )
        if self.world.is_main:
            self.recipe.write(self.folder / "train.toml")
        self._record(
            "budget", update=progress.update, minutes=minutes, updates=progress.updates
        )

    def _progress_values(self) -> dict[str, Any]:
        """Return where the run stands: its update, the last one if known, the epoch, and the
        seconds left if known.
        """
        progress = self.progress
        left = None
        if self.settings.minutes is not None:
            left = max(0.0, 60 * self.settings.minutes - progress.elapsed)
        elif progress.updates is not None:
            left = (
                self._clock.pace() * (progress.updates - progress.update)
                + progress.closing
            )
        return {
            "update": progress.update,
            "updates": progress.updates,
            "seconds_left": left,
            "epoch": progress.position.epoch,
        }

    def _reason_to_end(self) -> str | None:
        progress = self.progress
        if self.signal is not None:
            return f"stopped by {signal.Signals(self.signal).name}"
        if progress.updates is not None and progress.update >= progress.updates:
            return "all updates done"
        if self._is_time_up:
            return f"the rest of {self.settings.minutes:.3g} minutes is for the end of the run"
        if progress.validations_since_best >= self.settings.patience:
            return f"no better score in {counted(self.settings.patience, 'validation')}"
        return None

    def _learning_rate(self) -> float:
        return learning_rate(
            self.recipe.schedule,
            self.progress.update,
            self.model.decoder.output.weight.shape[1],
        )

    def _log(self, meter: Meter) -> None:
        p = self.progress
        sums = self.world.all_reduce_sum(*meter.sums)
        values = {
            **meter.read(sums),
            "learning_rate": self._learning_rate(),
            "tokens": p.tokens,
            "seconds": p.seconds,
        }
        self._record("train", **self._progress_values(), **values)

    def _validate(self) -> None:
        """Validate the averaged weights, write them if they are the best so far, and save a
        checkpoint.
        """
        progress = self.progress
        began = time.perf_counter()
        with self.ema.swapped_in(self.world.sharded):
            self.model.eval()
            # If weights are split over the processes, all of them must take part in every pass.
            scores = (
                self.validate(self.model)
                if self.world.is_main or self.world.sharded
                else {}
            )
            by = self.settings.best_by
            score = 0.0 if not scores else -scores[by] if by == "loss" else scores[by]
            score, loss = self.world.broadcast(score, scores.get("loss", 0.0))
            progress.validations_since_best += 1
            progress.validated_at = progress.update
            if math.isfinite(loss) and (score, -loss) > (
                progress.best,
                -progress.best_loss,
            ):
                progress.best = score
                progress.best_loss = loss
                progress.best_update = progress.update
                progress.validations_since_best = 0
                self._save_weights()
        seconds = time.perf_counter() - began
        best = progress.best_update == progress.update
        sums = {
            "tokens": progress.tokens,
            "seconds": progress.seconds,
            "validation_seconds": seconds,
        }
        self._record("valid", update=progress.update, **scores, best=best, **sums)
        (progress.closing,) = self.world.broadcast(
            self.closings * (time.perf_counter() - began)
        )
        self._save_checkpoint()

    def _save_weights(self) -> None:
        """Write the model's present weights into the run folder."""
        tensors = {}
        for name, value in named_weights(self.model).items():
            whole = full_tensor(value)  # by all processes, one at a time
            if self.world.is_main:
                tensors[name] = whole.cpu()
        if self.world.is_main:
            self.best.save(tensors, self.progress.update)

    def _checkpoint_is_due(self) -> bool:
        due = time.monotonic() - self._saved > 60 * self.settings.checkpoint_minutes
        return bool(self.world.broadcast(float(due))[0]) if self.world.size > 1 else due

    def _save_checkpoint(self) -> None:
        if self._saved_update == self.progress.update:  # nothing has changed since
            return
        self.checkpoints.save(
            self.progress.update, self._parts(), self.progress.as_json(), self.best
        )
        self._saved = time.monotonic()
        self._saved_update = self.progress.update

    def _parts(self) -> Parts:
        """The tensors of a checkpoint."""
        return {
            "model": named_weights(self.model),
            "ema": self.ema.weights,
            "optimizer": optimizer_tensors(self.updater.optimizer, self.model),
            "random": {"cpu": torch.get_rng_state()},
        }

    def _record(self, event: str, **values: Any) -> None:
        """Write an event into the journal and report it."""
        if not self.world.is_main:
            return
        self.journal.write(event, **values)
        if self.report is not None:
            self.report(event, values)

    def _request_stop(self, number: int) -> None:
        """Several processes stop after the same update: one that stopped at once would leave the
        others waiting.
        """
        self._received = number
        if self.world.is_main and self.report is not None:
            with suppress(RuntimeError):  # the signal interrupted another report
                self.report("stopping", {"signal": number})
        if self.world.size == 1:
            self.signal = number

    def _load(self, update: Update) -> tuple[Update, Batches]:
        """An update with the tensors of the micro-batches that this process computes."""
        return update, [
            (index, update.plans[index].batch())
            for index in self.world.share(update.plans)
        ]


class _Clock:
    """Clock of a run: seconds since it began, `before` of them before it was resumed, and its pace
    of late.
    """

    def __init__(self, before: float = 0.0) -> None:
        self._began = time.monotonic() - before
        self._recent = deque([(before, 0)])
        self._reported = -math.inf

    def after(self, update: int) -> float:
        """Return the seconds of the run after this update."""
        now = time.monotonic() - self._began
        if not self._recent[0][1]:
            self._recent[0] = (self._recent[0][0], update - 1)
        self._recent.append((now, update))
        while len(self._recent) > 2 and self._recent[1][0] < now - RECENT:
            self._recent.popleft()
        return now

    def pace(self) -> float:
        """Return the mean seconds of an update in the last minutes, validations with them."""
        (before, first), (now, last) = self._recent[0], self._recent[-1]
        return (now - before) / max(1, last - first)

    def is_report_due(self) -> bool:
        """Return whether the last report of progress is a second ago."""
        now = time.monotonic()
        is_due = now - self._reported >= PROGRESS
        self._reported = now if is_due else self._reported
        return is_due


def _check_per_update(batches: BatchSource, world: World, equal: bool) -> None:
    """Raise TrainingError if the micro-batches of an update cannot be shared by the processes,
    equally if `equal`.
    """
    if batches.per_update < world.size:
        raise TrainingError(
            f"{world.size} processes cannot share {batches.per_update} micro-batches an update; "
            f"set batching.micro_batches to {world.size} or a multiple of it, or start fewer "
            "processes"
        )
    if equal and batches.per_update % world.size:
        raise TrainingError(
            f'training.sharded = "layers": {world.size} processes must have equally many '
            f"micro-batches, and an update has {batches.per_update}; set batching.micro_batches to "
            f"{world.size} or a multiple of it"
        )


@contextmanager
def handle_stop_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Turn the first Ctrl-C or SIGTERM into a call of `stop`; a second one stops at once."""

    def handle(number: int, _: Any) -> None:
        stop(number)
        for name, handler in before.items():
            signal.signal(name, handler)

    before = {}
    with suppress(ValueError):  # not in the main thread, where no signal arrives
        for name in (signal.SIGINT, signal.SIGTERM):
            before[name] = signal.signal(name, handle)
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
