"""What is wanted of the data of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.batching import BatchingSettings
from regard.data.corpus import CorpusSettings
from regard.data.tokenizer import Tokenizer, TokenizerSettings

__all__ = ["DataRequest", "Inspect", "Log", "silent"]

Log = Callable[[str], None]
Inspect = Callable[[Sequence[str], Sequence[str]], None]


@dataclass(frozen=True)
class DataRequest:
    """Corpora, a vocabulary or how to make one, and batches; `tell` and `look` are explained by `prepare`."""

    data: CorpusSettings
    tokenizer: TokenizerSettings | Tokenizer
    batching: BatchingSettings
    seed: int
    run: Path
    log: Log
    inspect: Inspect


def silent(*_: object) -> None:
    """Tells nobody, and looks at nothing."""
