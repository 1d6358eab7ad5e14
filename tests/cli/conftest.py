"""Small models, trained by the command itself, once per session."""

from __future__ import annotations

from pathlib import Path

import pytest
from albums import folder
from command import CAPTIONER, RECURRENT, TRANSFORMER, Command, as_the_shell_does, sets

from regard.cli import main
from regard.samples import korean_english


@pytest.fixture
def regard(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the command, run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Command(capfd)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write Korean and English sentences for training, validation and test."""
    folder = tmp_path_factory.mktemp("data")
    sizes = {"train": 300, "valid": 10, "test": 12, "recombination": 0, "length": 0}
    korean_english(sizes=sizes, short=1.0).write(folder, "ko", "en")
    return folder


@pytest.fixture(scope="session")
def corpus(data: Path) -> list[str]:
    """Return the options that name the training and validation files."""
    return [
        *("--source", str(data / "train.ko"), "--target", str(data / "train.en")),
        *("--valid-source", str(data / "valid.ko"), "--valid-target", str(data / "valid.en")),
    ]


@pytest.fixture(scope="session")
def transformer(corpus: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a Transformer and return its run folder."""
    return _trained(tmp_path_factory.mktemp("transformer") / "run", *corpus, *sets(TRANSFORMER))


@pytest.fixture(scope="session")
def recurrent(corpus: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a recurrent network with attention and return its run folder."""
    return _trained(tmp_path_factory.mktemp("rnn") / "run", *corpus, "--preset", "rnn-bahdanau", *sets(RECURRENT))


@pytest.fixture(params=["transformer", "recurrent"])
def model(request: pytest.FixtureRequest) -> Path:
    """Return the run folder of each of the two models."""
    folder: Path = request.getfixturevalue(request.param)
    return folder


@pytest.fixture(scope="session")
def marian(corpus: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a small Marian model and return its run folder."""
    return _trained(tmp_path_factory.mktemp("marian") / "run", *corpus, "--preset", "marian", *sets(TRANSFORMER))


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write plain images in four colours, with captions that name the colours."""
    return folder(tmp_path_factory.mktemp("images"), count=24)


@pytest.fixture(scope="session")
def caption_options(image_folder: Path) -> list[str]:
    """Return the options that name the images and captions."""
    files = {"images": "images", "captions": "captions.tsv", "valid-captions": "valid.tsv"}
    return [part for option, name in files.items() for part in (f"--{option}", str(image_folder / name))]


@pytest.fixture(scope="session")
def captioner(caption_options: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a model that captions images and return its run folder."""
    return _trained(tmp_path_factory.mktemp("captioner") / "run", *caption_options, *sets(CAPTIONER))


def _trained(folder: Path, *options: str) -> Path:
    length = sets(["training.updates=120", "training.validate_every=120"])
    with pytest.raises(SystemExit) as ended, as_the_shell_does():
        main(["train", *options, *length, "--out", str(folder), "--threads", "1", "--quiet"])
    assert ended.value.code == 0
    return folder
