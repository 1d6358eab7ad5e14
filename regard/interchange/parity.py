"""Parity of a converted model with the original: the difference of numbers, and of translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.common.counting import counted
from regard.common.errors import ExportError
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import EOS
from regard.model_folder import ModelFolder
from regard.runtime.engine import DecodeRequest, decode_requests
from regard.search import SearchSettings, Task

TOKENS = "tokenisation"
GREEDY = "greedy search"
BEAM = "beam search"


@dataclass(frozen=True)
class Parity:
    """Agreement of a converted model with the original on real sentences."""

    sentences: int
    source: str
    """Origin of the sentences: a file, or the sample."""
    measure: str
    """The numbers compared, such as "largest difference of logits"."""
    difference: float
    mismatches: Mapping[str, int]
    """The number of sentences for which the two disagree, by what they do: tokenisation, greedy
    search …
    """

    def agreement(self, name: str) -> float:
        """Return the share of sentences for which the two agree."""
        return 1 - self.mismatches[name] / self.sentences

    @property
    def summary(self) -> str:
        """The agreement, in words for those who do not know the measures."""
        different = max(self.mismatches.values())
        sentences = counted(self.sentences, "sentence")
        return f"translates like the model ({different:,} of {sentences} otherwise)"

    def __str__(self) -> str:
        counts = ", ".join(
            f"{count} by {name}" for name, count in self.mismatches.items()
        )
        sentences = f"{counted(self.sentences, 'sentence')} of {self.source}"
        return f"{sentences}: {self.measure} {self.difference:.2g}; different: {counts}"


def check_new(folder: Path) -> None:
    """Raise ExportError if a folder to be written holds something already."""
    if folder.exists() and any(folder.iterdir()):
        raise ExportError(
            f"{folder}: there is something already; choose a new folder, or remove this one"
        )


def encode(model: ModelFolder, sentences: Sequence[str]) -> list[list[int]]:
    """Return the token ids of sentences, with the end of sentence."""
    return [[*model.tokenizer.source.encode(text), EOS] for text in sentences]


def best_targets(
    model: ModelFolder,
    sources: Sequence[Sequence[int]],
    settings: SearchSettings,
    tokenizer: Tokenizer | None = None,
) -> list[tuple[int, ...]]:
    """Return the best target of each source (ids with end of sentence), found with PyTorch.

    If a tokenizer is given, the rules for its byte tokens and copy tokens apply.
    """
    tasks = [
        Task(n, settings.max_steps(len(ids), model.model.max_target))
        for n, ids in enumerate(sources)
    ]
    if tokenizer is not None:
        target = tokenizer.target
        tasks = [
            replace(
                task,
                byte_tokens=target.byte_tokens,
                copies=tokenizer.copies_of(source),
                copy_tokens=target.copy_tokens,
            )
            for task, source in zip(tasks, sources, strict=True)
        ]
    requests = [
        DecodeRequest(source, task) for source, task in zip(sources, tasks, strict=True)
    ]
    return [
        hypotheses[0].ids
        for hypotheses in decode_requests(model.model, requests, settings)
    ]
