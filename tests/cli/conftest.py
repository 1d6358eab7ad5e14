"""Small models, trained by the command itself, once until the sources change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command import CAPTIONER, TRANSFORMER, Command, sets
from helpers.cached_folders import FolderCache
from helpers.small_models import folder
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
    files = f"--source {data}/train.ko --target {data}/train.en"
    validation = f"--valid-source {data}/valid.ko --valid-target {data}/valid.en"
    return [*files.split(), *validation.split()]


@pytest.fixture(scope="session")
def transformer(corpus: list[str], trained: Callable[..., Path]) -> Path:
    """Train a Transformer and return its run folder."""
    return trained("transformer", *corpus, *sets(TRANSFORMER))


@pytest.fixture
def run(regard: Command, transformer: Path) -> Path:
    """Copy the Transformer's run folder into the current folder, to change it."""
    return Path(shutil.copytree(transformer, "run"))


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model folder with random weights and recurrent networks."""
    return folder(tmp_path_factory.mktemp("other") / "other", "recurrent", "recurrent")


@pytest.fixture(scope="session")
def image_folder(cached: FolderCache) -> Path:
    """Return a folder of plain images in four colours, with captions that name the colours."""
    return cached.in_process("images", write_images)


@pytest.fixture(scope="session")
def caption_options(image_folder: Path) -> list[str]:
    """Return the options that name the images and captions."""
    images = f"--images {image_folder}/images"
    captions = f"--captions {image_folder}/captions.tsv"
    return f"{images} {captions} --valid-captions {image_folder}/valid.tsv".split()


@pytest.fixture(scope="session")
def captioner(caption_options: list[str], trained: Callable[..., Path]) -> Path:
    """Train a model that captions images and return its run folder."""
    return trained("captioner", *caption_options, *sets(CAPTIONER))


@pytest.fixture(scope="session")
def trained(
    cached: FolderCache, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Return a function that trains a model once for all workers and returns a copy of its run
    folder.
    """

    def trained(name: str, *options: str) -> Path:
        length = sets("training.updates=120 training.validate_every=120")
        threshold = sets("search.score_threshold=-1000")
        run = cached.in_process(name, train, *options, *length, *threshold) / "run"
        return shutil.copytree(run, tmp_path_factory.mktemp(name) / "run")

    return trained
