"""Training files by address, such as s3://bucket/train.ko: read by fsspec, here from its file
system in memory.
"""

from __future__ import annotations

import functools
import gzip
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from helpers.text_table import lines, rows
from safetensors.torch import load_file
from training.runs import corpus

import regard
from regard.cli import main
from regard.common.errors import DataError
from regard.data.text import data_path, read_lines

pytest.importorskip(
    "upath", reason="universal-pathlib is not installed: pip install 'regard[scale]'"
)
# What opens addresses is no pathlib.Path, as annotations say.
pytestmark = pytest.mark.system
SMALL = {"layers": 1, "size": 16, "heads": 2, "feedforward": 32}


@pytest.fixture
def bucket(tmp_path: Path) -> str:
    """Put a small corpus into memory, training files compressed."""
    for path in corpus(tmp_path).glob("*.??"):
        name = path.name
        data = path.read_bytes()
        if path.stem == "train":
            name = f"{name}.gz"
            data = gzip.compress(data, mtime=0)
        data_path(f"memory://bucket/{name}").write_bytes(data)
    return "memory://bucket"


def _train(folder: str, out: Path, ending: str, shards: bool) -> None:
    regard.train(
        out=out,
        source=f"{folder}/train.ko{ending}",
        target=f"{folder}/train.en{ending}",
        valid_source=f"{folder}/valid.ko",
        valid_target=f"{folder}/valid.en",
        settings={
            "model": {
                "encoder": {"kind": "transformer", **SMALL},
                "decoder": {"kind": "transformer", **SMALL},
            },
            "tokenizer.size": 560,
            "batching.tokens": 256,
            "batching.micro_batches": 2,
            "training.updates": 2,
            "training.validate_every": 2,
            "data.shards": shards,
        },
    )


def test_training_from_addresses_is_training_from_files(
    bucket: str, tmp_path: Path
) -> None:
    assert read_lines(f"{bucket}/train.ko.gz") == read_lines(tmp_path / "train.ko")
    _train(bucket, tmp_path / "remote", ".gz", shards=True)
    _train(str(tmp_path), tmp_path / "local", "", shards=False)
    remote = load_file(tmp_path / "remote" / "model.safetensors")
    local = load_file(tmp_path / "local" / "model.safetensors")
    assert all(torch.equal(remote[name], local[name]) for name in local)


def test_lines_come_from_a_web_server_line_by_line(tmp_path: Path) -> None:
    pytest.importorskip(
        "aiohttp", reason="aiohttp is not installed: pip install aiohttp"
    )
    text = "".join(f"line {number}\n" for number in range(1000))
    (tmp_path / "train.ko").write_text(text, encoding="utf-8")
    (tmp_path / "train.ko.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        for name in ("train.ko", "train.ko.gz"):
            assert read_lines(f"{address}/{name}") == text.splitlines()
        with pytest.raises(DataError, match=rf"{address}/absent: no such file"):
            read_lines(f"{address}/absent")
        server.shutdown()


def test_addresses_that_cannot_be_asked_for_are_named_together(tmp_path: Path) -> None:
    pytest.importorskip(
        "aiohttp", reason="aiohttp is not installed: pip install aiohttp"
    )
    long = f"https://{'a' * 70}/train.en"  # longer than the name of a host can be
    with pytest.raises(DataError) as caught:
        regard.train(out=tmp_path / "run", source="hf://[::1]:9/x", target=long)
    source, target = caught.value.causes
    assert re.fullmatch(r"hf://.*: cannot be read \(.*\); check the address", source)
    assert re.fullmatch(
        rf"{long}: cannot be read \(.*label.*\); check the address", target
    )


@pytest.mark.parametrize(
    "command",
    lines("""
        translate http://host/model.regard here
        translate here here --output s3://b/out
        train --out hf://b/out --pairs here
        sample ftp://b/out
        serve file:///here
        export here gs://b/out
        caption here http://host/a.png
    """),
)
def test_addresses_are_no_paths(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = command.split()
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    (address,) = (each for each in arguments if "://" in each)
    address = address.replace("///", "//")
    assert f"regard: {address}: an address, where a path" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("address", "reason"),
    rows("""
        memory://bucket/absent.ko | memory://bucket/absent.ko: no such file
        nothing://bucket/train.ko | addresses of this kind cannot be opened here .*nothing
        reference://bucket/train.ko | wanted one of file, memory, http, .*, got reference
        simplecache::s3://bucket/train.ko | wanted one of .*, got simplecache::s3
        dir://x | wanted one of
        http://[ | cannot be opened here .Invalid
    """),
)
def test_what_cannot_be_opened_is_named(address: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read_lines(address)
