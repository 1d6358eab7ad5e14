"""Data-parallel training: several processes have the updates, loss and weights of one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from runs import arguments, command, corpus, finished, last_losses, torchrun, weights_of
from safetensors.torch import load_file

from regard.training.distributed import World, join_processes
from regard.training.journal import read

BEHAVIOUR = {"updates": 12, "validate_every": 6, "log_every": 3, "precision": "float32"}
NO_DROPOUT = {"model.encoder.dropout": 0, "model.decoder.dropout": 0}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in one process."""
    run = tmp_path_factory.mktemp("alone") / "run"
    finished(command(*arguments(data, run, "transformer", "recurrent", **BEHAVIOUR), *_more(data)))
    return run


def _more(data: Path) -> list[str]:
    """No dropout, and guided attention, whose loss is shared too."""
    return [f"--alignments={data / 'train.align'}", *(f"--set={key}={value}" for key, value in NO_DROPOUT.items())]


@pytest.mark.parametrize("sharded", [False, True])
def test_two_processes_equal_one(data: Path, alone: Path, tmp_path: Path, sharded: bool) -> None:
    run = tmp_path / "run"
    options = arguments(data, run, "transformer", "recurrent", **BEHAVIOUR, sharded=sharded)
    stderr = finished(torchrun(2, *options, *_more(data)))
    assert stderr.count("training ended after 12 updates") == 1, "one process reports"
    assert ("weights split over them" in stderr) == sharded
    for ours, theirs in zip(last_losses(run), last_losses(alone), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    guided = [[line["guided"] for line in read(r / "journal.jsonl") if "guided" in line] for r in (run, alone)]
    assert guided[0] == pytest.approx(guided[1], rel=1e-4)
    assert len(guided[0]) == 4
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (run, alone))
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)


def test_layers_that_one_process_leaves_out(data: Path, tmp_path: Path) -> None:
    """Each micro-batch drops other layers, and each process has one micro-batch: gradients are summed all the same."""
    runs = [tmp_path / "one", tmp_path / "two"]
    more = [*_more(data), "--set=model.encoder.layers=3", "--set=model.encoder.layer_dropout=0.5"]
    options = [arguments(data, run, "transformer", "recurrent", **BEHAVIOUR, sharded=run is runs[1]) for run in runs]
    finished(command(*options[0], *more))
    finished(torchrun(2, *options[1], *more))
    for ours, theirs in zip(*map(last_losses, runs), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    ours, theirs = (load_file(run / "model.safetensors") for run in runs)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)


def test_a_run_becomes_sharded_and_unsharded_again(data: Path, alone: Path, tmp_path: Path) -> None:
    run, more = tmp_path / "run", {**BEHAVIOUR, "updates": 4}
    finished(command(*arguments(data, run, "transformer", "recurrent", **more), *_more(data)))
    split = ["train", "--out", str(run), "--resume", "--set=training.updates=8", "--set=training.sharded=true"]
    assert "resuming from update 4" in finished(torchrun(2, *split))
    stderr = finished(
        command("train", "--out", str(run), "--resume", "--set=training.updates=12")
    )  # alone, still asked to
    assert "resuming from update 8" in stderr
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (run, alone))
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)


def test_layers_are_gathered_one_at_a_time(data: Path, tmp_path: Path) -> None:
    """R-Drop computes each layer twice before the backward pass; scheduled sampling once more, without a gradient."""
    more = {"updates": 6, "validate_every": 3, "log_every": 3, "precision": "float32"}
    more |= {"rdrop": 1.0, "scheduled_sampling": 0.5, "scheduled_sampling_ramp": 1}
    runs = [tmp_path / "one", tmp_path / "two"]
    finished(command(*arguments(data, runs[0], "transformer", "transformer", **more), *_more(data)))
    layers = arguments(data, runs[1], "transformer", "transformer", **more, sharded="layers")
    finished(torchrun(2, *layers, *_more(data)))
    for ours, theirs in zip(*map(last_losses, runs), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    ours, theirs = (load_file(folder / "model.safetensors") for folder in runs)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_process_dies_and_the_run_completes(data: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    behaviour = {**BEHAVIOUR, "updates": 150, "validate_every": 50}
    finished(torchrun(2, *arguments(data, whole, "transformer", "transformer", **behaviour)))
    options = arguments(data, killed, "transformer", "transformer", **behaviour, checkpoint_minutes=0)
    process = subprocess.Popen(torchrun(2, *options, restarts=2), stderr=subprocess.PIPE, text=True)
    while not any(line["event"] == "train" for line in read(killed / "journal.jsonl")):
        assert process.poll() is None, "it ended before a process could be killed"
        time.sleep(0.05)
    os.kill(_workers(process.pid)[-1], signal.SIGKILL)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr[-3000:]
    assert "resuming from update" in stderr
    ours, theirs = weights_of(killed), weights_of(whole)
    for name in theirs:
        for tensor in theirs[name]:
            assert torch.equal(ours[name][tensor], theirs[name][tensor]), f"{name}: {tensor}"


def _workers(torchrun: int) -> list[int]:
    """The ids of the processes that torchrun started."""
    done = subprocess.run(["pgrep", "-P", str(torchrun)], capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def test_more_processes_than_batches_are_refused(data: Path, tmp_path: Path) -> None:
    options = arguments(data, tmp_path / "run", "transformer", "transformer", **BEHAVIOUR)
    done = subprocess.run(torchrun(3, *options), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    assert "3 processes cannot share 2 micro-batches an update; set batching.micro_batches to 3" in done.stderr


def test_a_refused_run_is_not_resumed_by_a_restart(data: Path, alone: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(alone, run)
    before = (run / "journal.jsonl").read_bytes()
    options = arguments(data, run, "transformer", "transformer", **BEHAVIOUR)
    done = subprocess.run(torchrun(2, *options, restarts=1), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    assert done.stderr.count("there is a run already; add --resume to continue it") == 2, "at each start"
    assert "internal error" not in done.stderr
    assert (run / "journal.jsonl").read_bytes() == before


def test_a_single_process_has_everything() -> None:
    world = World()
    assert world.is_main
    assert list(world.share("abc")) == [0, 1, 2]
    assert (world.all_reduce_sum(1.0, 2.0), world.all_reduce_max(3.0), world.broadcast(4.0)) == (
        [1.0, 2.0],
        [3.0],
        [4.0],
    )
    world.barrier()
    with join_processes("cpu") as (joined, device):
        assert (joined, device) == (world, "cpu")


def test_each_process_has_its_share() -> None:
    shares = [list(World(rank, 3).share(range(7))) for rank in range(3)]
    assert shares == [[0, 3, 6], [1, 4], [2, 5]]
