"""Small models, trained by the command itself, once until the sources change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cached import FolderCache
from command import CAPTIONER, RECURRENT, TRANSFORMER, Command, sets
from made import train, write_images, write_sentences


@pytest.fixture
def regard(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Return the command, run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Command(capfd)


@pytest.fixture(scope="session")
def data(cached: FolderCache) -> Path:
    """Return a folder of Korean and English sentences for training, validation and test."""
    return cached.in_process("data", write_sentences)


@pytest.fixture(scope="session")
def corpus(data: Path) -> list[str]:
    """Return the options that name the training and validation files."""
    return [
        *("--source", str(data / "train.ko"), "--target", str(data / "train.en")),
        *("--valid-source", str(data / "valid.ko"), "--valid-target", str(data / "valid.en")),
    ]


@pytest.fixture(scope="session")
def transformer(corpus: list[str], trained: Callable[..., Path]) -> Path:
    """Train a Transformer and return its run folder."""
    return trained("transformer", *corpus, *sets(TRANSFORMER))


@pytest.fixture(scope="session")
def recurrent(corpus: list[str], trained: Callable[..., Path]) -> Path:
    """Train a recurrent network with attention and return its run folder."""
    return trained("recurrent", *corpus, "--preset", "rnn-bahdanau", *sets(RECURRENT))


@pytest.fixture(params=["transformer", pytest.param("recurrent", marks=pytest.mark.slow)])
def model(request: pytest.FixtureRequest) -> Path:
    """Return the run folder of each of the two models, of the second in the slow tests."""
    folder: Path = request.getfixturevalue(request.param)
    return folder


@pytest.fixture(scope="session")
def marian(corpus: list[str], trained: Callable[..., Path]) -> Path:
    """Train a small Marian model and return its run folder."""
    return trained("marian", *corpus, "--preset", "marian", *sets(TRANSFORMER))


@pytest.fixture(scope="session")
def image_folder(cached: FolderCache) -> Path:
    """Return a folder of plain images in four colours, with captions that name the colours."""
    return cached.in_process("images", write_images)


@pytest.fixture(scope="session")
def caption_options(image_folder: Path) -> list[str]:
    """Return the options that name the images and captions."""
    files = {"images": "images", "captions": "captions.tsv", "valid-captions": "valid.tsv"}
    return [
        part for option, name in files.items() for part in (f"--{option}", str(image_folder / name))
    ]


@pytest.fixture(scope="session")
def captioner(caption_options: list[str], trained: Callable[..., Path]) -> Path:
    """Train a model that captions images and return its run folder."""
    return trained("captioner", *caption_options, *sets(CAPTIONER))


@pytest.fixture(scope="session")
def trained(cached: FolderCache, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that trains a model once for all workers and returns a copy of its run
    folder.
    """

    def trained(name: str, *options: str) -> Path:
        length = sets(
            ["training.updates=120", "training.validate_every=120", "search.score_threshold=-1000"]
        )
        run = cached.in_process(name, train, *options, *length) / "run"
        return shutil.copytree(run, tmp_path_factory.mktemp(name) / "run")

    return trained
