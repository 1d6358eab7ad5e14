"""Prepare the training data of all systems: Multi30k English-German, tokenised with one joint BPE
vocabulary.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from shapes import VOCABULARY

__all__ = [
    "EOS",
    "PAD",
    "MissingData",
    "ordinary_tokens",
    "prepare",
    "read_ids",
    "test_files",
    "training_files",
]

PAD, UNK, BOS, EOS = range(4)
SIDES = ("en", "de")
# Some systems do not start without validation sentences; they are never scored.
VALID_LINES = 100
ROOT = Path(__file__).resolve().parents[1]


class MissingData(Exception):
    """The corpus is not in the expected folder."""


def training_files(folder: str | None) -> list[Path]:
    """Return the two training files in this folder, else in REGARD_DATA, else in shared/data beside
    the checkout.
    """
    return _corpus_files(folder, "train", "29,000 pairs, train.en and train.de")


def test_files(folder: str | None) -> list[Path]:
    """Return the two files of the 1,000 test pairs in the same folder."""
    return _corpus_files(
        folder,
        "test_2016_flickr",
        "its test pairs of 2016, test_2016_flickr.en and test_2016_flickr.de",
    )


def _corpus_files(folder: str | None, name: str, description: str) -> list[Path]:
    root = Path(
        folder or os.environ.get("REGARD_DATA") or ROOT.parent / "shared" / "data"
    )
    files = [
        root.expanduser().resolve() / "multi30k" / f"{name}.{side}" for side in SIDES
    ]
    absent = [str(file) for file in files if not file.is_file()]
    if absent:
        raise MissingData(
            f"{' and '.join(absent)} not found: put Multi30k ({description}) there, "
            "or name the folder that holds multi30k/ with --data, DATA= or REGARD_DATA"
        )
    return files


def prepare(files: list[Path], folder: Path) -> Path:
    """Write the vocabulary and the tokenised sentences to this folder, unless it has them from the
    same files.
    """
    stamp = folder / "made-from.json"
    made_from = json.dumps(
        {"tokens": VOCABULARY, **{f.name: _hash(f) for f in files}}, indent=1
    )
    if stamp.is_file() and stamp.read_text() == made_from:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    processor = _train_vocabulary(files, folder / "bpe")
    ordinary = [processor.id_to_piece(i) for i in range(EOS + 1, len(processor))]
    _write_lines(folder / "tokens.txt", ordinary)
    for file, side in zip(files, SIDES, strict=True):
        # Python's splitlines would also split at rarer separators; a line of a corpus ends at a
        # newline only.
        lines = file.read_text("utf-8").removesuffix("\n").split("\n")
        tokenised = [" ".join(line) for line in processor.encode(lines, out_type=str)]
        _write_lines(folder / f"train.{side}", tokenised)
        _write_lines(folder / f"valid.{side}", tokenised[:VALID_LINES])
    stamp.write_text(made_from)
    return folder


def ordinary_tokens(folder: Path) -> list[str]:
    """Return the vocabulary without its special tokens, most frequent first."""
    return _read_lines(folder / "tokens.txt")


def read_ids(folder: Path) -> tuple[list[list[int]], list[list[int]]]:
    """Return source and target sentences as token ids, each ending with EOS."""
    ids = {token: EOS + 1 + rank for rank, token in enumerate(ordinary_tokens(folder))}
    source, target = (
        [
            [*(ids.get(token, UNK) for token in line.split()), EOS]
            for line in _read_lines(folder / f"train.{side}")
        ]
        for side in SIDES
    )
    return source, target


def _train_vocabulary(files: list[Path], prefix: Path):
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=[str(file) for file in files],
        model_prefix=str(prefix),
        vocab_size=VOCABULARY,
        model_type="bpe",
        character_coverage=1.0,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _read_lines(file: Path) -> list[str]:
    return file.read_text("utf-8").removesuffix("\n").split("\n")


def _write_lines(file: Path, lines: list[str]) -> None:
    file.write_text("\n".join(lines) + "\n", "utf-8")
