"""A run that is killed at any instant and resumed ends with the weights of an uninterrupted one,
bit for bit.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers.system_marks import posix
from runs import (
    arguments,
    assert_same_weights,
    command,
    corpus,
    run_command,
    train_losses,
)

from regard.models import DECODERS, ENCODERS
from regard.training.journal import read

pytestmark = pytest.mark.slow

KINDS = [
    [kind.model_fields["kind"].default for kind in kinds]
    for kinds in (ENCODERS, DECODERS)
]
PAIRS = list(itertools.product(*KINDS))
TRAINING = {"updates": 200, "validate_every": 100, "log_every": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("data"))


@posix
@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(
    data: Path, tmp_path: Path, encoder: str, decoder: str
) -> None:
    if encoder == "timm":
        pytest.importorskip("timm", reason="the extra `vision` is not installed")
    kills = 20 if (encoder, decoder) == PAIRS[0] else 1
    uninterrupted = tmp_path / "uninterrupted"
    killed_run = tmp_path / "killed"
    run_command(command(*arguments(data, uninterrupted, encoder, decoder, **TRAINING)))
    times = [line["time"] for line in read(uninterrupted / "journal.jsonl")]
    length = times[-1] - times[0]
    generator = random.Random(encoder + decoder)
    # A checkpoint after every update, so that most kills interrupt the writing of one.
    options = arguments(
        data, killed_run, encoder, decoder, **TRAINING, checkpoint_minutes=0
    )
    killed = 0
    for _ in range(2 * kills):
        if killed == kills:
            break
        killed += _kill(
            _start_or_resume(options, killed_run),
            killed_run,
            generator,
            length / (2 * kills),
        )

    assert killed == kills, "the run ended before it could be killed often enough"

    run_command(_start_or_resume(options, killed_run))

    assert_same_weights(killed_run, uninterrupted)

    assert train_losses(killed_run) == train_losses(uninterrupted)


def _start_or_resume(options: list[str], run: Path) -> list[str]:
    """Return the command line that starts the run, or resumes it if it exists."""
    return (
        command("train", "--out", str(run), "--resume")
        if (run / "train.toml").exists()
        else command(*options)
    )


def _kill(
    command_line: list[str], run: Path, generator: random.Random, span: float
) -> bool:
    """Kill a run at a random time, mostly during training; return whether it was still running."""
    journal = run / "journal.jsonl"
    before = journal.stat().st_size if journal.exists() else 0
    process = subprocess.Popen(command_line, stderr=subprocess.DEVNULL)
    training = generator.random() < 0.8
    if training:
        while (
            process.poll() is None
            and (journal.stat().st_size if journal.exists() else 0) <= before
        ):
            time.sleep(0.01)
    time.sleep(generator.uniform(0, span if training else 3))
    if process.poll() is not None:
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return True
