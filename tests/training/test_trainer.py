"""The trainer: resuming, best weights, early stopping, stop signals, checkpoints, journal,
learning-rate schedules.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import signal
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest
import torch
from helpers.system_marks import posix
from safetensors import SafetensorError

import regard.training.trainer as trainer_module
from regard.common.atomic import file_sha256
from regard.common.errors import ConfigurationError, TrainingError
from regard.data.batch import Example, TrainingBatch, collate, pad_images
from regard.data.batch_stream import BatchingSettings, BatchPlan, BatchStream, Position
from regard.data.vocabulary import EOS
from regard.model_folder import WEIGHTS, load_tensors, named_weights, save_tensors
from regard.models import DECODERS, ENCODERS, Model, build
from regard.training import Recipe, Trainer, checkpoint
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import World
from regard.training.gradient_workers import GradientWorkers
from regard.training.journal import read
from regard.training.recipe import read_run_recipe
from regard.training.schedule import ScheduleSettings, learning_rate

TRANSFORMER = {
    "kind": "transformer",
    "layers": 1,
    "size": 8,
    "heads": 2,
    "feedforward": 16,
}
RESNET: dict[str, Any] = {"kind": "resnet", "width": 8, "depths": [1, 1], "size": 8}
SIDES: dict[str, dict[str, Any]] = {
    "transformer": TRANSFORMER,
    "batch norm": {**TRANSFORMER, "norm": "batch"},
    "recurrent": {"kind": "recurrent", "size": 8, "embedding": 8},
    "no_attention": {"kind": "no_attention", "size": 8, "embedding": 8},
    "convolutional": {"kind": "convolutional", "layers": 2, "size": 8, "embedding": 8},
    "resnet": RESNET,
    "frozen": {**RESNET, "norm": "batch", "freeze_backbone": True},
    "vit": {**TRANSFORMER, "kind": "vit", "patch_size": 4},
}
IMAGE_ENCODERS = {"resnet", "frozen", "vit"}
PAIRS = [
    ("transformer", "recurrent"),
    ("recurrent", "transformer"),
    ("convolutional", "no_attention"),
    ("transformer", "convolutional"),
    ("batch norm", "batch norm"),
    ("resnet", "recurrent"),
    ("frozen", "transformer"),
    ("vit", "transformer"),
]
"""Each kind of encoder and of decoder, not every pair."""


def test_every_registered_kind_is_covered() -> None:
    """But for networks of timm, which need its package."""
    for kinds, side in ((ENCODERS, 0), (DECODERS, 1)):
        covered = {SIDES[pair[side]]["kind"] for pair in PAIRS}
        assert {kind.model_fields["kind"].default for kind in kinds} <= covered | {
            "timm"
        }


def _recipe(
    encoder: str = "transformer", decoder: str = "transformer", **training: Any
) -> Recipe:
    images = {"images": {"folder": "unread", "captions": "unread"}}
    text = {"source": "unread", "target": "unread"}
    values = {
        "data": images if encoder in IMAGE_ENCODERS else text,
        "model": {
            "encoder": {"dropout": 0.2, **SIDES[encoder]},
            "decoder": {"dropout": 0.2, **SIDES[decoder]},
        },
        "batching": {"tokens": 32},
        "schedule": {"peak": 1e-2, "warmup": 4},
        "training": {
            "updates": 12,
            "validate_every": 5,
            "log_every": 2,
            "precision": "float32",
            **training,
        },
    }
    return Recipe.parse(values, "the test")


def _scores(model: Model) -> dict[str, float]:
    total = sum(
        float(parameter.detach().abs().sum()) for parameter in model.parameters()
    )
    return {"loss": total, "chrf": total, "bleu": 0.0}


class _ImagePlan(BatchPlan):
    """Images of several sizes in place of sentences, with two captions per image."""

    def batch(self) -> TrainingBatch:
        captions = [example for example in self.examples for _ in range(2)]
        text = collate(captions)
        pixels = []
        for index in self.indices:
            generator = torch.Generator().manual_seed(index)
            pixels.append(torch.rand(3, 6 + index % 3, 8, generator=generator))
        source, keep = pad_images(pixels)
        return TrainingBatch(
            source,
            keep,
            text.target_in,
            text.target_out,
            text.tokens,
            list(self.indices),
        )

    @property
    def tokens(self) -> int:  # type: ignore[override]
        return 2 * sum(len(example.target) for example in self.examples)


class _ImageStream(BatchStream):
    def plans(self, position: Position) -> Iterator[tuple[Position, BatchPlan]]:
        return (
            (after, _ImagePlan(plan.examples, plan.indices))
            for after, plan in super().plans(position)
        )


def _trainer(recipe: Recipe, folder: Path, validate: Any = _scores) -> Trainer:
    torch.manual_seed(recipe.training.seed)
    model = build(recipe.model, 20, 20, joint=True)
    examples = [
        Example([4 + i % 16, 5 + i % 7, EOS], [4 + i % 16, *([6] * (i % 4)), EOS])
        for i in range(40)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    settings = BatchingSettings(tokens=32, micro_batches=1)
    kind = _ImageStream if recipe.model.encoder.reads == "images" else BatchStream
    return Trainer(model, kind(examples, settings, 1), recipe, folder, validate)


@pytest.mark.system
@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, encoder: str, decoder: str
) -> None:
    extra = {}
    if encoder in IMAGE_ENCODERS:
        extra = {"encoder_rate": 0.3, "doubly_stochastic": 0.5}
    uninterrupted = _trainer(
        _recipe(encoder, decoder, **extra), tmp_path / "uninterrupted"
    )
    initial = {
        name: weight.clone()
        for name, weight in named_weights(uninterrupted.model).items()
    }
    uninterrupted.run()
    _trainer(_recipe(encoder, decoder, updates=7, **extra), tmp_path / "stopped").run()
    resumed = _trainer(_recipe(encoder, decoder, **extra), tmp_path / "stopped")
    torch.manual_seed(99)  # the checkpoint restores the state of the generator
    assert resumed.resume()
    resumed.run()
    weights = named_weights(resumed.model)
    for name, weight in named_weights(uninterrupted.model).items():
        assert torch.equal(weight, weights[name]), name
        assert torch.equal(
            uninterrupted.ema.weights[name], resumed.ema.weights[name]
        ), name
        unchanged = "running" in name or (encoder == "frozen" and "backbone" in name)
        assert torch.equal(weight, initial[name]) == unchanged, name
    assert uninterrupted.progress.tokens == resumed.progress.tokens
    assert uninterrupted.progress.position == resumed.progress.position


def _events(run: Path, event: str) -> list[dict[str, Any]]:
    return [line for line in read(run / "journal.jsonl") if line["event"] == event]


def _updates(run: Path, event: str) -> list[int]:
    return [line["update"] for line in _events(run, event)]


def _result(chrf: float, loss: float = 1.0) -> dict[str, float]:
    return {"loss": loss, "chrf": chrf, "bleu": 0.0}


@pytest.mark.parametrize(
    ("encoder", "share"),
    [("transformer", "all"), ("transformer", "target"), ("resnet", "target")],
)
def test_the_encoder_has_its_own_learning_rate(
    tmp_path: Path, encoder: str, share: str
) -> None:
    """The first step of Adam is as long as the learning rate, whatever the gradient."""
    recipe = _recipe(
        encoder,
        updates=1,
        encoder_rate=0.1,
        max_grad_norm=0.0,
        ema_decay=0.0,
        weight_decay=0.0,
    )
    recipe = recipe.with_values(model={**recipe.model.model_dump(), "share": share})
    trainer = _trainer(recipe, tmp_path)
    before = {
        name: weight.clone() for name, weight in named_weights(trainer.model).items()
    }
    trainer.run()
    rate = learning_rate(recipe.schedule, 1, 8)
    for name, weight in named_weights(trainer.model).items():
        if name.endswith("key.bias"):  # attention weights do not depend on it
            continue
        own_rate = name.startswith("encoder") and not (
            share == "all" and "embedding" in name
        )
        steps = (weight - before[name]).abs()
        assert float(steps.max()) == pytest.approx(
            rate * (0.1 if own_rate else 1.0), rel=0.05
        ), name


def test_the_best_weights_are_those_of_the_best_validation(tmp_path: Path) -> None:
    validated: list[dict[str, torch.Tensor]] = []

    def validate(model: Model) -> dict[str, float]:
        validated.append(
            {name: weight.clone() for name, weight in named_weights(model).items()}
        )
        return _result([10.0, 30.0, 20.0][len(validated) - 1])

    outcome = _trainer(_recipe(), tmp_path, validate).run()
    assert outcome.progress.best_update == 10
    saved = load_tensors(tmp_path / "model.safetensors")
    assert all(torch.equal(saved[name], validated[1][name]) for name in saved)


def test_of_equal_scores_the_lower_loss_is_better(tmp_path: Path) -> None:
    """BLEU and chrF stay 0 for the first validations of a run, while its loss falls."""
    results = iter([(3.0, 0.0), (2.0, 0.0), (2.5, 0.0), (4.0, 10.0), (1.0, 5.0)])

    def validate(_: Model) -> dict[str, float]:
        loss, chrf = next(results)
        return _result(chrf, loss)

    bests = []
    for updates in (5, 10, 15, 20, 25):
        trainer = _trainer(_recipe(updates=updates), tmp_path, validate)
        trainer.resume()
        best = trainer.run().progress
        bests.append((best.best_update, best.validations_since_best, best.best_loss))
    assert bests == [
        (5, 0, 3.0),
        (10, 0, 2.0),
        (10, 1, 2.0),
        (20, 0, 4.0),
        (20, 1, 4.0),
    ]


def test_a_validation_without_a_loss_is_not_the_best(tmp_path: Path) -> None:
    results = iter([(math.nan, 0.0), (2.0, 0.0), (math.nan, 9.0)])

    def validate(_: Model) -> dict[str, float]:
        loss, chrf = next(results)
        return _result(chrf, loss)

    outcome = _trainer(_recipe(), tmp_path, validate).run()
    assert outcome.progress.best_update == 10
    text = (tmp_path / "journal.jsonl").read_text()
    assert "NaN" not in text, "NaN is not valid JSON"
    assert [line["loss"] for line in _events(tmp_path, "valid")] == [None, 2.0, None]


def test_scores_of_another_kind_are_not_compared(tmp_path: Path) -> None:
    _trainer(_recipe(updates=10), tmp_path, lambda _: _result(40.0, 3.0)).run()
    trainer = _trainer(
        _recipe(updates=15, best_by="loss"), tmp_path, lambda _: _result(40.0, 3.0)
    )
    trainer.resume()
    progress = trainer.run().progress
    assert (progress.best, progress.best_update, progress.best_by) == (-3.0, 15, "loss")


class _LittleMemory(GradientWorkers):
    """Gradient workers with memory for `capacity` sentences at a time, which runs out after the
    first batch.
    """

    capacity = 1

    def gradients(self, batches: Any, tokens: int) -> Any:
        super().gradients(batches[:1], tokens)
        tensor = torch.zeros(1)
        _LittleMemory.passes.append(
            (max(len(batch.source) for batch, _ in batches), weakref.ref(tensor))
        )
        self.clear_gradients()
        if _LittleMemory.passes[-1][0] > self.capacity:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory\nmore"
            )
        return super().gradients(batches, tokens)

    def clear_gradients(self) -> None:
        assert all(ref() is None for _, ref in _LittleMemory.passes[:-1]), (
            "tensors of the failed pass are alive"
        )
        for replica in self._replicas:
            replica.zero_grad(set_to_none=True)

    passes: ClassVar[list[Any]] = []


@pytest.mark.system
def test_batches_that_do_not_fit_are_halved_until_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = {**TRANSFORMER, "dropout": 0.0}
    unhalved_recipe, halved_recipe = (
        _recipe(updates=3, halve_batches=halve).with_values(
            model={"encoder": side, "decoder": side}
        )
        for halve in (False, True)
    )
    unhalved = _trainer(unhalved_recipe, tmp_path / "unhalved")
    unhalved.run()
    _LittleMemory.passes.clear()
    monkeypatch.setattr("regard.training.updater.GradientWorkers", _LittleMemory)
    halved = _trainer(halved_recipe, tmp_path / "halved")
    halved.run()
    assert max(size for size, _ in _LittleMemory.passes) > 1
    assert halved.progress.batch_parts > 1
    halved_weights = named_weights(halved.model)
    for name, weight in named_weights(unhalved.model).items():
        # The loss does not depend on the bias of keys: Adam follows rounding errors.
        if not name.endswith("key.bias"):
            torch.testing.assert_close(
                halved_weights[name], weight, rtol=1e-3, atol=1e-5
            )
    with pytest.raises(
        TrainingError,
        match=r"update 1: out of memory .*there is no checkpoint yet.*halve_batches=true",
    ):
        _trainer(unhalved_recipe, tmp_path / "refused").run()


@pytest.mark.parametrize(
    "function",
    ["torch.optim.AdamW.step", "regard.training.trainer.Trainer._save_weights"],
)
def test_out_of_memory_outside_the_batches_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def fail(*_: Any) -> None:
        raise torch.OutOfMemoryError("there are 3 bytes left")

    monkeypatch.setattr(function, fail)
    with pytest.raises(
        TrainingError,
        match=r"out of memory \(there are 3 bytes left\) outside the batches of an update",
    ):
        _trainer(_recipe(), tmp_path).run()


def test_a_failed_write_leaves_the_old_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    save_tensors(path, {"a": torch.ones(2)})
    before = path.read_bytes()
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode, (
        "weights have the permissions of any new file"
    )

    def full(*_: Any) -> None:
        raise SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr("regard.model_folder.save_file", full)
    with pytest.raises(OSError, match="No space left on device"):
        save_tensors(path, {"a": torch.zeros(2)})
    assert [file.name for file in tmp_path.iterdir() if file.suffix] == [path.name]
    assert path.read_bytes() == before


def test_validation_uses_the_moving_average_and_training_the_weights(
    tmp_path: Path,
) -> None:
    averaged = []

    def validate(model: Model) -> dict[str, float]:
        weights = named_weights(model)
        average = trainer.ema.weights
        averaged.append(
            all(torch.equal(average[name], weights[name]) for name in weights)
        )
        return _result(float(len(averaged)))

    trainer = _trainer(_recipe(ema_decay=0.9), tmp_path, validate)
    trainer.run()
    assert averaged == [True, True, True]
    saved = load_tensors(tmp_path / "model.safetensors")
    assert all(torch.equal(saved[name], trainer.ema.weights[name]) for name in saved)
    assert any(
        not torch.equal(trainer.ema.weights[name], weight)
        for name, weight in named_weights(trainer.model).items()
    )


def test_patience_ends_a_run_without_a_better_score(tmp_path: Path) -> None:
    scores = iter([3.0, 2.0, 1.0, 0.0])
    trainer = _trainer(
        _recipe(updates=100, patience=2), tmp_path, lambda _: _result(next(scores))
    )
    outcome = trainer.run()
    assert outcome.progress.update == 15
    assert "no better score in 2 validations" in outcome.reason


class _FakeClock:
    """Clock that goes on by some seconds with each update, whatever the real one does."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.seconds = seconds
        self.now = 0.0

    def after(self, update: int) -> float:
        self.now += self.seconds(update)
        return self.now

    def pace(self) -> float:
        return self.seconds(1)

    def is_report_due(self) -> bool:
        return False


@pytest.mark.system
@pytest.mark.parametrize(
    ("slower", "closing", "expected"), [(1.0, 0.0, 30), (4.0, 0.0, 18), (1.0, 0.2, 24)]
)
def test_minutes_end_by_the_clock_and_their_updates_are_saved(
    slower: float,
    closing: float,
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two seconds an update, from the 15th on `slower` times as many; a minute, of which `closing`
    is left for the last validation.
    """

    def seconds(update: int) -> float:
        return 2.0 * slower if update > 14 else 2.0

    monkeypatch.setattr(trainer_module, "_Clock", lambda *_: _FakeClock(seconds))
    monkeypatch.setattr(trainer_module, "CLOSING", closing)
    values = _recipe(validate_every=1000).model_dump()
    values["training"] |= {"updates": None, "minutes": 1.0}
    run = tmp_path / "by-clock"
    outcome = _trainer(Recipe.parse(values, "the test"), run).run()
    assert [line["updates"] for line in _events(run, "budget")] == [expected]
    assert outcome.progress.update == expected
    assert outcome.reason == "the rest of 1 minutes is for the end of the run"
    text = (run / "train.toml").read_text()
    assert f"updates = {expected}" in text
    assert "\nminutes" not in text
    if not closing:
        repeated = Recipe.parse(read_run_recipe(run / "train.toml"), "the run")
        _trainer(repeated, tmp_path / "by-updates").run()
        again = file_sha256(tmp_path / "by-updates" / WEIGHTS)
        assert file_sha256(run / WEIGHTS) == again, (
            "training by the recipe that was written"
        )


def test_the_pace_is_that_of_the_last_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(trainer_module, "time", Mock(monotonic=lambda: now[0]))
    clock = trainer_module._Clock(before=50.0)
    for update in range(1, 201):
        now[0] += 1.0 if update <= 100 else 10.0
        assert clock.after(update) == now[0] - 50.0
    assert clock.pace() == pytest.approx(10.0)


def test_updates_and_minutes_exclude_each_other() -> None:
    with pytest.raises(ConfigurationError, match="both set the end of the run"):
        _recipe(updates=5, minutes=1.0)


def test_a_gradient_that_is_nan_stops_the_run_and_changes_nothing(
    tmp_path: Path,
) -> None:
    trainer = _trainer(_recipe(), tmp_path)
    with torch.no_grad():
        trainer.model.decoder.output.bias.fill_(math.nan)
    before = {
        name: weight.clone() for name, weight in named_weights(trainer.model).items()
    }
    with pytest.raises(
        TrainingError, match="update 1: the gradient is infinite or NaN"
    ):
        trainer.run()
    after = named_weights(trainer.model)
    assert all(
        torch.equal(before[name], after[name])
        for name in before
        if not name.endswith("output.bias")
    )


def test_a_signal_finishes_the_step_and_saves(tmp_path: Path) -> None:
    def interrupt(model: Model) -> dict[str, float]:
        os.kill(os.getpid(), signal.SIGTERM)
        return _scores(model)

    trainer = _trainer(_recipe(), tmp_path, interrupt)
    outcome = trainer.run()
    assert outcome.stopped == signal.SIGTERM
    assert outcome.progress.update == 5
    assert (tmp_path / "checkpoints" / "update-00000005" / "state.json").exists()
    assert _trainer(_recipe(), tmp_path).resume()


def test_an_interrupt_while_a_checkpoint_is_read_damages_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch makes a TypeError of a KeyboardInterrupt in some of its calls, which would look like
    damage.
    """
    _trainer(_recipe(updates=5), tmp_path).run()
    trainer = _trainer(_recipe(), tmp_path)
    read = checkpoint.read_parts

    def read_interrupted(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        read(*arguments)

    monkeypatch.setattr(checkpoint, "read_parts", read_interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.resume()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [
        "update-00000005"
    ]


def test_a_run_stopped_before_its_first_validation_can_be_used(tmp_path: Path) -> None:
    trainer = _trainer(_recipe(validate_every=100), tmp_path)
    step = trainer._update
    trainer.signal = None

    def stop_after_one(*arguments: Any) -> None:
        step(*arguments)
        trainer.signal = signal.SIGINT

    trainer._update = stop_after_one  # type: ignore[method-assign]
    assert trainer.run().stopped == signal.SIGINT
    saved = load_tensors(tmp_path / "model.safetensors")
    assert all(torch.equal(saved[name], trainer.ema.weights[name]) for name in saved)


def test_resuming_falls_back_from_a_damaged_checkpoint_to_the_one_before(
    tmp_path: Path,
) -> None:
    _trainer(_recipe(), tmp_path).run()
    folders = sorted((tmp_path / "checkpoints").iterdir())
    assert [folder.name for folder in folders] == ["update-00000010", "update-00000012"]
    (folders[-1] / "model.safetensors").write_bytes(b"damaged")
    trainer = _trainer(_recipe(), tmp_path)
    assert trainer.resume()
    assert trainer.progress.update == 10
    (folders[0] / "state.json").write_text("{")
    with pytest.raises(TrainingError, match="no checkpoint can be read"):
        _trainer(_recipe(), tmp_path).resume()
    problems = _events(tmp_path, "damaged")
    assert len(problems) == 1, "the last one is not reported as followed by another"


def test_a_damaged_checkpoint_does_not_displace_intact_ones(tmp_path: Path) -> None:
    _trainer(_recipe(), tmp_path).run()
    folder = tmp_path / "checkpoints"
    (folder / "update-00000012" / "model.safetensors").write_bytes(b"damaged")
    trainer = _trainer(_recipe(updates=11, keep_checkpoints=1), tmp_path)
    assert trainer.resume()
    trainer.run()
    assert sorted(path.name for path in folder.iterdir()) == [
        "update-00000011",
        "update-00000012.damaged",
    ]
    resumed = _trainer(_recipe(), tmp_path)
    assert resumed.resume()
    assert resumed.progress.update == 11


def test_a_finished_run_is_written_and_validated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a second write were interrupted, the run could be left without a checkpoint."""
    saved = list[int]()
    save = Checkpoints.save

    def spy(self: Checkpoints, update: int, *arguments: Any) -> None:
        saved.append(update)
        save(self, update, *arguments)

    monkeypatch.setattr(Checkpoints, "save", spy)
    trainer = _trainer(_recipe(), tmp_path)
    trainer.run()
    state = tmp_path / "checkpoints" / "update-00000012" / "state.json"
    before = state.read_bytes()
    assert _updates(tmp_path, "train") == [2, 4, 6, 8, 10, 12]
    last = _events(tmp_path, "train")[-1]
    assert last["tokens"] == trainer.progress.tokens
    assert 0 < last["seconds"] <= trainer.progress.seconds + 1e-6
    assert read(tmp_path / "journal.jsonl")[-1]["event"] == "end"
    resumed = _trainer(_recipe(), tmp_path)
    assert resumed.resume()
    resumed.run()
    assert saved == [5, 10, 12]
    assert state.read_bytes() == before
    assert _updates(tmp_path, "valid") == [5, 10, 12]


def test_a_checkpoint_replaces_one_of_the_same_update(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    own = {"model": {"weight": torch.zeros(2)}}
    for number in (1, 2):
        checkpoints.save(
            3,
            {"model": {"weight": torch.full((2,), float(number))}},
            {"number": number},
        )
    seal = checkpoints.load(own, pytest.fail)
    assert seal is not None
    assert seal.state == {"number": 2}
    assert torch.equal(own["model"]["weight"], torch.full((2,), 2.0))
    assert [path.name for path in tmp_path.iterdir()] == ["update-00000003"]


def test_a_full_disk_while_writing_a_sharded_checkpoint_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("regard.training.checkpoint_tensors.save_tensors", full)
    checkpoints = Checkpoints(tmp_path, 1, World(sharded=True))
    with pytest.raises(
        TrainingError,
        match=r"could not be written \(No space left on device\); there is none yet",
    ):
        checkpoints.save(3, {"model": {}}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_run_restarted_without_a_checkpoint_has_every_event_once(
    tmp_path: Path,
) -> None:
    _trainer(_recipe(), tmp_path).run()
    shutil.rmtree(tmp_path / "checkpoints")
    restarted = _trainer(_recipe(), tmp_path)
    assert not restarted.resume()
    restarted.run()
    assert _updates(tmp_path, "valid") == [5, 10, 12]


@pytest.mark.parametrize(
    ("values", "rates"),
    [
        (
            {"kind": "constant", "peak": 3.0, "warmup": 4},
            {1: 0.75, 2: 1.5, 4: 3, 5: 3, 10_000: 3},
        ),
        ({"kind": "constant", "peak": 2.0, "warmup": 0}, {1: 2, 4: 2}),
        (
            {"kind": "inverse_square_root", "peak": 3.0, "warmup": 50},
            {25: 1.5, 50: 3, 200: 1.5},
        ),
        ({"kind": "inverse_square_root", "peak": 2.0, "warmup": 0}, {1: 2, 4: 1}),
        ({"kind": "noam", "peak": 2.0, "warmup": 0}, {1: 2 * 64**-0.5, 4: 64**-0.5}),
        # Vaswani et al. 2017, equation 3.
        (
            {"kind": "noam", "peak": 1.0, "warmup": 4000},
            {100: 64**-0.5 * 100 * 4000**-1.5, 100_000: 64**-0.5 * 100_000**-0.5},
        ),
    ],
)
def test_learning_rates_are_the_published_ones(
    values: dict[str, Any], rates: dict[int, float]
) -> None:
    settings = ScheduleSettings.parse(values, "test")
    actual = {update: learning_rate(settings, update, 64) for update in rates}
    assert actual == pytest.approx(rates)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


def _swap(path: Path) -> None:
    """Put the weights of a later update in place, as after a kill between the weights and their
    checkpoint.
    """
    save_tensors(path, load_tensors(path), {"update": "99"})


def _best_first() -> Any:
    """Return a validation by which the first weights stay the best."""
    calls = iter(range(100))
    return lambda _: _result(0.0, float(next(calls)))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run of 12 updates whose first validation, at update 5, is the best."""
    run = tmp_path_factory.mktemp("finished") / "run"
    assert _trainer(_recipe(), run, _best_first()).run().progress.best_update == 5
    return run


@pytest.mark.parametrize(
    ("spoil", "updates"), [(Path.unlink, 12), (_flip, 12), (_flip, 20), (_swap, 20)]
)
def test_lost_best_weights_are_restored_from_the_checkpoint(
    finished: Path, tmp_path: Path, spoil: Any, updates: int
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.safetensors"
    before = path.read_bytes()
    spoil(path)
    trainer = _trainer(_recipe(updates=updates), tmp_path, lambda _: _result(0.0, 99.0))
    assert trainer.resume()
    assert path.read_bytes() == before
    assert trainer.run().progress.best_update == 5
    assert path.read_bytes() == before
    (event,) = _events(tmp_path, "restored")
    because = "not the weights that the checkpoint names as the best"
    if spoil is Path.unlink:
        because = "missing"
    assert because in event["problem"]
    assert "the best weights (update 5) are restored" in event["problem"]


def test_best_weights_lost_while_training_are_restored_at_the_next_checkpoint(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.safetensors"
    contents = []
    scores = _best_first()

    def validate(model: Model) -> dict[str, Any]:
        if path.exists():
            contents.append(path.read_bytes())
            _flip(path)
        values: dict[str, Any] = scores(model)
        return values

    _trainer(_recipe(), tmp_path, validate).run()
    assert contents[0] == contents[1] == path.read_bytes()
    assert len(_events(tmp_path, "restored")) == 2


def test_best_weights_that_nothing_holds_stop_the_run(tmp_path: Path) -> None:
    scores = _best_first()

    def validate(model: Model) -> dict[str, Any]:
        for copy in tmp_path.rglob("*.safetensors"):
            if copy.name in ("model.safetensors", "best.safetensors"):
                _flip(copy)
        values: dict[str, Any] = scores(model)
        return values

    with pytest.raises(
        TrainingError,
        match=r"model.safetensors: not the weights .* no checkpoint holds the best",
    ):
        _trainer(_recipe(), tmp_path, validate).run()
    with pytest.raises(
        TrainingError, match="no checkpoint can be read; start again in another folder"
    ):
        _trainer(_recipe(), tmp_path).resume()


def test_best_weights_that_cannot_be_replaced_stop_the_resumption(
    finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.safetensors"
    path.unlink()
    path.mkdir()
    (path / "file").touch()
    with pytest.raises(
        TrainingError,
        match=r"model.safetensors: missing, and the best weights cannot be restored",
    ):
        _trainer(_recipe(), tmp_path).resume()


def test_weights_of_a_run_without_a_best_validation_are_its_last(
    tmp_path: Path,
) -> None:
    """Weights that another run, or a lost part of this one, left in the folder are not taken for
    its own.
    """
    save_tensors(tmp_path / "model.safetensors", {"other": torch.ones(2)})
    trainer = _trainer(_recipe(), tmp_path, lambda _: _result(0.0, math.nan))
    assert trainer.run().progress.best_update == 0
    saved = load_tensors(tmp_path / "model.safetensors")
    assert all(
        torch.equal(saved[name], trainer.ema.weights[name])
        for name in trainer.ema.weights
    )


def _reseal(folder: Path, **changes: Any) -> None:
    """Seal a checkpoint again, as somebody who knows the format can."""
    contents = json.loads((folder / "state.json").read_text())
    sums = {
        name: file_sha256(folder / name)
        for name in contents["files"]
        if (folder / name).is_file()
    }
    contents = {"state": contents["state"], "files": sums, **changes}
    digest = hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()
    (folder / "state.json").write_text(json.dumps({**contents, "checksum": digest}))


def _spoil_unlisted(folder: Path) -> None:
    shutil.copy(folder / "ema.safetensors", folder / "more.safetensors")


def _spoil_link(folder: Path) -> None:
    (folder / "ema.safetensors").rename(folder.parent.parent / "outside")
    (folder / "ema.safetensors").symlink_to(folder.parent.parent / "outside")


def _spoil_shape(folder: Path) -> None:
    tensors = load_tensors(folder / "model.safetensors")
    name = next(name for name, tensor in tensors.items() if tensor.dim() == 2)
    save_tensors(folder / "model.safetensors", {**tensors, name: tensors[name][:-1]})
    _reseal(folder)


def _spoil_state(folder: Path) -> None:
    _reseal(
        folder,
        state={
            **json.loads((folder / "state.json").read_text())["state"],
            "update": "twelve",
        },
    )


def _spoil_names(folder: Path) -> None:
    tensors = load_tensors(folder / "ema.safetensors")
    tensors["unknown"] = tensors.pop(next(iter(tensors)))
    save_tensors(folder / "ema.safetensors", tensors)
    _reseal(folder)


def _spoil_values(folder: Path) -> None:
    tensors = load_tensors(folder / "model.safetensors")
    next(iter(tensors.values())).view(-1)[0] = math.nan
    save_tensors(folder / "model.safetensors", tensors)
    _reseal(folder)


def _spoil_rows(folder: Path) -> None:
    tensors = load_tensors(folder / "ema.safetensors")
    save_tensors(
        folder / "ema.safetensors",
        tensors,
        {"rows": json.dumps({next(iter(tensors)): [1, "7"]})},
    )
    _reseal(folder)


CHECKPOINT_DAMAGE: list[Any] = [
    (
        _spoil_unlisted,
        "more.safetensors is not listed in state.json: training did not write it",
    ),
    pytest.param(_spoil_link, "ema.safetensors is not a file", marks=posix),
    (
        lambda folder: (folder / "random.safetensors").unlink(),
        "random.safetensors is missing",
    ),
    (
        lambda folder: (folder / "best.safetensors").write_bytes(b""),
        "best.safetensors does not match its checksum",
    ),
    (
        lambda folder: _reseal(folder, files={}),
        "has no best.safetensors, although update 5 was the best",
    ),
    (lambda folder: _reseal(folder, state={}), "damaged .'update'"),
    (_spoil_state, "its state has update = 'twelve'"),
    (
        lambda folder: _reseal(
            folder, files={"../../outside": "0", "best.safetensors": "0"}
        ),
        "is not listed|no file of",
    ),
    (
        lambda folder: (folder / "state.json").write_text("[]"),
        "state.json does not match its checksum",
    ),
    (_spoil_shape, "its model tensor .* is not of shape"),
    (_spoil_names, "has no ema tensor .*, and 1 more"),
    (_spoil_values, "its model tensor .* is not finite"),
    (_spoil_rows, "its ema tensor .* is not of shape"),
]


@pytest.mark.parametrize(("spoil", "because"), CHECKPOINT_DAMAGE)
def test_a_checkpoint_that_is_not_as_written_is_skipped(
    finished: Path, tmp_path: Path, spoil: Any, because: str
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    weights = tmp_path / "model.safetensors"
    newest = tmp_path / "checkpoints" / "update-00000012"
    best = weights.read_bytes()
    expected = load_tensors(newest / "model.safetensors")
    spoil(newest)
    resumed = _trainer(_recipe(), tmp_path, lambda _: _result(0.0, 99.0))
    assert resumed.resume()
    assert resumed.progress.update == 10
    (event,) = _events(tmp_path, "damaged")
    assert re.search(because, event["problem"])
    resumed.run()
    actual = named_weights(resumed.model)
    assert all(torch.equal(actual[name], expected[name]) for name in expected)
    assert weights.read_bytes() == best
