"""A front and a model, step by step, until every sentence is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from regard.models import EnsembleState, Source
from regard.search.beams import Beams, StepCandidates, StepResult
from regard.search.hypothesis import DecodingModel, Hypothesis, SearchSettings, Task
from regard.search.rules import Rule, SuppressTokens

__all__ = ["Note", "decode", "search"]

Note = Callable[[Beams, Any, StepResult], None]


def search(
    verbs: DecodingModel,
    source: Source,
    entries: Sequence[int],
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, best first; `entries` says how many pieces each source has."""
    tasks = [Task(name, settings.longest(n, verbs.max_target)) for name, n in enumerate(entries)]
    return decode(verbs, source, tasks, settings, rules)


@torch.inference_mode()
def decode(
    verbs: DecodingModel,
    source: Source | EnsembleState,
    tasks: Sequence[Task],
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
    note: Note | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each task, 1 to `beam` of them, best first; row b of the source is that of task b.

    The names of the tasks differ. `note` is told of each step: the front, what the model said, and what became of it.
    """
    front, state = Beams.open(tasks, settings, rules), verbs.begin(source)
    device, results = verbs.device, dict[int, list[Hypothesis]]()
    if front.initial_rows is not None:
        state = state.select(torch.from_numpy(front.initial_rows).to(device))
    while len(front):
        tokens = torch.from_numpy(front.tokens).to(device).unsqueeze(1)
        features, state = verbs.step(tokens, state, source)
        moved = front.advance(best(verbs, features, front))
        if note is not None:
            note(front, features, moved)
        results |= {task.name: hypotheses for task, hypotheses in moved.finished}
        front = moved.beams
        if moved.rows is not None and len(front):
            state = state.select(torch.from_numpy(moved.rows).to(device))
        if moved.staying is not None and len(front):
            source = source.select(torch.from_numpy(moved.staying).to(device))
    return [results[task.name] for task in tasks]


def best(verbs: DecodingModel, features: Any, front: Beams) -> StepCandidates:
    """What the model says may come next, as much of it as the front wants to know."""
    if front.k_needed is None:
        return StepCandidates(verbs.project(features)[:, -1].float().log_softmax(-1).cpu().numpy())
    return StepCandidates(
        *(some.cpu().numpy() for some in verbs.top_tokens(features, front.k_needed, front.suppressed))
    )
