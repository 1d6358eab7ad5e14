"""Data-parallel training: several processes have the same updates, loss and weights as one.

`test_worlds.py` says the same of threads in place of processes, in every way to train, and is not
slow; `test_two_machines.py` kills processes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from runs import arguments, command, corpus, run_command, torchrun
from safetensors.torch import load_file

from regard.training.distributed import World, join_processes
from regard.training.journal import read

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("data"))


def _options(data: Path, run: Path, sharded: bool) -> list[str]:
    """Return options for training without dropout and with guided attention, whose loss is shared
    too.
    """
    training = {"updates": 12, "validate_every": 6, "log_every": 3}
    options = arguments(
        data, run, "transformer", "recurrent", **training, sharded=sharded
    )
    options += ["--set=model.encoder.dropout=0", "--set=model.decoder.dropout=0"]
    options += ["--set=training.precision=float32"]
    return [*options, f"--alignments={data / 'train.align'}"]


@pytest.mark.slow
@pytest.mark.parametrize("sharded", [False, True])
def test_two_processes_equal_one(data: Path, tmp_path: Path, sharded: bool) -> None:
    one = tmp_path / "one"
    two = tmp_path / "two"
    run_command(command(*_options(data, one, False)))
    stderr = run_command(torchrun(2, *_options(data, two, sharded)))

    assert stderr.count("training ended after 12 updates") == 1, "one process reports"
    assert ("weights split over them" in stderr) == sharded

    events, others = (
        [line for line in read(run / "journal.jsonl") if line["event"] == "train"]
        for run in (two, one)
    )

    assert len(others) == 4

    for event, other in zip(events, others, strict=True):
        for name in ("loss", "gradient_norm", "guided"):
            assert event[name] == pytest.approx(other[name], rel=1e-4)

    actual = load_file(two / "model.safetensors")
    expected = load_file(one / "model.safetensors")

    assert actual.keys() == expected.keys()

    for name in expected:
        # Gradients of the bias of keys are rounding, which Adam scales to its learning rate.
        if not name.endswith("key.bias"):
            torch.testing.assert_close(
                actual[name], expected[name], rtol=1e-4, atol=1e-5
            )


def test_collectives_of_a_single_process_return_its_values() -> None:
    world = World()

    assert world.is_main
    assert world.all_reduce_sum(1.0, 2.0) == [1.0, 2.0]
    assert world.all_reduce_max(3.0) == [3.0]
    assert world.broadcast(4.0) == [4.0]

    world.barrier()
    with join_processes("cpu") as (joined, device):
        assert (joined, device) == (world, "cpu")
