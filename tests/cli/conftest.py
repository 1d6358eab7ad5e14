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
    """The command, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Command(capfd)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Korean and English: train, valid and test."""
    folder = tmp_path_factory.mktemp("data")
    sizes = {"train": 300, "valid": 10, "test": 12, "recombination": 0, "length": 0}
    korean_english(sizes=sizes, short=1.0).write(folder, "ko", "en")
    return folder


@pytest.fixture(scope="session")
def corpus(data: Path) -> list[str]:
    """The options that name the training and validation files."""
    return [
        *("--source", str(data / "train.ko"), "--target", str(data / "train.en")),
        *("--valid-source", str(data / "valid.ko"), "--valid-target", str(data / "valid.en")),
    ]


@pytest.fixture(scope="session")
def transformer(corpus: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of a Transformer."""
    return _trained(tmp_path_factory.mktemp("transformer") / "run", *corpus, *sets(TRANSFORMER))


@pytest.fixture(scope="session")
def recurrent(corpus: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of a recurrent network with attention."""
    return _trained(tmp_path_factory.mktemp("rnn") / "run", *corpus, "--preset", "rnn-bahdanau", *sets(RECURRENT))


@pytest.fixture(params=["transformer", "recurrent"])
def model(request: pytest.FixtureRequest) -> Path:
    """Each of the run folders."""
    folder: Path = request.getfixturevalue(request.param)
    return folder


@pytest.fixture(scope="session")
def marian(corpus: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of a small Marian model."""
    return _trained(tmp_path_factory.mktemp("marian") / "run", *corpus, "--preset", "marian", *sets(TRANSFORMER))


@pytest.fixture(scope="session")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of plain pictures in four colours, with captions that name them."""
    return folder(tmp_path_factory.mktemp("album"), count=24)


@pytest.fixture(scope="session")
def shown(album: Path) -> list[str]:
    """The options that name its pictures and captions."""
    files = {"images": "images", "captions": "captions.tsv", "valid-captions": "valid.tsv"}
    return [part for option, name in files.items() for part in (f"--{option}", str(album / name))]


@pytest.fixture(scope="session")
def captioner(shown: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of a model that captions pictures."""
    return _trained(tmp_path_factory.mktemp("captioner") / "run", *shown, *sets(CAPTIONER))


def _trained(folder: Path, *options: str) -> Path:
    length = sets(["training.updates=120", "training.validate_every=120"])
    with pytest.raises(SystemExit) as ended, as_the_shell_does():
        main(["train", *options, *length, "--out", str(folder), "--threads", "1", "--quiet"])
    assert ended.value.code == 0
    return folder
