"""The training loop: updates, looks at the validation data, the journal, and stopping without losing anything."""

from __future__ import annotations

import gc
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.data.batch import TrainingBatch
from regard.data.batching import BatchSource, Position, Update
from regard.errors import TrainingError
from regard.model_folder import WEIGHTS, check_weights, named_weights, save_tensors
from regard.models import Model, device_of
from regard.training import checkpoint
from regard.training.checkpoint import Parts
from regard.training.distributed import World, full
from regard.training.gradient_workers import GradientWorkers, first_line, out_of_memory
from regard.training.guided import Guide
from regard.training.journal import Journal
from regard.training.loss import Loss, Objective
from regard.training.meter import Meter
from regard.training.prefetch import Prefetcher
from regard.training.recipe import Recipe
from regard.training.schedule import learning_rate
from regard.training.sharding import reshard, shard

__all__ = ["Outcome", "Progress", "Trainer", "stops"]

Validate = Callable[[Model], dict[str, Any]]  # loss, chrf, bleu, of captions cider; more is written down too
SPEED_KNOWN = 30  # updates after which a time budget is turned into updates


@dataclass
class Progress:
    """Where a run stands; all of it is in a checkpoint."""

    update: int = 0
    updates: int | None = None  # where it ends, once known
    tokens: int = 0
    seconds: float = 0.0  # of training, looks at the validation data not counted
    batch_parts: int = 1  # parts that each batch is computed in, since one did not fit in memory
    position: Position = field(default_factory=Position)
    best: float = -math.inf
    best_by: str = ""  # which score that is
    best_loss: float = math.inf  # of the same look: decides between equal scores
    best_update: int = 0
    validations_since_best: int = 0
    validated_at: int = 0  # the update of the last look

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        for name in ("best", "best_loss"):
            values[name] = None if math.isinf(values[name]) else values[name]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        known = {name: value for name, value in values.items() if value is not None or name == "updates"}
        return cls(**{**known, "position": Position.from_json(values["position"])})


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `stopped` is the signal that stopped it, if one did."""

    progress: Progress
    reason: str
    stopped: int | None = None


class Trainer:
    """Trains one model in one run folder. `say` is told each event as it is written to the journal.

    One process of several (`world`) computes its share of each update; the first one writes, validates and tells.
    """

    def __init__(
        self,
        model: Model,
        batches: BatchSource,
        recipe: Recipe,
        folder: Path,
        validate: Validate,
        say: Callable[[str, dict[str, Any]], None] | None = None,
        world: World | None = None,
    ) -> None:
        self.model, self.batches, self.recipe, self.folder = model, batches, recipe, folder
        self.validate, self.say, self.world = validate, say, world or World()
        self.settings = recipe.training
        s = self.settings
        _check_workers(batches, self.world, s.sharded == "layers")
        self.guide = Guide.of(model, s)
        self.objective = Objective(model, s.label_smoothing, s.rdrop, self.guide, s.doubly_stochastic)
        if self.world.sharded:
            shard(model, layers=s.sharded == "layers")
        self.optimizer = _optimizer(model, recipe)
        self.average = {name: value.clone() for name, value in named_weights(model).items()}
        self.checkpoints = checkpoint.Checkpoints(folder / "checkpoints", self.settings.keep_checkpoints, self.world)
        self.journal = Journal(folder / "journal.jsonl")
        self.progress = Progress(updates=self.settings.updates, best_by=self.settings.best_by)
        self.signal: int | None = None  # what all processes stop for
        self._asked: int | None = None  # what this one was sent
        self._saved, self._saved_update = time.monotonic(), -1
        device = device_of(model)
        mine = -(-batches.per_update // self.world.size)
        threads = min(torch.get_num_threads(), mine) if device.type == "cpu" and not self.world.sharded else 1
        scale = self.world.size if self.world.sharded else 1  # there gradients are averaged over the processes
        self.crew = GradientWorkers(self.objective, self.settings.precision, device, threads, float(scale))

    def run(self) -> Outcome:
        """Train until the updates are done, patience ends or a signal comes; the folder has the best weights then.

        Raises TrainingError where memory, the disk or the numbers do not allow to go on; the last checkpoint is kept.
        """
        try:
            return self._run()
        except Exception as problem:
            if isinstance(problem, TrainingError) or not out_of_memory(problem):
                raise
            said = first_line(problem)
        raise TrainingError(
            f"update {self.progress.update}: out of memory ({said}) beside the batches of an update; {self._kept()}. "
            "Take a smaller model or batching.tokens, or close other programs and go on with --resume"
        )

    def _run(self) -> Outcome:
        if self.guide is not None and self.world.is_main:
            self.guide.note(self.folder)
        ahead = Prefetcher(map(self._with_tensors, self.batches.updates(self.progress.position)))
        with stops(self._stop), ahead as stream:
            meter = Meter(SPEED_KNOWN)
            while (reason := self._finished()) is None:
                self._update(stream, meter)
                if self.progress.update % self.settings.log_every == 0:
                    self._log(meter)
                if self.progress.update % self.settings.validate_every == 0:
                    self._validate()
                elif self._save_is_due():
                    self._save()
            if self.signal is None and self.progress.validated_at < self.progress.update:
                self._validate()
            if not (self.folder / WEIGHTS).exists():  # stopped before the first look: what there is can be used
                with self._ema_weights():
                    self._put_down_weights()
            self._save()
        self.crew.close()
        self._note("end", reason=reason, update=self.progress.update, seconds=self.progress.seconds)
        return Outcome(self.progress, reason, self.signal)

    def resume(self) -> bool:
        """Go on from the newest checkpoint that is whole; False where there is none."""
        checkpoint.init_optimizer_state(self.optimizer)
        own = self._parts()
        found = self.checkpoints.load(own, lambda problem: self._note("damaged", problem=problem))
        if found is None:
            self.optimizer.state.clear()
            if self.world.is_main:
                self.journal.cut(0)
            self.world.barrier()
            return False
        parts, state = found
        if not self.world.sharded:
            check_weights(self.model, parts["model"], self.checkpoints.folder)
        checkpoint.copy_into(own, parts)
        torch.set_rng_state(own["random"]["cpu"])
        self.progress = Progress.from_json(state)
        self._saved_update = self.progress.update
        if self.progress.best_by not in ("", self.settings.best_by):  # scores of another kind cannot be compared
            self.progress.best, self.progress.best_loss, self.progress.validations_since_best = -math.inf, math.inf, 0
        self.progress.best_by = self.settings.best_by
        if self.settings.updates is not None:
            self.progress.updates = self.settings.updates
        if self.world.is_main:
            self.journal.cut(self.progress.update)
        self.world.barrier()
        self._note("resume", update=self.progress.update)
        return True

    def _update(self, stream: Iterator[tuple[Update, list[TrainingBatch]]], meter: Meter) -> None:
        began, progress = time.perf_counter(), self.progress
        self.model.train()
        update, batches = next(stream)
        progress.update += 1
        s = self.settings
        own = s.scheduled_sampling * min(1.0, progress.update / max(1, s.scheduled_sampling_ramp))
        self.crew.configure(s.rdrop if progress.update > s.rdrop_after else 0.0, own)
        losses = self._gradients(update, batches)
        norm = float(
            full(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.max_grad_norm or math.inf))
        )
        self._check(norm)
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate() * group["share"]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._update_ema()
        progress.position, progress.tokens = update.after, progress.tokens + update.tokens
        spent = time.perf_counter() - began
        progress.seconds += spent
        meter.add(losses, norm, update.tokens, spent)
        if self.world.size > 1:
            self.signal = int(self.world.all_reduce_max(float(self._asked or 0))[0]) or None
        self._resolve_budget(meter)

    def _gradients(self, update: Update, batches: list[TrainingBatch]) -> list[Loss]:
        """The gradients of the update's mean loss, summed over all batches and processes."""
        keys = [f"{self.settings.seed}/{self.progress.update}/{place}" for place in self.world.share(update.plans)]
        while True:
            pieces = [
                part for pair in zip(batches, keys, strict=True) for part in _cut(*pair, self.progress.batch_parts)
            ]
            try:
                losses = self.crew.gradients(pieces, update.tokens)
                break
            except Exception as problem:
                if not out_of_memory(problem):
                    raise
                said = first_line(problem)
            # Only here is the failed pass forgotten: while the exception was at hand, it held all that was computed.
            self._cut_further(batches, said)
        for parameter in self.model.parameters():
            if parameter.requires_grad and parameter.grad is None:  # a layer left out of every batch
                parameter.grad = torch.zeros_like(parameter)
        self.world.all_reduce_gradients(list(self.model.parameters()))
        return losses

    def _cut_further(self, batches: list[TrainingBatch], said: str) -> None:
        """Halve the batches after one did not fit in memory, where that is wanted and possible."""
        progress, largest = self.progress, max(len(batch.source) for batch in batches)
        self.optimizer.zero_grad(set_to_none=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if not self.settings.halve_batches or self.world.size > 1 or progress.batch_parts >= largest:
            more = 2 * self.batches.per_update
            halve = "; or go on with --resume --set training.halve_batches=true"
            raise TrainingError(
                f"update {progress.update}: out of memory ({said}); nothing was changed and {self._kept()}. Train anew "
                f"with batching.micro_batches={more}: updates of the same size from smaller batches"
                f"{'' if self.settings.halve_batches or self.world.size > 1 else halve}"
            )
        progress.batch_parts *= 2
        self._note("halved", update=progress.update, cut=progress.batch_parts)

    def _check(self, norm: float) -> None:
        if not math.isfinite(norm):
            raise TrainingError(
                f"update {self.progress.update}: the gradient is not a number any more, so nothing was changed; "
                f"{self._kept()}. Lower schedule.peak or lengthen schedule.warmup, then train with --resume; should it "
                "stop here again, the weights were spoilt before: delete the newest folder in "
                f"{self.checkpoints.folder}"
            )

    def _kept(self) -> str:
        return "the last checkpoint is kept" if checkpoint.there(self.folder) else "there is no checkpoint yet"

    def _update_ema(self) -> None:
        """Move the running average of the weights; young averages follow faster."""
        memory = min(self.settings.ema_decay, (1 + self.progress.update) / (10 + self.progress.update))
        current = named_weights(self.model)
        torch._foreach_lerp_(list(self.average.values()), list(current.values()), 1 - memory)

    def _resolve_budget(self, meter: Meter) -> None:
        """Turn minutes into updates, once, when the speed is known: from then on the run is fixed."""
        progress, minutes = self.progress, self.settings.minutes
        if minutes is None or progress.updates is not None or progress.update < SPEED_KNOWN:
            return
        (each,) = self.world.broadcast(meter.seconds_each())
        left = minutes * 60 - self.world.broadcast(progress.seconds)[0]
        progress.updates = progress.update + max(0, int(left / each))
        self.recipe = self.recipe.with_values(
            training={**self.recipe.training.model_dump(), "updates": progress.updates, "minutes": None}
        )
        if self.world.is_main:
            self.recipe.write(self.folder / "train.toml")
        self._note("budget", update=progress.update, minutes=minutes, updates=progress.updates, each=each)

    def _finished(self) -> str | None:
        progress = self.progress
        if self.signal is not None:
            return f"stopped by {signal.Signals(self.signal).name}"
        if progress.updates is not None and progress.update >= progress.updates:
            return "all updates done"
        if progress.validations_since_best >= self.settings.patience:
            return f"no better score in {self.settings.patience} looks"
        return None

    def _rate(self) -> float:
        return learning_rate(self.recipe.schedule, self.progress.update, self.model.decoder.output.weight.shape[1])

    def _log(self, meter: Meter) -> None:
        p, sums = self.progress, self.world.all_reduce_sum(*meter.sums)
        values = {**meter.read(sums), "rate": self._rate(), "tokens": p.tokens, "seconds": p.seconds}
        self._note("train", update=p.update, updates=p.updates, **values, epoch=p.position.epoch)

    def _validate(self) -> None:
        """Validate the averaged weights, keep them if they are the best so far, and save a checkpoint."""
        progress, began = self.progress, time.perf_counter()
        with self._ema_weights():
            self.model.eval()
            # Where weights are split over the processes, all must take part in every pass.
            scores = self.validate(self.model) if self.world.is_main or self.world.sharded else {}
            by = self.settings.best_by
            score = 0.0 if not scores else -scores[by] if by == "loss" else scores[by]
            score, loss = self.world.broadcast(score, scores.get("loss", 0.0))
            progress.validations_since_best += 1
            progress.validated_at = progress.update
            if math.isfinite(loss) and (score, -loss) > (progress.best, -progress.best_loss):
                progress.best, progress.best_loss = score, loss
                progress.best_update, progress.validations_since_best = progress.update, 0
                self._put_down_weights()
        spent = time.perf_counter() - began
        best = progress.best_update == progress.update
        sums = {"tokens": progress.tokens, "seconds": progress.seconds, "validation_seconds": spent}
        self._note("valid", update=progress.update, **scores, best=best, **sums)
        self._save()

    def _put_down_weights(self) -> None:
        """Write the model's weights as they are now into the folder."""
        whole = {}
        for name, value in named_weights(self.model).items():
            gathered = full(value)  # by all processes, one at a time
            if self.world.is_main:
                whole[name] = gathered.cpu()
        if self.world.is_main:
            save_tensors(self.folder / WEIGHTS, whole, {"update": str(self.progress.update)})

    def _save_is_due(self) -> bool:
        due = time.monotonic() - self._saved > 60 * self.settings.checkpoint_minutes
        return bool(self.world.broadcast(float(due))[0]) if self.world.size > 1 else due

    def _save(self) -> None:
        if self._saved_update == self.progress.update:  # nothing has changed since
            return
        self.checkpoints.save(self.progress.update, self._parts(), self.progress.as_json())
        self._saved, self._saved_update = time.monotonic(), self.progress.update

    def _parts(self) -> Parts:
        return {
            "model": named_weights(self.model),
            "average": self.average,
            "optimizer": checkpoint.optimizer_tensors(self.optimizer, self.model),
            "random": {"cpu": torch.get_rng_state()},
        }

    @contextmanager
    def _ema_weights(self) -> Iterator[None]:
        """The model with the averaged weights, for as long as the block runs."""
        if not self.settings.ema_decay:
            yield
            return
        current = named_weights(self.model)
        kept = {name: value.clone() for name, value in current.items()}
        try:
            for name, value in current.items():
                value.copy_(self.average[name])
            yield
        finally:
            if self.world.sharded:
                reshard(self.model)
                current = named_weights(self.model)
            for name, value in current.items():
                value.copy_(kept[name])

    def _note(self, event: str, **values: Any) -> None:
        if not self.world.is_main:
            return
        self.journal.write(event, **values)
        if self.say is not None:
            self.say(event, values)

    def _stop(self, number: int) -> None:
        """Several processes stop after the same update: one that stopped at once would leave the others waiting."""
        self._asked = number
        if self.world.is_main and self.say is not None:
            with suppress(RuntimeError):  # it came while something else was being said
                self.say("stopping", {"signal": number})
        if self.world.size == 1:
            self.signal = number

    def _with_tensors(self, update: Update) -> tuple[Update, list[TrainingBatch]]:
        """An update, and the tensors of the batches that this process computes."""
        return update, [update.plans[place].batch() for place in self.world.share(update.plans)]


def _optimizer(model: Model, recipe: Recipe) -> torch.optim.Optimizer:
    s = recipe.training
    kind = torch.optim.AdamW if s.optimizer == "adamw" else torch.optim.Adam
    groups = _groups(model, s.encoder_rate)
    # The rate is set before every step; fused is three to five times as fast on a CPU.
    return kind(groups, lr=0.0, betas=(s.beta1, s.beta2), eps=1e-9, weight_decay=s.weight_decay, fused=True)


def _groups(model: Model, encoder_rate: float) -> list[dict[str, Any]]:
    """What learns, the encoder at its own share of the rate; what it has in common with the decoder at the whole."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    whole = set(model.decoder.parameters())
    if encoder_rate == 1:
        return [{"params": learning, "share": 1.0}]
    groups = [
        {"params": [parameter for parameter in learning if parameter in whole], "share": 1.0},
        {"params": [parameter for parameter in learning if parameter not in whole], "share": encoder_rate},
    ]
    return [group for group in groups if group["params"]]


def _check_workers(batches: BatchSource, world: World, alike: bool) -> None:
    if batches.per_update < world.size:
        raise TrainingError(
            f"{world.size} processes cannot share {batches.per_update} batches an update; set "
            f"batching.micro_batches to {world.size} or a multiple of it, or start fewer processes"
        )
    if alike and batches.per_update % world.size:
        raise TrainingError(
            f'training.sharded = "layers": {world.size} processes must have as many batches each, and an update has '
            f"{batches.per_update}; set batching.micro_batches to {world.size} or a multiple of it"
        )


def _cut(batch: TrainingBatch, key: str, parts: int) -> list[tuple[TrainingBatch, str]]:
    """A batch in parts of nearly as many sentences, each with a key of its own."""
    if parts == 1:
        return [(batch, key)]
    return [(part, f"{key}/{number}") for number, part in enumerate(batch.split(parts))]


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
