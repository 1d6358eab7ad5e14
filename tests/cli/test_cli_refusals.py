"""Commands that are refused: refusals.txt has each with its exit status and all causes."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from pathlib import Path

import pytest
from command import Command, text_of
from helpers.image_folders import noise
from helpers.system_marks import posix

TABLE = Path(__file__).with_name("refusals.txt")
DATA = '[data]\nsource = "ko"\ntarget = "en"\n'
ROWS = """{"text": "나는"}
나는
{"txt": "나는"}
{"text": 3, "terms": "bread"}
{"text": "나는", "trems": []}
"""
TEXTS = {
    "lines": "나는 집에 간다\n나는 빵을 먹고 있었다\n",
    "lines.txt": "",
    "long": "나는 " * 600 + "\n",
    "long.jsonl": '{"text": "나는 집에 간다 나는"}\n{"text": "나는", "terms": ["'
    + "I " * 30
    + '"]}\n',
    "a.part": "나는\n",
    "nothing": "\ufeff",
    "nothing.html": "",
    "nothing.toml": "",
    "spaces": "\n\n",
    "blank": "나는 집에 간다\n\n",
    "one": "one\n",
    "nul": "a\n\nb\0c\n",
    "links": "0-0 1:1\n\n",
    "cyrillic": "Я ем хлеб\nМы идём домой\n" * 20,
    "english": "I eat bread\nWe go home\n" * 20,
    "captions.tsv": "one.png\ta thing\n",
    "rows.jsonl": ROWS,
    "pairs.jsonl": '{"source": "x"}\nno\n',
    "page.html": "<p>나는</p>\n",
    "latin.html": '<meta charset="iso-8859-1">é',
    "a.sub": "1\n",
    "a.csv": "a,b\n",
    "open.toml": "[data\n",
    "unknown.toml": f"{DATA}[trainning]\n",
    "marked.toml": f"\ufeff{DATA}[training]\nupdates=0\n",
    "number.toml": f"training=3\n{DATA}",
    "preset.toml": f"preset=3\n{DATA}",
    "part.toml": f'preset = "rnn-bahdanau"\n{DATA}[model.decoder]\nsize = 0\n',
    "project/README.md": "mine",
}
BYTES = {
    "latin": b"a\nb \xff\xfe\n",
    "latin.txt": b"\xff\n",
    "bad.html": b"<p>\xe4</p>",
    "returns": b"a\rb\r",
    "wide": "나는\n".encode("utf-16"),
    "a.docx": b"PK\x03\x04\0\n",
    "zipped": gzip.compress(b"a\n", mtime=0),
    "half.gz": gzip.compress(b"a\n", mtime=0)[:-4],
    "pairs.tsv.gz": b"\x1f\x8b",
}
FOLDERS = ("empty", "project", "theirs", "folder.svg")


def refusals() -> list[tuple[int, str, list[str]]]:
    """Return exit status, command and causes of each entry of the table."""
    entries = re.findall(r"^(\d) (.*)\n((?: .*\n)+)", text_of(TABLE), re.MULTILINE)
    return [
        (int(status), command, [cause.strip() for cause in causes.splitlines()])
        for status, command, causes in entries
    ]


@pytest.fixture(scope="module")
def given(
    transformer: Path,
    captioner: Path,
    other: Path,
    data: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Write the files that the commands name, and link to the models."""
    path = tmp_path_factory.mktemp("given")
    for name in FOLDERS:
        (path / name).mkdir()
    for name, text in TEXTS.items():
        (path / name).write_text(text, encoding="utf-8", newline="")
    for name, content in BYTES.items():
        (path / name).write_bytes(content)
    for name in ("ko", "en", "align"):
        shutil.copy(data / f"train.{name}", path / name)
    noise().save(path / "one.png")
    (path / "model").symlink_to(transformer)
    (path / "captioner").symlink_to(captioner)
    (path / "recurrent").symlink_to(other)
    (path / "link").symlink_to("lines")
    return path


@posix
@pytest.mark.parametrize(("status", "command", "causes"), refusals())
def test_a_command_is_refused_for_all_causes(
    regard: Command,
    given: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    command: str,
    causes: list[str],
) -> None:
    monkeypatch.setattr(
        "os.access", lambda path, mode: mode != os.W_OK or str(path) != "theirs"
    )
    monkeypatch.chdir(given)
    assert regard.fails(command, status=status, because=causes).out == ""
