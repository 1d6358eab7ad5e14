"""Callbacks and objectives: when they are called, what they change, and how they fail."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_models import SENTENCES

import regard
from regard.common.errors import TrainingError, UsageError
from regard.data.batch import Example, TrainingBatch
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.vocabulary import EOS, PAD
from regard.model_folder import named_weights
from regard.models import Batch, Model, build
from regard.training import Recipe, Trainer
from regard.training.callbacks import Callback, Extensions, TrainingContext
from regard.training.loss import Loss, Objective
from regard.training.schedule import learning_rate

RECURRENT = {"kind": "recurrent", "size": 8, "embedding": 8}
UPDATES = 6


def trainer(folder: Path, *callbacks: Callback, objective: Any = None) -> Trainer:
    values = {
        "data": {"source": "unread", "target": "unread"},
        "model": {"encoder": RECURRENT, "decoder": RECURRENT},
        "schedule": {"peak": 1e-2, "warmup": 4},
        "training": {
            "updates": UPDATES,
            "validate_every": 4,
            "log_every": 1,
            "precision": "float32",
        },
    }
    recipe = Recipe.parse(values, "the test")
    torch.manual_seed(1)
    model = build(recipe.model, 20, 20, joint=True)
    examples = [
        Example([4 + i % 16, 5 + i % 7, EOS], [4 + i % 16, *([6] * (i % 4)), EOS])
        for i in range(40)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    batches = BatchStream(examples, BatchingSettings(tokens=32, micro_batches=2), 1)
    extensions = Extensions(objective, callbacks)
    return Trainer(model, batches, recipe, folder, _scores, extensions=extensions)


def _scores(model: Model) -> dict[str, float]:
    total = sum(float(weights.abs().sum()) for weights in named_weights(model).values())
    return {"loss": total, "chrf": total}


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    lines = (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for line in lines if (event := json.loads(line))["event"] == name]


def assert_same_weights(one: Trainer, other: Trainer) -> None:
    weights = named_weights(other.model)
    for name, value in named_weights(one.model).items():
        assert torch.equal(value, weights[name]), name


class Recording(Callback):
    """Notes each call, and fails at one of them."""

    def __init__(self, failing: tuple[str, int] | None = None) -> None:
        self.calls = list[tuple[str, int]]()
        self.seen = list[TrainingContext]()
        self.batches = list[int]()
        self.rates = list[float]()
        self.failing = failing

    def _note(self, point: str, context: TrainingContext) -> None:
        self.calls.append((point, context.update))
        if (point, context.update) == self.failing:
            raise ZeroDivisionError("by zero")

    def on_start(self, context: TrainingContext) -> None:
        self._note("on_start", context)

    def before_update(self, context: TrainingContext) -> None:
        self.batches.append(sum(batch.tokens for batch in context.batches))
        self.rates.append(context.learning_rate)
        self._note("before_update", context)

    def after_update(self, context: TrainingContext) -> None:
        context.log(seen=context.metrics["loss"])
        self._note("after_update", context)

    def after_validation(self, context: TrainingContext) -> None:
        assert context.metrics["chrf"] == context.metrics["loss"]
        self._note("after_validation", context)

    def on_end(self, context: TrainingContext) -> None:
        self._note("on_end", context)


def test_callbacks_are_called_at_every_point_and_change_no_weight(
    tmp_path: Path,
) -> None:
    plain = trainer(tmp_path / "plain")
    plain.run()
    callback = Recording()
    watched = trainer(tmp_path / "watched", callback)
    watched.run()

    expected = [("on_start", 0)]
    for update in range(1, UPDATES + 1):
        expected += [("before_update", update), ("after_update", update)]
        if update in (4, UPDATES):
            expected.append(("after_validation", update))
    assert callback.calls == [*expected, ("on_end", UPDATES)]
    assert_same_weights(plain, watched)
    schedule = watched.recipe.schedule
    assert callback.rates == [learning_rate(schedule, n, 8) for n in range(1, 7)]
    losses = events(tmp_path / "watched", "train")
    logged = events(tmp_path / "watched", "callback")
    assert [event["seen"] for event in logged] == [event["loss"] for event in losses]
    assert [event["update"] for event in logged] == [*range(1, UPDATES + 1)]
    assert sum(callback.batches) == losses[-1]["tokens"]


class Slower(Callback):
    """Sets the rate of one update."""

    def before_update(self, context: TrainingContext) -> None:
        if context.update == 3:
            context.learning_rate = 0.0


class Keeping(Callback):
    """Keeps the weights after each update."""

    def __init__(self) -> None:
        self.weights = list[dict[str, torch.Tensor]]()

    def after_update(self, context: TrainingContext) -> None:
        weights = named_weights(context.model)
        self.weights.append({name: value.clone() for name, value in weights.items()})


def test_a_changed_learning_rate_holds_for_one_update(tmp_path: Path) -> None:
    keeping = Keeping()
    trainer(tmp_path, Slower(), keeping).run()

    same = [
        all(torch.equal(one[name], other[name]) for name in one)
        for one, other in zip(keeping.weights, keeping.weights[1:], strict=False)
    ]
    assert same == [False, True, False, False, False]  # updates 2 to 6
    rates = [event["learning_rate"] for event in events(tmp_path, "train")]
    assert rates[2] == 0
    assert all(rates[:2] + rates[3:])


class Stopping(Callback):
    """Ends the training after an update."""

    def after_update(self, context: TrainingContext) -> None:
        if context.update == 2:
            context.stop("enough")


def test_a_callback_ends_the_training(tmp_path: Path) -> None:
    outcome = trainer(tmp_path, Stopping()).run()

    assert outcome.progress.update == 2
    assert outcome.reason == "stopped by a callback: enough"
    assert outcome.stopped is None
    (valid,) = events(tmp_path, "valid")
    assert valid["update"] == 2


@pytest.mark.parametrize(
    "failing",
    [("before_update", 3), ("after_update", 3), ("after_validation", 4), ("on_end", 6)],
)
def test_a_failure_leaves_a_checkpoint_and_the_resumed_run_is_the_same(
    failing: tuple[str, int], tmp_path: Path
) -> None:
    whole = trainer(tmp_path / "whole")
    whole.run()
    folder = tmp_path / "failing"
    message = (
        rf"callback \S*test_callbacks\S*:Recording==\S+, {failing[0]} failed with "
        rf"ZeroDivisionError: by zero \(line \d+ of {re.escape(__file__)}\); the last checkpoint is "
        "kept: mend it"
    )
    with pytest.raises(TrainingError, match=message):
        trainer(folder, Recording(failing)).run()
    resumed = trainer(folder, Recording())
    assert resumed.resume()
    kept = failing[1] - (failing[0] == "before_update")
    assert resumed.progress.update == kept
    resumed.run()

    assert_same_weights(whole, resumed)


def test_a_failure_at_the_first_update_leaves_nothing_to_resume(tmp_path: Path) -> None:
    message = "there is no checkpoint yet: mend it, then train again"
    with pytest.raises(TrainingError, match=message):
        trainer(tmp_path, Recording(("before_update", 1))).run()
    assert not trainer(tmp_path).resume()


def plain_cross_entropy(model: Model, batch: TrainingBatch) -> Loss:
    """Compute the loss from all logits, which the package never makes."""
    features = model(Batch(batch.source, batch.source_keep), batch.target_in)
    log_probs = model.project(features).log_softmax(-1)
    picked = log_probs.gather(-1, batch.target_out[..., None])[..., 0]
    kept = batch.target_out != PAD
    cross_entropy = -(picked * kept).sum()
    smoothed = 0.9 * cross_entropy - 0.1 * (log_probs.mean(-1) * kept).sum()
    return Loss(smoothed, cross_entropy.detach(), batch.tokens)


def test_an_objective_of_ones_own_trains_as_the_packages_own_does(
    tmp_path: Path,
) -> None:
    own = trainer(tmp_path / "own", objective=plain_cross_entropy)
    plain = trainer(tmp_path / "plain")
    given = trainer(tmp_path / "given", objective=Objective(0.1))
    for each in (own, plain, given):
        each.run()

    assert_same_weights(plain, given)
    weights = named_weights(plain.model)
    for name, value in named_weights(own.model).items():
        torch.testing.assert_close(value, weights[name], atol=1e-4, rtol=1e-3)


class Refusing:
    """Fails at a call."""

    def __init__(self, failing: int) -> None:
        self.calls = 0
        self.failing = failing

    def __call__(self, model: Model, batch: TrainingBatch) -> Any:
        self.calls += 1
        return None if self.calls == self.failing else Objective(0.1)(model, batch)


def test_a_failing_objective_leaves_the_weights_of_the_update_before(
    tmp_path: Path,
) -> None:
    whole = trainer(tmp_path / "whole")
    whole.run()
    folder = tmp_path / "failing"
    with pytest.raises(
        TrainingError, match=r"update 2: objective \S+:Refusing==\S+ fail"
    ):
        trainer(folder, objective=Refusing(5)).run()
    resumed = trainer(folder)
    assert resumed.resume()
    assert resumed.progress.update == 2
    resumed.run()

    assert_same_weights(whole, resumed)


class Logging(Callback):
    """Logs a value under a name."""

    def __init__(self, name: str, value: object) -> None:
        self.values = {name: value}

    def after_update(self, context: TrainingContext) -> None:
        context.log(**self.values)


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("seen", torch.ones(()), r"log\(seen=…\): wanted a value that JSON has, got "),
        ("seen", {(1, 2): 3}, r"log\(seen=…\): wanted a value that JSON has, got "),
        ("update", 3, r"log\(update=…\): each event has this name"),
    ],
)
def test_what_the_journal_cannot_hold_names_the_callback(
    tmp_path: Path, name: str, value: object, cause: str
) -> None:
    message = rf"callback \S+:Logging==\S+, after_update failed with TypeError: {cause}"
    with pytest.raises(TrainingError, match=message):
        trainer(tmp_path, Logging(name, value)).run()
    assert not (tmp_path / "journal.jsonl").exists()


def _returns_a_number(model: Model, batch: TrainingBatch) -> Any:
    return 3.5


def _returns_nan(model: Model, batch: TrainingBatch) -> Loss:
    loss = plain_cross_entropy(model, batch)
    return loss._replace(smoothed=loss.smoothed * float("nan"))


def _has_an_infinite_gradient(model: Model, batch: TrainingBatch) -> Loss:
    loss = plain_cross_entropy(model, batch)
    return loss._replace(smoothed=(loss.smoothed - loss.smoothed.detach()).abs().sqrt())


@pytest.mark.parametrize(
    ("objective", "cause"),
    [
        (
            _returns_a_number,
            r" failed with TypeError: wanted a regard\S+Loss, got 3\.5",
        ),
        (_returns_nan, ": its Loss.smoothed is infinite or NaN"),
        (_has_an_infinite_gradient, ": the gradient of its Loss.smoothed is"),
    ],
)
def test_what_is_wrong_with_an_objective_names_it(
    tmp_path: Path, objective: Any, cause: str
) -> None:
    message = rf"objective \S+:{objective.__name__}==\S+{cause}"
    with pytest.raises(TrainingError, match=message):
        trainer(tmp_path, objective=objective).run()


# regard.train


@pytest.fixture
def pairs() -> list[tuple[str, str]]:
    return [*zip(SENTENCES[:2] * 20, SENTENCES[2:4] * 20, strict=True)]


SETTINGS = {
    "model.encoder.size": 8,
    "model.decoder.size": 8,
    "model.encoder.embedding": 8,
    "model.decoder.embedding": 8,
    "model.decoder.attention_size": 8,
    "training.updates": 1,
}


def train(out: Path, **arguments: Any) -> regard.Run:
    preset = {} if arguments.get("resume") else {"preset": "rnn-bahdanau"}
    return regard.train(out=out, threads=1, **preset, **arguments)


@pytest.mark.system
def test_a_run_is_resumed_only_with_what_it_was_begun_with(
    pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    extensions = {"objective": Objective(0.1), "callbacks": [Stopping()]}
    run = train(out, pairs=iter(pairs), settings=SETTINGS, **extensions)
    training = run.recipe.training
    assert str(training.objective).startswith("regard.training.loss:Objective==")
    assert ":Stopping==" in training.callbacks[0]
    before = (out / "model.safetensors").read_bytes()

    wanted = {"training.updates": 3}
    with pytest.raises(UsageError) as refused:
        train(out, resume=True, settings=wanted)
    assert [cause.split(":")[0] for cause in refused.value.causes] == [
        "`objective=`",
        "`callbacks=`",
    ]
    with pytest.raises(
        UsageError, match=r"the recipe has .*Stopping.* given is .*Slower"
    ):
        train(out, resume=True, objective=Objective(0.1), callbacks=[Slower()])
    assert (out / "model.safetensors").read_bytes() == before

    run = train(out, resume=True, settings=wanted, **extensions)
    assert run.outcome.progress.update == 2
    assert run.outcome.reason == "stopped by a callback: enough"


@pytest.mark.system
def test_a_recipe_with_an_objective_is_trained_only_with_it(
    pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    settings = {**SETTINGS, "training.objective": "elsewhere:loss==1"}
    with pytest.raises(
        UsageError, match="the recipe has elsewhere:loss==1, and given is none"
    ):
        train(tmp_path / "run", pairs=pairs, settings=settings)
    with pytest.raises(UsageError, match=r"is no regard.Callback; give objects"):
        train(tmp_path / "run", pairs=pairs, settings=SETTINGS, callbacks=[print])


def _times_nothing(model: Model, batch: TrainingBatch) -> Loss:
    """Fail, as an objective does that is to be mended."""
    raise ZeroDivisionError("mend me")


@pytest.mark.system
def test_what_failed_before_a_checkpoint_begins_anew_by_the_same_call(
    pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(TrainingError, match="train again"):
        train(out, pairs=pairs[:30], settings=SETTINGS, objective=_times_nothing)
    assert (out / "journal.jsonl").exists()
    train(out, pairs=pairs, settings=SETTINGS)
    anew = shutil.move(out, tmp_path / "anew")
    fresh = train(out, pairs=pairs, settings=SETTINGS)

    for name in ("model.safetensors", "joint.model", "valid.tsv"):
        assert (anew / name).read_bytes() == (out / name).read_bytes(), name
    lines = (anew / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(fresh.journal)
    before = (out / "model.safetensors").read_bytes()
    shutil.rmtree(out / "checkpoints")
    with pytest.raises(UsageError, match="there is a run already"):
        train(out, pairs=pairs, settings=SETTINGS)
    assert (out / "model.safetensors").read_bytes() == before
