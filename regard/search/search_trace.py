"""A search of one sentence written down step by step: what was open, what could come next, what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch

from regard.data.vocabulary import EOS
from regard.models import Source, top_tokens
from regard.search.beams import Beams, StepResult
from regard.search.hypothesis import DecodingModel, Hypothesis, SearchSettings, Task
from regard.search.loop import decode
from regard.shapes import Tensor

__all__ = ["Candidate", "Fate", "SearchStep", "trace_search"]

Fate = Literal["kept", "ended", "pruned"]
Written = tuple[int, ...]


@dataclass(frozen=True)
class Candidate:
    """A piece that could come next after one of the open beginnings."""

    beam: int  # which of them
    piece: int
    likely: float  # log-probability of the piece
    total: float  # of the whole beginning with it
    fate: Fate


@dataclass(frozen=True)
class SearchStep:
    """One step of the search of a sentence: its open beginnings, best first, and what could come after each."""

    written: tuple[Written, ...]
    candidates: tuple[Candidate, ...]


@dataclass
class _Recorder:
    verbs: DecodingModel
    width: int  # candidates of each beginning that are looked at
    moments: list[SearchStep] = field(default_factory=list)

    def __call__(self, front: Beams, features: Tensor, moved: StepResult) -> None:
        assert len(front) == 1, "one sentence is recorded at a time"
        open_rows = [row for row in range(front.width) if front.ranks[0, row] > -float("inf")]
        written = [front.prefix_of(row) for row in open_rows]
        fates = _fates(front, moved)
        logits = self.verbs.project(features[:, -1:] if isinstance(features, Tensor) else features)[:, -1]
        likely, pieces, end = top_tokens(logits, self.width, front.suppressed)
        candidates = []
        for beam, row in enumerate(open_rows):
            options = dict(zip(pieces[row].tolist(), likely[row].tolist(), strict=True)) | {EOS: float(end[row])}
            for piece, chance in options.items():
                fate = fates.get((*written[beam], piece), "pruned")
                total = float(front.totals[0, row]) + chance
                candidates.append(Candidate(beam, piece, chance, total, fate))
        self.moments.append(SearchStep(tuple(written), tuple(sorted(candidates, key=lambda each: -each.total))))


def _fates(front: Beams, moved: StepResult) -> dict[Written, Fate]:
    """What is open after the step, and what has ended in it."""
    after, fates = moved.beams, dict[Written, Fate]()
    if len(after):
        rows = (row for row in range(after.width) if after.ranks[0, row] > -float("inf"))
        fates |= {after.prefix_of(row): "kept" for row in rows}
        ended = after.found[0]
    else:
        ended = tuple(moved.finished[0].hypotheses)
    before = set(front.found[0])
    return fates | {(*each.ids, EOS): "ended" for each in ended if each not in before}


@torch.inference_mode()
def trace_search(
    verbs: DecodingModel, source: Source, task: Task, settings: SearchSettings, width: int = 8
) -> tuple[list[Hypothesis], list[SearchStep]]:
    """The hypotheses of one sentence, best first, and how they were found: `width` candidates of each beginning."""
    recorder = _Recorder(verbs, width)
    (found,) = decode(verbs, source, [task], settings, note=recorder)
    return found, recorder.moments
