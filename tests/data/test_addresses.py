"""Training files by address, such as s3://bucket/train.ko: read by fsspec, here from its file system in memory."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from training.runs import corpus

import regard
from regard.data.text import data_path, read_lines
from regard.errors import DataError

pytest.importorskip("upath", reason="universal-pathlib is not installed: pip install 'regard[scale]'")
pytestmark = pytest.mark.system  # what opens addresses is no pathlib.Path, as annotations say
SMALL = {"layers": 1, "size": 16, "heads": 2, "feedforward": 32}


@pytest.fixture
def bucket(tmp_path: Path) -> str:
    """Put a small corpus into memory, training files compressed."""
    for path in corpus(tmp_path).glob("*.??"):
        name, data = path.name, path.read_bytes()
        if path.stem == "train":
            name, data = f"{name}.gz", gzip.compress(data)
        data_path(f"memory://bucket/{name}").write_bytes(data)
    return "memory://bucket"


def _train(folder: str, out: Path, ending: str, **settings: Any) -> None:
    regard.train(
        out=out,
        source=f"{folder}/train.ko{ending}",
        target=f"{folder}/train.en{ending}",
        valid_source=f"{folder}/valid.ko",
        valid_target=f"{folder}/valid.en",
        settings={
            "model": {"encoder": {"kind": "transformer", **SMALL}, "decoder": {"kind": "transformer", **SMALL}},
            "tokenizer.size": 560,
            "batching.tokens": 256,
            "batching.micro_batches": 2,
            "training.updates": 4,
            "training.validate_every": 4,
            **settings,
        },
    )


def test_lines_come_from_an_address(bucket: str, tmp_path: Path) -> None:
    assert read_lines(f"{bucket}/train.ko.gz") == read_lines(tmp_path / "train.ko")


@pytest.mark.parametrize("shards", [True, False])
def test_training_from_addresses_is_training_from_files(bucket: str, tmp_path: Path, shards: bool) -> None:
    _train(bucket, tmp_path / "remote", ".gz", **{"data.shards": shards})
    _train(str(tmp_path), tmp_path / "local", "", **{"data.shards": shards})
    remote, local = (load_file(tmp_path / run / "model.safetensors") for run in ("remote", "local"))
    assert all(torch.equal(remote[name], local[name]) for name in local)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("memory://bucket/absent.ko", "memory://bucket/absent.ko: no such file"),
        ("nothing://bucket/train.ko", "addresses of this kind cannot be opened here .*nothing"),
    ],
)
def test_what_cannot_be_opened_is_named(address: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read_lines(address)
