"""Data-parallel training: several processes have the same updates, loss and weights as one.

`test_worlds.py` says the same of threads in place of processes, in every way to train, and is not
slow.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from helpers.system_marks import posix
from helpers.time_limits import wait_until
from runs import (
    arguments,
    assert_same_weights,
    command,
    corpus,
    has_checkpoint,
    run_command,
    torchrun,
    train_losses,
    workers,
)
from safetensors.torch import load_file

from regard.training.distributed import World, join_processes
from regard.training.journal import read

pytestmark = pytest.mark.system

TRAINING = {"updates": 12, "validate_every": 6, "log_every": 3, "precision": "float32"}
NO_DROPOUT = ["--set=model.encoder.dropout=0", "--set=model.decoder.dropout=0"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def single_process_run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run in one process."""
    run = tmp_path_factory.mktemp("single") / "run"
    options = arguments(data, run, "transformer", "recurrent", **TRAINING)
    run_command(command(*options, *_extra_options(data)))
    return run


def _extra_options(data: Path) -> list[str]:
    """Return options for training without dropout and with guided attention, whose loss is shared
    too.
    """
    return [f"--alignments={data / 'train.align'}", *NO_DROPOUT]


def assert_close_weights(run: Path, other: Path) -> None:
    """Compare all weights but those of which softmax is independent: the bias of keys has gradients
    of rounding alone.

    Adam scales these up to its learning rate.
    """
    actual, expected = (
        load_file(folder / "model.safetensors") for folder in (run, other)
    )
    assert actual.keys() == expected.keys()
    for name in expected:
        if not name.endswith("key.bias"):
            torch.testing.assert_close(
                actual[name], expected[name], rtol=1e-4, atol=1e-5
            )


@pytest.mark.slow
@pytest.mark.parametrize("sharded", [False, True])
def test_two_processes_equal_one(
    data: Path, single_process_run: Path, tmp_path: Path, sharded: bool
) -> None:
    run = tmp_path / "run"
    options = arguments(
        data, run, "transformer", "recurrent", **TRAINING, sharded=sharded
    )
    stderr = run_command(torchrun(2, *options, *_extra_options(data)))
    assert stderr.count("training ended after 12 updates") == 1, "one process reports"
    assert ("weights split over them" in stderr) == sharded
    for actual, expected in zip(
        train_losses(run), train_losses(single_process_run), strict=True
    ):
        assert actual == pytest.approx(expected, rel=1e-5)
    guided = [
        [line["guided"] for line in read(r / "journal.jsonl") if "guided" in line]
        for r in (run, single_process_run)
    ]
    assert guided[0] == pytest.approx(guided[1], rel=1e-4)
    assert len(guided[0]) == 4
    assert_close_weights(run, single_process_run)


@posix
@pytest.mark.slow
def test_a_run_completes_after_a_process_was_killed(data: Path, tmp_path: Path) -> None:
    uninterrupted = tmp_path / "uninterrupted"
    killed = tmp_path / "killed"
    training = {**TRAINING, "updates": 150, "validate_every": 50}
    run_command(
        torchrun(
            2, *arguments(data, uninterrupted, "transformer", "transformer", **training)
        )
    )
    options = arguments(
        data, killed, "transformer", "transformer", **training, checkpoint_minutes=0
    )
    process = subprocess.Popen(
        torchrun(2, *options, restarts=2), stderr=subprocess.PIPE, text=True
    )

    def is_resumable() -> bool:
        assert process.poll() is None, "the run ended before a process could be killed"
        return has_checkpoint(killed)

    wait_until(is_resumable, "the first checkpoint is written", 600)
    os.kill(workers(process.pid)[-1], signal.SIGKILL)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr[-3000:]
    assert "resuming from update" in stderr
    assert_same_weights(killed, uninterrupted)


def test_collectives_of_a_single_process_return_its_values() -> None:
    world = World()
    assert world.is_main
    assert world.all_reduce_sum(1.0, 2.0) == [1.0, 2.0]
    assert world.all_reduce_max(3.0) == [3.0]
    assert world.broadcast(4.0) == [4.0]
    world.barrier()
    with join_processes("cpu") as (joined, device):
        assert (joined, device) == (world, "cpu")
