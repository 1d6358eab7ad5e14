"""The trainer: resuming, best weights, early stopping, stop signals, checkpoints, journal,
learning-rate schedules.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from helpers.system_marks import posix
from safetensors import SafetensorError, safe_open

import regard.training.trainer as trainer_module
from regard.common.atomic import file_sha256
from regard.common.checksums import json_digest
from regard.common.errors import ConfigurationError, TrainingError
from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.vocabulary import EOS
from regard.model_folder import WEIGHTS, load_tensors, named_weights, save_tensors
from regard.models import Model, build
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
SIDES: dict[str, dict[str, Any]] = {
    "transformer": TRANSFORMER,
    "batch norm": {**TRANSFORMER, "norm": "batch"},
    "recurrent": {"kind": "recurrent", "size": 8, "embedding": 8},
    "no_attention": {"kind": "no_attention", "size": 8, "embedding": 8},
    "convolutional": {"kind": "convolutional", "layers": 2, "size": 8, "embedding": 8},
}
EMA = "ema.safetensors"
PAIRS = [
    ("transformer", "recurrent"),
    ("recurrent", "transformer"),
    ("convolutional", "no_attention"),
    ("transformer", "convolutional"),
    ("batch norm", "batch norm"),
]


def _recipe(
    encoder: str = "transformer", decoder: str = "transformer", **training: Any
) -> Recipe:
    values = {
        "data": {"source": "unread", "target": "unread"},
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


def _trainer(recipe: Recipe, folder: Path, validate: Any = _scores) -> Trainer:
    torch.manual_seed(recipe.training.seed)
    model = build(recipe.model, 20, 20, joint=True)
    examples = [
        Example([4 + i % 16, 5 + i % 7, EOS], [4 + i % 16, *([6] * (i % 4)), EOS])
        for i in range(40)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    batches = BatchStream(examples, BatchingSettings(tokens=32, micro_batches=1), 1)
    return Trainer(model, batches, recipe, folder, validate)


Weights = dict[str, torch.Tensor]


def _copy(model: Model) -> Weights:
    return {name: weight.clone() for name, weight in named_weights(model).items()}


def _same(actual: Weights, expected: Weights) -> bool:
    equal = [torch.equal(actual[name], expected[name]) for name in expected]
    return actual.keys() == expected.keys() and all(equal)


@pytest.mark.system
@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, encoder: str, decoder: str
) -> None:
    """For each kind of decoder; `test_killed.py` takes each encoder with each decoder."""
    recipe = _recipe(encoder, decoder, encoder_rate=0.3)
    uninterrupted = _trainer(recipe, tmp_path / "uninterrupted")
    initial = _copy(uninterrupted.model)
    uninterrupted.run()
    stopped = _recipe(encoder, decoder, encoder_rate=0.3, updates=7)
    _trainer(stopped, tmp_path / "stopped").run()
    resumed = _trainer(recipe, tmp_path / "stopped")
    torch.manual_seed(99)  # the checkpoint restores the state of the generator

    assert resumed.resume()

    resumed.run()
    weights = named_weights(uninterrupted.model)

    assert _same(named_weights(resumed.model), weights)
    assert _same(resumed.ema.weights, uninterrupted.ema.weights)

    for name, weight in weights.items():
        assert not torch.equal(weight, initial[name]) or "running" in name, name

    assert uninterrupted.progress.tokens == resumed.progress.tokens
    assert uninterrupted.progress.position == resumed.progress.position


def _events(run: Path, event: str) -> list[dict[str, Any]]:
    return [line for line in read(run / "journal.jsonl") if line["event"] == event]


def _updates(run: Path, event: str) -> list[int]:
    return [line["update"] for line in _events(run, event)]


def _result(chrf: float, loss: float = 1.0) -> dict[str, float]:
    return {"loss": loss, "chrf": chrf, "bleu": 0.0}


@pytest.mark.parametrize("share", ["all", "target"])
def test_the_encoder_has_its_own_learning_rate(tmp_path: Path, share: str) -> None:
    """The first step of Adam is as long as the learning rate, whatever the gradient."""
    plain = {"max_grad_norm": 0.0, "ema_decay": 0.0, "weight_decay": 0.0}
    recipe = _recipe(updates=1, encoder_rate=0.1, **plain)
    recipe = recipe.with_values(model={**recipe.model.model_dump(), "share": share})
    trainer = _trainer(recipe, tmp_path)
    before = _copy(trainer.model)
    trainer.run()
    rate = learning_rate(recipe.schedule, 1, 8)
    for name, weight in named_weights(trainer.model).items():
        if name.endswith("key.bias"):  # attention weights do not depend on it
            continue
        is_shared = share == "all" and "embedding" in name
        has_own_rate = name.startswith("encoder") and not is_shared
        step = float((weight - before[name]).abs().max())
        expected = rate * 0.1 if has_own_rate else rate

        assert step == pytest.approx(expected, rel=0.05), name


def test_the_best_weights_are_the_average_at_the_best_validation(
    tmp_path: Path,
) -> None:
    validated = list[Weights]()

    def validate(model: Model) -> dict[str, float]:
        assert _same(named_weights(model), trainer.ema.weights)

        validated.append(_copy(model))
        return _result([10.0, 30.0, 20.0][len(validated) - 1])

    trainer = _trainer(_recipe(ema_decay=0.9), tmp_path, validate)

    assert trainer.run().progress.best_update == 10
    assert _same(load_tensors(tmp_path / WEIGHTS), validated[1])
    assert not _same(named_weights(trainer.model), trainer.ema.weights)


def test_of_equal_scores_the_lower_loss_is_better(tmp_path: Path) -> None:
    """BLEU and chrF stay 0 for the first validations of a run, while its loss falls.

    A validation without a loss is never the best, and another kind of score begins anew.
    """
    losses = [math.nan, 3.0, 2.0, 2.5, math.nan, 4.0, 1.0]
    chrf = [0.0, 0.0, 0.0, 0.0, 9.0, 10.0, 5.0]
    results = zip(chrf, losses, strict=True)
    bests = []
    for number in range(len(losses)):
        recipe = _recipe(updates=5 * number + 5)
        trainer = _trainer(recipe, tmp_path, lambda _: _result(*next(results)))
        trainer.resume()
        best = trainer.run().progress
        bests.append((best.best_update, best.validations_since_best, best.best_loss))

    until_15 = [(10, 0, 3.0), (15, 0, 2.0)]
    until_25 = [(15, 1, 2.0), (15, 2, 2.0)]

    assert bests[1:] == [*until_15, *until_25, (30, 0, 4.0), (30, 1, 4.0)]

    text = (tmp_path / "journal.jsonl").read_text()

    assert "NaN" not in text, "NaN is not valid JSON"
    assert _events(tmp_path, "valid")[0]["loss"] is None

    recipe = _recipe(updates=40, best_by="loss")
    trainer = _trainer(recipe, tmp_path, lambda _: _result(40.0, 5.0))
    trainer.resume()
    progress = trainer.run().progress

    assert (progress.best, progress.best_update, progress.best_by) == (-5.0, 40, "loss")


@pytest.mark.system
def test_batches_that_do_not_fit_are_halved_until_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is for one sentence at a time, and runs out after gradients have been computed."""
    side = {**TRANSFORMER, "dropout": 0.0}
    unhalved_recipe, halved_recipe = (
        _recipe(updates=3, halve_batches=halve).with_values(
            model={"encoder": side, "decoder": side}
        )
        for halve in (False, True)
    )
    unhalved = _trainer(unhalved_recipe, tmp_path / "unhalved")
    unhalved.run()
    compute = GradientWorkers.gradients
    references = list[Any]()

    def limited(self: GradientWorkers, batches: Any, tokens: int) -> Any:
        alive = [reference for reference in references if reference() is not None]

        assert not alive, "tensors of the failed pass are alive"

        tensor = torch.zeros(1)
        references.append(weakref.ref(tensor))
        losses = compute(self, batches, tokens)
        if max(len(batch.source) for batch, _ in batches) > 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory\nmore")
        return losses

    monkeypatch.setattr(GradientWorkers, "gradients", limited)
    halved = _trainer(halved_recipe, tmp_path / "halved")
    halved.run()

    assert halved.progress.batch_parts > 1

    halved_weights = named_weights(halved.model)
    for name, weight in named_weights(unhalved.model).items():
        # The loss does not depend on the bias of keys: Adam follows rounding errors.
        if not name.endswith("key.bias"):
            torch.testing.assert_close(
                halved_weights[name], weight, rtol=1e-3, atol=1e-5
            )

    message = (
        r"update 1: out of memory .*there is no checkpoint yet.*halve_batches=true"
    )

    with pytest.raises(TrainingError, match=message):
        _trainer(unhalved_recipe, tmp_path / "refused").run()


@pytest.mark.parametrize(
    "function",
    ["torch.optim.AdamW.step", "regard.training.trainer.Trainer._save_weights"],
)
def test_out_of_memory_outside_the_batches_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    failing = Mock(side_effect=torch.OutOfMemoryError("there are 3 bytes left"))
    monkeypatch.setattr(function, failing)
    message = (
        r"out of memory \(there are 3 bytes left\) outside the batches of an update"
    )

    with pytest.raises(TrainingError, match=message):
        _trainer(_recipe(), tmp_path).run()


def test_a_failed_write_leaves_the_old_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / WEIGHTS
    save_tensors(path, {"a": torch.ones(2)})
    before = path.read_bytes()
    full = Mock(side_effect=SafetensorError("I/O error: No space left on device"))
    monkeypatch.setattr("regard.model_folder.save_file", full)

    with pytest.raises(OSError, match="No space left on device"):
        save_tensors(path, {"a": torch.zeros(2)})
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


def test_patience_ends_a_run_without_a_better_score(tmp_path: Path) -> None:
    scores = iter([3.0, 2.0, 1.0, 0.0])
    trainer = _trainer(
        _recipe(updates=100, patience=2), tmp_path, lambda _: _result(next(scores))
    )
    outcome = trainer.run()

    assert outcome.progress.update == 15
    assert "no better score in 2 validations" in outcome.reason


@pytest.mark.parametrize(("best_by", "best"), [("bleu", 30), ("chrf", 5)])
def test_a_bleu_that_means_nothing_yet_costs_no_patience_while_the_loss_falls(
    tmp_path: Path, best_by: str, best: int
) -> None:
    """BLEU of a run on 300 pairs; as chrF the same numbers would count."""
    bleu = iter([0.43, 0.43, 0.43, 0.16, 0.16, 0.0])
    loss = iter([7.8, 7.1, 6.5, 5.8, 5.2, 4.7])

    def validate(_: Model) -> dict[str, float]:
        score = next(bleu)
        value = next(loss) if best_by == "bleu" else 7.8
        return {"loss": value, "chrf": score, "bleu": score}

    recipe = _recipe(updates=30, patience=3, best_by=best_by)
    outcome = _trainer(recipe, tmp_path, validate).run()

    assert outcome.progress.best_update == best
    with safe_open(tmp_path / WEIGHTS, "pt") as file:
        assert file.metadata()["update"] == str(best)


def test_patience_counts_a_bleu_that_means_something(tmp_path: Path) -> None:
    values = iter([(3.0, 5.0), (2.0, 4.0), (0.5, 3.0), (0.5, 2.0)])

    def validate(_: Model) -> dict[str, float]:
        bleu, loss = next(values)
        return {"loss": loss, "chrf": bleu, "bleu": bleu}

    recipe = _recipe(updates=30, patience=3, best_by="bleu")
    outcome = _trainer(recipe, tmp_path, validate).run()

    assert (outcome.progress.best_update, outcome.progress.update) == (5, 20)


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
    assert outcome.reason == "the rest of its time is for the scores and the report"

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
    before = _copy(trainer.model)
    message = "update 1: the gradient is infinite or NaN"

    with pytest.raises(TrainingError, match=message):
        trainer.run()

    after = _copy(trainer.model)
    for weights in (before, after):
        del weights["decoder.output.bias"]

    assert _same(after, before)


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

    def stop_after_one(*arguments: Any) -> None:
        step(*arguments)
        trainer.signal = signal.SIGINT

    trainer._update = stop_after_one  # type: ignore[method-assign]

    assert trainer.run().stopped == signal.SIGINT
    assert _same(load_tensors(tmp_path / WEIGHTS), trainer.ema.weights)


def test_a_damaged_checkpoint_does_not_displace_intact_ones(tmp_path: Path) -> None:
    _trainer(_recipe(), tmp_path).run()
    folder = tmp_path / "checkpoints"
    (folder / "update-00000012" / WEIGHTS).write_bytes(b"damaged")
    trainer = _trainer(_recipe(updates=11, keep_checkpoints=1), tmp_path)

    assert trainer.resume()
    assert trainer.progress.update == 10

    trainer.run()

    assert sorted(path.name for path in folder.iterdir()) == [
        "update-00000011",
        "update-00000012.damaged",
    ]

    (folder / "update-00000011" / "state.json").write_text("{")

    with pytest.raises(TrainingError, match="no checkpoint can be read"):
        _trainer(_recipe(), tmp_path).resume()

    reported = _events(tmp_path, "damaged")

    assert len(reported) == 1, "the last one is not reported as followed by another"


def test_a_finished_run_is_written_and_validated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a second write were interrupted, the run could be left without a checkpoint.

    A run that starts anew, as its checkpoints are gone, has every event once, too.
    """
    save = Mock(side_effect=Checkpoints.save)
    monkeypatch.setattr(Checkpoints, "save", lambda *given: save(*given))
    trainer = _trainer(_recipe(), tmp_path)
    trainer.run()

    assert _updates(tmp_path, "train") == [2, 4, 6, 8, 10, 12]

    last = _events(tmp_path, "train")[-1]

    assert last["tokens"] == trainer.progress.tokens
    assert 0 < last["seconds"] <= trainer.progress.seconds + 1e-6
    assert read(tmp_path / "journal.jsonl")[-1]["event"] == "end"

    resumed = _trainer(_recipe(), tmp_path)

    assert resumed.resume()

    resumed.run()

    assert [call.args[1] for call in save.call_args_list] == [5, 10, 12]
    assert _updates(tmp_path, "valid") == [5, 10, 12]

    shutil.rmtree(tmp_path / "checkpoints")
    restarted = _trainer(_recipe(), tmp_path)

    assert not restarted.resume()

    restarted.run()

    assert _updates(tmp_path, "valid") == [5, 10, 12]


def test_a_checkpoint_replaces_one_of_the_same_update(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    for number in (1, 2):
        tensors = {"model": {"weight": torch.full((2,), float(number))}}
        checkpoints.save(3, tensors, {"number": number})

    own = {"model": {"weight": torch.zeros(2)}}
    loaded = checkpoints.load(own, pytest.fail)

    assert loaded is not None
    assert loaded.state == {"number": 2}
    assert own["model"]["weight"].tolist() == [2.0, 2.0]
    assert [path.name for path in tmp_path.iterdir()] == ["update-00000003"]


def test_a_full_disk_while_writing_a_sharded_checkpoint_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("regard.training.checkpoint_tensors.save_tensors", full)
    checkpoints = Checkpoints(tmp_path, 1, World(sharded=True))
    message = r"could not be written \(No space left on device\); there is none yet"

    with pytest.raises(TrainingError, match=message):
        checkpoints.save(3, {"model": {}}, {})
    assert list(tmp_path.iterdir()) == []


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
    ("spoil", "updates"), [(Path.unlink, 12), (_flip, 20), (_swap, 20)]
)
def test_lost_best_weights_are_restored_from_the_checkpoint(
    finished: Path, tmp_path: Path, spoil: Any, updates: int
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    path = tmp_path / WEIGHTS
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
    path = tmp_path / WEIGHTS
    contents = []
    scores = _best_first()

    def validate(model: Model) -> Any:
        if path.exists():
            contents.append(path.read_bytes())
            _flip(path)
        return scores(model)

    _trainer(_recipe(), tmp_path, validate).run()

    assert contents[0] == contents[1] == path.read_bytes()
    assert len(_events(tmp_path, "restored")) == 2


def test_best_weights_that_nothing_holds_stop_the_run(tmp_path: Path) -> None:
    scores = _best_first()

    def validate(model: Model) -> Any:
        for name in (WEIGHTS, "best.safetensors"):
            for copy in tmp_path.rglob(name):
                _flip(copy)
        return scores(model)

    message = r"model.safetensors: not the weights .* no checkpoint holds the best"

    with pytest.raises(TrainingError, match=message):
        _trainer(_recipe(), tmp_path, validate).run()

    message = "no checkpoint can be read; start again in another folder"

    with pytest.raises(TrainingError, match=message):
        _trainer(_recipe(), tmp_path).resume()


def test_best_weights_that_cannot_be_replaced_stop_the_resumption(
    finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    path = tmp_path / WEIGHTS
    path.unlink()
    path.mkdir()
    (path / "file").touch()
    message = "model.safetensors: missing, and the best weights cannot be restored"

    with pytest.raises(TrainingError, match=message):
        _trainer(_recipe(), tmp_path).resume()


def test_weights_of_a_run_without_a_best_validation_are_its_last(
    tmp_path: Path,
) -> None:
    """Weights that another run, or a lost part of this one, left in the folder are not taken for
    its own.
    """
    save_tensors(tmp_path / WEIGHTS, {"other": torch.ones(2)})
    trainer = _trainer(_recipe(), tmp_path, lambda _: _result(0.0, math.nan))

    assert trainer.run().progress.best_update == 0
    assert _same(load_tensors(tmp_path / WEIGHTS), trainer.ema.weights)


def _reseal(folder: Path, **changes: Any) -> None:
    """Seal a checkpoint again, as somebody who knows the format can."""
    contents = json.loads((folder / "state.json").read_text())
    contents.pop("checksum")
    for name in contents["files"]:
        contents["files"][name] = file_sha256(folder / name)
    contents |= changes
    sealed = {**contents, "checksum": json_digest(contents)}
    (folder / "state.json").write_text(json.dumps(sealed))


def _change_tensors(
    file: str, change: Callable[[Weights, str], None]
) -> Callable[[Path], None]:
    """Return a function that changes a matrix in this file, given its name, and seals it again."""

    def spoil(folder: Path) -> None:
        tensors = load_tensors(folder / file)
        matrices = [name for name, tensor in tensors.items() if tensor.dim() == 2]
        change(tensors, matrices[0])
        save_tensors(folder / file, tensors)
        _reseal(folder)

    return spoil


def _cut(tensors: Weights, name: str) -> None:
    tensors[name] = tensors[name][:-1]


def _rename(tensors: Weights, name: str) -> None:
    tensors["unknown"] = tensors.pop(name)


def _put_nan(tensors: Weights, name: str) -> None:
    tensors[name][0, 0] = math.nan


def _spoil_rows(folder: Path) -> None:
    tensors = load_tensors(folder / EMA)
    rows = {next(iter(tensors)): [1, "7"]}
    save_tensors(folder / EMA, tensors, {"rows": json.dumps(rows)})
    _reseal(folder)


def _spoil_unlisted(folder: Path) -> None:
    shutil.copy(folder / EMA, folder / "more.safetensors")


def _spoil_link(folder: Path) -> None:
    (folder / EMA).rename(folder.parent.parent / "outside")
    (folder / EMA).symlink_to(folder.parent.parent / "outside")


def _spoil_state(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_text())["state"]
    _reseal(folder, state={**state, "update": "twelve"})


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
    (_change_tensors(WEIGHTS, _cut), "its model tensor .* is not of shape"),
    (_change_tensors(EMA, _rename), "has no ema tensor .*, and 1 more"),
    (_change_tensors(WEIGHTS, _put_nan), "its model tensor .* is not finite"),
    (_spoil_rows, "its ema tensor .* is not of shape"),
]


@pytest.mark.parametrize(("spoil", "because"), CHECKPOINT_DAMAGE)
def test_a_checkpoint_that_is_not_as_written_is_skipped(
    finished: Path, tmp_path: Path, spoil: Any, because: str
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    weights = tmp_path / WEIGHTS
    newest = tmp_path / "checkpoints" / "update-00000012"
    best = weights.read_bytes()
    expected = load_tensors(newest / WEIGHTS)
    spoil(newest)
    resumed = _trainer(_recipe(), tmp_path, lambda _: _result(0.0, 99.0))

    assert resumed.resume()
    assert resumed.progress.update == 10

    (event,) = _events(tmp_path, "damaged")

    assert re.search(because, event["problem"])

    resumed.run()

    assert _same(named_weights(resumed.model), expected)
    assert weights.read_bytes() == best
