"""The data every system is trained on: Multi30k English-German, cut into the pieces of one joint BPE vocabulary."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from shapes import VOCABULARY

__all__ = ["EOS", "PAD", "MissingData", "pieces", "prepare", "read_ids", "test_files", "training_files"]

PAD, UNK, BOS, EOS = range(4)
SIDES = ("en", "de")
VALID_LINES = 100  # some systems will not start without validation sentences; they are never looked at
ROOT = Path(__file__).resolve().parents[1]


class MissingData(Exception):
    """The corpus is not where it was looked for."""


def training_files(given: str | None) -> list[Path]:
    """The two training files below the given folder, else REGARD_DATA, else shared/data beside the checkout."""
    return _found(given, "train", "29,000 pairs, train.en and train.de")


def test_files(given: str | None) -> list[Path]:
    """The two files of the 1,000 pairs that are translated, in the same folder."""
    return _found(given, "test_2016_flickr", "its test pairs of 2016, test_2016_flickr.en and test_2016_flickr.de")


def _found(given: str | None, name: str, what: str) -> list[Path]:
    folder = Path(given or os.environ.get("REGARD_DATA") or ROOT.parent / "shared" / "data")
    files = [folder.expanduser().resolve() / "multi30k" / f"{name}.{side}" for side in SIDES]
    absent = [str(file) for file in files if not file.is_file()]
    if absent:
        raise MissingData(
            f"{' and '.join(absent)} not found: put Multi30k ({what}) there, "
            "or name the folder that holds multi30k/ with --data, DATA= or REGARD_DATA"
        )
    return files


def prepare(files: list[Path], folder: Path) -> Path:
    """Write the vocabulary and the sentences as pieces into this folder, unless they are there from the same files."""
    stamp = folder / "made-from.json"
    made_from = json.dumps({"vocabulary": VOCABULARY, **{f.name: _hash(f) for f in files}}, indent=1)
    if stamp.is_file() and stamp.read_text() == made_from:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    processor = _train_vocabulary(files, folder / "bpe")
    ordinary = [processor.id_to_piece(i) for i in range(EOS + 1, len(processor))]
    _write_lines(folder / "pieces.txt", ordinary)
    for file, side in zip(files, SIDES, strict=True):
        # Python's splitlines would also split at rarer separators; a line of a corpus ends at a newline only.
        lines = file.read_text("utf-8").removesuffix("\n").split("\n")
        cut = [" ".join(line) for line in processor.encode(lines, out_type=str)]
        _write_lines(folder / f"train.{side}", cut)
        _write_lines(folder / f"valid.{side}", cut[:VALID_LINES])
    stamp.write_text(made_from)
    return folder


def pieces(folder: Path) -> list[str]:
    """The vocabulary without its special pieces, most frequent first."""
    return _read_lines(folder / "pieces.txt")


def read_ids(folder: Path) -> tuple[list[list[int]], list[list[int]]]:
    """Source and target sentences as ids, each ended by EOS."""
    ids = {piece: EOS + 1 + place for place, piece in enumerate(pieces(folder))}
    source, target = (
        [[*(ids.get(piece, UNK) for piece in line.split()), EOS] for line in _read_lines(folder / f"train.{side}")]
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
