"""Trainer: the training loop with validation, early stopping, checkpoints and journal."""

from __future__ import annotations

import math
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.common.arguments import Report
from regard.common.counting import counted
from regard.common.errors import TrainingError
from regard.common.plugins import place_in, qualified_name, short
from regard.common.reading import reason_of
from regard.data.batch import TrainingBatch
from regard.data.batch_stream import BatchSource, Position, Update
from regard.model_folder import WEIGHTS, named_weights
from regard.models import Model
from regard.training.best_weights import BestWeights
from regard.training.callbacks import Extensions, TrainingContext
from regard.training.checkpoint import (
    Checkpoints,
    has_checkpoint,
    init_optimizer_state,
    optimizer_tensors,
)
from regard.training.checkpoint_tensors import Parts
from regard.training.distributed import World, full_tensor
from regard.training.early_stopping import is_patience_over, meaningful
from regard.training.gradient_workers import out_of_memory
from regard.training.journal import Journal, ValidationScores
from regard.training.loss import Loss
from regard.training.loss_meter import Meter
from regard.training.moving_average import MovingAverage
from regard.training.prefetch import Prefetcher
from regard.training.recipe import Recipe
from regard.training.schedule import learning_rate
from regard.training.updater import Updater

Validate = Callable[[Model], ValidationScores]
"""Validation of a model, for the journal."""
Batches = list[tuple[int, TrainingBatch]]
"""Micro-batches of this process with their indices in the update."""
RECENT = 120.0
"""Seconds over which the pace is averaged, by which the time left is estimated."""
CLOSING = 0.03
"""Share of the time that the end of a run is expected to take, before the first validation."""
CLOSING_SHARE = 0.1
"""Share of its time that a run may take at its end for outputs with the default search."""
CLOSING_RATIO = 3.0
"""Default duration of the end of a run, as a multiple of that of a validation."""
NONE = Extensions()
"""A training with the loss of its recipe, and without callbacks."""
PROGRESS = 1.0
"""Seconds between two reports of progress."""


@dataclass
class Progress:
    """State of a run besides its tensors; every checkpoint contains it."""

    update: int = 0
    updates: int | None = None  # the last update, if known
    tokens: int = 0
    seconds: float = 0.0  # of training, without validation
    # Wall-clock seconds, with validation and checkpoints, which `training.minutes` limits.
    elapsed: float = 0.0
    # Expected seconds of the end of the run, estimated from the last validation.
    closing: float = 0.0
    # Parts in which each micro-batch is computed, if it does not fit in memory.
    batch_parts: int = 1
    position: Position = field(default_factory=Position)
    best: float = -math.inf
    best_by: str = ""  # name of the score in `best`
    best_loss: float = math.inf  # of the same validation; breaks ties
    best_update: int = 0
    validations_since_best: int = 0
    validated_at: int = 0  # update of the last validation

    def as_json(self) -> dict[str, object]:
        values = asdict(self)
        for name in ("best", "best_loss"):
            values[name] = None if math.isinf(values[name]) else values[name]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Progress:
        """Read the values that `as_json` returned.

        Raises ValueError, KeyError or TypeError if they are no state of a run.
        """
        other_types = {"best_by": str, "position": dict}
        for name, default in asdict(cls()).items():
            types = other_types.get(name, (int, float, type(default), type(None)))
            if not isinstance(values[name], types) or isinstance(values[name], bool):
                raise TypeError(f"its state has {name} = {values[name]!r:.40}")
        # None stands for an infinite number, which is the default of its field.
        fields: dict[str, Any] = {
            name: value
            for name, value in values.items()
            if value is not None or name == "updates"
        }
        fields["position"] = Position.from_json(fields["position"])
        return cls(**fields)


@dataclass(frozen=True)
class Outcome:
    """End of a run and its reason; `stopped` is the signal that stopped it, if there was one."""

    progress: Progress
    reason: str
    stopped: int | None = None


class Trainer:
    """Trains a model in a run folder.

    `report` is called with each event that is written to the journal. Each process of `world`
    computes its share of every update; the main one validates, writes and reports. The end of the
    run, which `training.minutes` includes, is expected to take `closing_ratio` times as long as
    a validation.
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
        closing_ratio: float = CLOSING_RATIO,
        extensions: Extensions = NONE,
    ) -> None:
        self.model = model
        self.batches = batches
        self.recipe = recipe
        self.folder = folder
        self.validate = validate
        self.report = report
        self.world = world or World()
        self.closing_ratio = closing_ratio
        self.settings = recipe.training
        _check_per_update(batches, self.world, self.settings.sharded == "layers")
        share = -(-batches.per_update // self.world.size)
        self.extensions = extensions
        self.context = TrainingContext(model, folder, recipe)
        self.updater = Updater(model, recipe, share, self.world, extensions.objective)
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
        self.signal: int | None = None  # signal for which all processes stop
        self._received: int | None = None  # signal that this process has received
        self._saved = time.monotonic()
        self._saved_update = -1
        self._clock = _Clock()

    def run(self) -> Outcome:
        """Train until all updates are done, patience ends or a signal arrives.

        The folder then has the best weights. Raises TrainingError if training cannot continue for
        lack of memory, for the disk or for a gradient that is not finite; the last checkpoint is
        kept.
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
            self._call("on_start")
            while (reason := self._reason_to_end()) is None:
                self._update(updates, meter)
                if self.progress.update % self.settings.log_every == 0:
                    self._log(meter)
                if self.progress.update % self.settings.validate_every == 0:
                    self._validate()
                elif self._checkpoint_is_due():
                    self._save_checkpoint()

            is_validated = self.progress.validated_at >= self.progress.update
            if self.signal is None and not is_validated:
                self._validate()
            # A run that was stopped before its first validation has a usable folder, too.
            if not self.progress.best_update:
                with self.ema.swapped_in(self.world.sharded):
                    self._save_weights()
            self._settle_minutes()
            self._save_checkpoint()
            self._call("on_end")
        self.updater.workers.close()
        self._record(
            "end",
            reason=reason,
            update=self.progress.update,
            tokens=self.progress.tokens,
            seconds=self.progress.seconds,
        )
        return Outcome(self.progress, reason, self.signal)

    def resume(self) -> bool:
        """Restore the newest undamaged checkpoint and its best weights; return False without one.

        Raises TrainingError if every checkpoint is damaged, or the best weights cannot be restored.
        """
        optimizer = self.updater.optimizer
        init_optimizer_state(optimizer)
        parts = self._parts()
        signals = list[int]()
        # Signals are handled after reading: an interrupted read would look like damage.
        with handle_stop_signals(signals.append):
            seal = self.checkpoints.load(
                parts,
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

        torch.set_rng_state(parts["random"]["cpu"])
        progress = Progress.from_json(seal.state)
        self.progress = progress
        self._saved_update = progress.update
        if progress.best_by not in ("", self.settings.best_by):
            # Values of different scores cannot be compared.
            progress.best = -math.inf
            progress.best_loss = math.inf
            progress.validations_since_best = 0
        progress.best_by = self.settings.best_by
        if self.settings.updates is not None:
            progress.updates = self.settings.updates
        if self.world.is_main:
            self.journal.truncate(progress.update)
            self.best.resume(*seal.best)
        self.world.barrier()
        self._record("resume", update=progress.update)
        return True

    def train_longer(self, minutes: float) -> None:
        """End a resumed run so many minutes from now, whatever its recipe says.

        Patience counts anew.
        """
        (elapsed,) = self.world.broadcast(self.progress.elapsed / 60 + minutes)
        training = self.recipe.training.model_dump()
        training |= {"updates": None, "minutes": elapsed}
        self.recipe = self.recipe.with_values(training=training)
        self.settings = self.recipe.training
        self.progress.updates = None
        self.progress.validations_since_best = 0

    def _update(self, updates: Iterator[tuple[Update, Batches]], meter: Meter) -> None:
        began = time.perf_counter()
        progress = self.progress
        s = self.settings
        self.model.train()
        update, batches = next(updates)
        progress.update += 1
        self.context.learning_rate = self._learning_rate()
        if self.extensions.callbacks:
            self.context.batches = [batch for _, batch in batches]
            self._call("before_update")
        ramp = min(1.0, progress.update / max(1, s.scheduled_sampling_ramp))
        rdrop = s.rdrop if progress.update > s.rdrop_after else 0.0
        self.updater.workers.configure(rdrop, s.scheduled_sampling * ramp)

        losses = self._accumulate(update, batches)
        norm = self.updater.clip()
        self._check_finite(norm, losses)
        self.updater.step(self.context.learning_rate)
        self.ema.update(progress.update)

        progress.position = update.after
        progress.tokens += update.tokens
        seconds = time.perf_counter() - began
        progress.seconds += seconds
        meter.add(losses, norm, update.tokens, seconds)
        progress.elapsed = self._clock.after(progress.update)
        if self.world.size > 1:
            progress.elapsed, progress.closing = self.world.broadcast(
                progress.elapsed, progress.closing
            )
            (signal_number,) = self.world.all_reduce_max(float(self._received or 0))
            self.signal = int(signal_number) or None
        reports = self.world.is_main and self._clock.is_report_due()
        if reports and self.report is not None:
            values = self._progress_values()
            values["tokens_per_second"] = update.tokens / seconds
            self.report("progress", values)
        if self.extensions.callbacks:
            means = Meter()
            means.add(losses, norm, update.tokens, seconds)
            self._call("after_update", means.read(means.sums))

    def _call(self, point: str, metrics: Mapping[str, object] | None = None) -> None:
        """Call the callbacks at a point.

        Raises TrainingError, after a checkpoint, if one of them fails.
        """
        context = self.context
        context.update = self.progress.update
        context.metrics = metrics or {}
        for callback in self.extensions.callbacks:
            try:
                getattr(callback, point)(context)
            except Exception as problem:
                name = f"callback {qualified_name(callback)}, {point}"
                line = place_in(callback, problem)
                raise self._failure(
                    name, line, problem, point == "before_update"
                ) from problem
        if context.logged:
            self._record("callback", update=context.update, **context.logged)
            context.logged = {}

    def _failure(
        self, name: str, place: str, problem: Exception, is_before_update: bool
    ) -> TrainingError:
        """Save a checkpoint, and return the error of what the caller of a training brought, with
        its place.

        `is_before_update`: the weights are still those of the update before.
        """
        self.progress.update -= is_before_update
        if self.progress.update:
            self._save_checkpoint()
        remedy = "train with `resume=True`"
        if not has_checkpoint(self.folder):
            remedy = "train again"
        return TrainingError(
            f"update {self.progress.update}: {short(name)} failed with {type(problem).__name__}: "
            f"{problem} ({place}); {self._last_checkpoint()}: mend it, then {remedy}"
        )

    def _accumulate(self, update: Update, batches: Batches) -> list[Loss]:
        """Compute the gradients of an update and return its losses.

        If they are allowed to be, micro-batches are halved until they fit in memory.
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
                    objective = self.extensions.objective
                    if objective is None:
                        raise
                    name = f"objective {qualified_name(objective)}"
                    self.updater.free_memory()
                    line = place_in(objective, problem)
                    raise self._failure(name, line, problem, True) from problem
                cause = reason_of(problem)
            # This is outside the except clause, because the exception keeps the tensors of the
            # failed pass alive.
            self._halve(batches, cause)

    def _halve(self, batches: Batches, cause: str) -> None:
        """Compute micro-batches in twice as many parts.

        Raises TrainingError if that is not allowed or not possible.
        """
        progress = self.progress
        largest = max(len(batch.source) for _, batch in batches)
        self.updater.free_memory()
        is_single = self.world.size == 1
        can_halve = is_single and progress.batch_parts < largest
        if not (self.settings.halve_batches and can_halve):
            micro_batches = 2 * self.batches.per_update
            alternative = ""
            if is_single and not self.settings.halve_batches:
                alternative = (
                    "; or continue with `resume=True` and `training.halve_batches=true`"
                )
            raise TrainingError(
                f"update {progress.update}: out of memory ({cause}); nothing was changed and "
                f"{self._last_checkpoint()}. Train anew with batching.micro_batches={micro_batches}"
                f": updates of the same size from smaller batches{alternative}"
            )
        progress.batch_parts *= 2
        self._record("halved", update=progress.update, parts=progress.batch_parts)

    def _check_finite(self, norm: float, losses: Sequence[Loss]) -> None:
        if math.isfinite(norm):
            return
        objective = self.extensions.objective
        if objective is not None:
            is_finite = all(bool(loss.smoothed.isfinite()) for loss in losses)
            raise TrainingError(
                f"update {self.progress.update}: objective {short(qualified_name(objective))}: "
                f"{'the gradient of ' if is_finite else ''}its Loss.smoothed is infinite or NaN, "
                f"so nothing was changed; {self._last_checkpoint()}. Look there for a logarithm, "
                "root or quotient of 0; if the loss grew before, lower schedule.peak"
            )
        raise TrainingError(
            f"update {self.progress.update}: the gradient is infinite or NaN, so nothing was "
            f"changed; {self._last_checkpoint()}. Lower schedule.peak or lengthen "
            "schedule.warmup, then train with `resume=True`; should it stop here again, the "
            "weights were damaged before: delete the newest folder in "
            f"{self.checkpoints.folder}"
        )

    def _last_checkpoint(self) -> str:
        if has_checkpoint(self.folder):
            return "the last checkpoint is kept"
        return "there is no checkpoint yet"

    @property
    def _is_time_up(self) -> bool:
        """True if the rest of `training.minutes` is needed for the end of the run."""
        minutes = self.settings.minutes
        progress = self.progress
        if minutes is None or not progress.update:
            return False
        closing = progress.closing or 60 * minutes * CLOSING
        return progress.elapsed + closing >= 60 * minutes

    def _settle_minutes(self) -> None:
        """Replace `training.minutes` in the recipe by the number of updates.

        Another run of this recipe then has the same weights.
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

    def _progress_values(self) -> dict[str, object]:
        """Return update and epoch and, if they are known, the last update and the seconds left."""
        progress = self.progress
        seconds_left = None
        if self.settings.minutes is not None:
            seconds_left = max(0.0, 60 * self.settings.minutes - progress.elapsed)
        elif progress.updates is not None:
            updates_left = progress.updates - progress.update
            seconds_left = self._clock.pace() * updates_left + progress.closing
        return {
            "update": progress.update,
            "updates": progress.updates,
            "seconds_left": seconds_left,
            "epoch": progress.position.epoch,
        }

    def _reason_to_end(self) -> str | None:
        progress = self.progress
        if self.signal is not None:
            sender = signal.Signals(self.signal)
            return f"stopped by {'Ctrl-C' if sender == signal.SIGINT else sender.name}"
        if self.context.stop_reason:
            return f"stopped by a callback: {self.context.stop_reason}"
        if progress.updates is not None and progress.update >= progress.updates:
            return "all updates done"
        if self._is_time_up:
            return "the rest of its time is for the scores and the report"
        patience = self.settings.patience
        if is_patience_over(progress.validations_since_best, patience):
            return f"no better score in {counted(patience, 'validation')}"
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
            "learning_rate": self.context.learning_rate,
            "tokens": p.tokens,
            "seconds": p.seconds,
        }
        self._record("train", **self._progress_values(), **values)

    def _validate(self) -> None:
        """Validate the averaged weights, write them if they are the best, and save a checkpoint."""
        progress = self.progress
        began = time.perf_counter()
        with self.ema.swapped_in(self.world.sharded):
            self.model.eval()
            scores: ValidationScores = {}
            # If weights are sharded, all processes must take part in every pass.
            if self.world.is_main or self.world.sharded:
                scores = self.validate(self.model)
            score = scores[self.settings.best_by] if scores else 0.0
            if self.settings.best_by == "loss":
                score = -score  # a higher score must be better
            score = meaningful(score, self.settings.best_by)
            score, loss = self.world.broadcast(score, scores.get("loss", 0.0))

            progress.validations_since_best += 1
            progress.validated_at = progress.update
            best_so_far = (progress.best, -progress.best_loss)
            if math.isfinite(loss) and (score, -loss) > best_so_far:
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
        seconds = time.perf_counter() - began
        most = seconds + CLOSING_SHARE * progress.elapsed
        closing = min(self.closing_ratio * seconds, most)
        (progress.closing,) = self.world.broadcast(closing)
        self._save_checkpoint()
        self._call("after_validation", scores)

    def _save_weights(self) -> None:
        """Write the model's current weights into the run folder."""
        tensors = {}
        for name, value in named_weights(self.model).items():
            tensor = full_tensor(value)  # all processes must take part
            if self.world.is_main:
                tensors[name] = tensor.cpu()
        if self.world.is_main:
            self.best.save(tensors, self.progress.update)

    def _checkpoint_is_due(self) -> bool:
        is_due = time.monotonic() - self._saved > 60 * self.settings.checkpoint_minutes
        if self.world.size == 1:
            return is_due
        (main_is_due,) = self.world.broadcast(float(is_due))
        return bool(main_is_due)

    def _save_checkpoint(self) -> None:
        if self._saved_update == self.progress.update:  # nothing has changed since
            return
        self.checkpoints.save(
            self.progress.update, self._parts(), self.progress.as_json(), self.best
        )
        self._saved = time.monotonic()
        self._saved_update = self.progress.update

    def _parts(self) -> Parts:
        """Return the tensors of a checkpoint."""
        return {
            "model": named_weights(self.model),
            "ema": self.ema.weights,
            "optimizer": optimizer_tensors(self.updater.optimizer, self.model),
            "random": {"cpu": torch.get_rng_state()},
        }

    def _record(self, event: str, **values: object) -> None:
        """Write an event into the journal and report it."""
        if not self.world.is_main:
            return
        self.journal.write(event, **values)
        if self.report is not None:
            self.report(event, values)

    def _request_stop(self, number: int) -> None:
        """Stop the run after an update.

        Several processes stop after the same update; one that stopped at once would leave the
        others waiting.
        """
        self._received = number
        if self.world.is_main and self.report is not None:
            with suppress(RuntimeError):  # the signal interrupted another report
                self.report("stopping", {"signal": number})
        if self.world.size == 1:
            self.signal = number

    def _load(self, update: Update) -> tuple[Update, Batches]:
        """Load the micro-batches of an update that this process computes."""
        indices = self.world.share(update.plans)
        return update, [(index, update.plans[index].batch()) for index in indices]


class _Clock:
    """Clock of a run: its seconds, `before` of them before it was resumed, and its recent pace."""

    def __init__(self, before: float = 0.0) -> None:
        self._began = time.monotonic() - before
        self._recent = deque([(before, 0)])  # seconds and update
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
        """Return the mean seconds of an update in the last minutes, validations included."""
        first_seconds, first_update = self._recent[0]
        last_seconds, last_update = self._recent[-1]
        return (last_seconds - first_seconds) / max(1, last_update - first_update)

    def is_report_due(self) -> bool:
        """Return whether a report of progress is due, and if so, note its time."""
        now = time.monotonic()
        is_due = now - self._reported >= PROGRESS
        if is_due:
            self._reported = now
        return is_due


def _check_per_update(batches: BatchSource, world: World, equal: bool) -> None:
    """Raise TrainingError if the processes cannot share an update's micro-batches.

    If `equal`, all processes must have the same number of them.
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

    def handle(number: int, _: object) -> None:
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
