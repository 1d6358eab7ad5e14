"""Several processes train as one does: here they are threads of one process, each with a rank and a
model of its own.

`test_distributed.py` starts true processes, all but one of them in the slow tests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import train_losses
from safetensors.torch import load_file

from regard.common.errors import TrainingError
from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.vocabulary import EOS
from regard.models import Model, build
from regard.training import Recipe, Trainer
from regard.training.distributed import World, full_tensor
from regard.training.journal import read
from regard.training.trainer import Outcome

SIDE = {
    "kind": "transformer",
    "layers": 2,
    "size": 8,
    "heads": 2,
    "feedforward": 16,
    "dropout": 0.2,
}
EXAMPLES = [
    Example([4 + i % 16, 5 + i % 7, EOS], [4 + i % 16, *([6] * (i % 4)), EOS])
    for i in range(40)
]

AsThreads = Callable[..., list[Any]]
KEY_BIAS = 2e-2
"""A bias of keys adds the same to all scores, so its gradient is rounding, which Adam scales to the
learning rate.
"""


def _recipe(updates: int = 4, layer_dropout: float = 0.0, **training: Any) -> Recipe:
    values = {
        "data": {"source": "unread", "target": "unread"},
        "model": {"encoder": {**SIDE, "layer_dropout": layer_dropout}, "decoder": SIDE},
        "schedule": {"peak": 1e-3, "warmup": 4},
        "training": {
            "updates": updates,
            "validate_every": 2,
            "log_every": 1,
            "precision": "float32",
            **training,
        },
    }
    return Recipe.parse(values, "the test")


def _trainer(
    recipe: Recipe, folder: Path, world: World | None = None, model: Model | None = None
) -> Trainer:
    folder.mkdir(parents=True, exist_ok=True)
    batches = BatchStream(EXAMPLES, BatchingSettings(tokens=64, micro_batches=2), 1)
    return Trainer(
        model or _model(recipe), batches, recipe, folder, _scores, None, world
    )


def _model(recipe: Recipe) -> Model:
    torch.manual_seed(3)
    return build(recipe.model, 20, 20, joint=True)


def _scores(model: Model) -> dict[str, float]:
    total = sum(
        float(full_tensor(parameter.detach()).abs().sum())
        for parameter in model.parameters()
    )
    return {"loss": total, "chrf": -total, "bleu": 0.0}


def _train_together(
    run: AsThreads, size: int, recipe: Recipe, folder: Path, resume: bool = False
) -> list[Outcome]:
    # Before the threads, which share the seed.
    models = [_model(recipe) for _ in range(size)]

    def work(world: World) -> Outcome:
        trainer = _trainer(recipe, folder, world, models[world.rank])

        assert not resume or trainer.resume()

        return trainer.run()

    return run(size, work, bool(recipe.training.sharded))


def _assert_same(actual: Path, expected: Path) -> None:
    """Compare what two runs wrote: losses and gradient norms, then their best weights."""
    for one, other in zip(train_losses(actual), train_losses(expected), strict=True):
        assert one == pytest.approx(other, rel=1e-5)
    weights = load_file(actual / "model.safetensors")
    others = load_file(expected / "model.safetensors")

    assert weights.keys() == others.keys()

    for name in others:
        atol = KEY_BIAS if name.endswith(".key.bias") else 1e-5
        torch.testing.assert_close(
            weights[name], others[name], rtol=1e-4, atol=atol, msg=name
        )


WAYS: dict[str, dict[str, Any]] = {
    "whole": {"layer_dropout": 0.5},
    "by layers": {
        "sharded": "layers",
        "rdrop": 1.0,
        "scheduled_sampling": 0.5,
        "scheduled_sampling_ramp": 1,
        "updates": 2,
    },
}
"""Each micro-batch drops layers of its own; R-Drop computes each layer twice, scheduled sampling
once more.

Weights that are split, but whole in a pass, are in the next test.
"""


@pytest.mark.system
@pytest.mark.parametrize("way", WAYS)
def test_two_processes_equal_one(
    as_threads: AsThreads, tmp_path: Path, way: str
) -> None:
    one = _trainer(_recipe(**{**WAYS[way], "sharded": False}), tmp_path / "one").run()
    outcomes = _train_together(as_threads, 2, _recipe(**WAYS[way]), tmp_path / "two")
    _assert_same(tmp_path / "two", tmp_path / "one")
    for outcome in outcomes:
        assert outcome.progress.best_update == one.progress.best_update
        assert outcome.progress.best == pytest.approx(one.progress.best, rel=1e-5)

    events = [line["event"] for line in read(tmp_path / "two" / "journal.jsonl")]

    assert events.count("end") == 1, "one of them reports"


@pytest.mark.system
def test_a_run_becomes_sharded_and_unsharded_again(
    as_threads: AsThreads, tmp_path: Path
) -> None:
    """One process, then two that share the weights, then one ends as one alone would have."""
    undisturbed = tmp_path / "undisturbed"
    run = tmp_path / "run"
    drops = {"layer_dropout": 0.5}
    _trainer(_recipe(updates=6, **drops), undisturbed).run()
    _trainer(_recipe(updates=2, **drops), run).run()
    sharded = _recipe(updates=4, sharded=True, **drops)
    _train_together(as_threads, 2, sharded, run, resume=True)
    files = (run / "checkpoints" / "update-00000004").glob("model-*-of-00002.*")

    assert len([*files]) == 2

    # One process, although sharding is still set.
    trainer = _trainer(_recipe(updates=6, sharded=True, **drops), run)

    assert trainer.resume()

    trainer.run()
    _assert_same(run, undisturbed)


def test_more_processes_than_batches_are_refused(tmp_path: Path) -> None:
    message = "3 processes cannot share 2 micro-batches an update; set batching.micro_batches to 3"
    with pytest.raises(TrainingError, match=message):
        _trainer(_recipe(), tmp_path / "run", World(0, 3))
