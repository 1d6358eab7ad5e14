"""A front and a model, step by step, until every sentence is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from regard.models import Source, Together
from regard.search.front import Best, Front, Moved
from regard.search.hypothesis import Hypothesis, SearchSettings, Task, Verbs
from regard.search.rules import Forbid, Rule

__all__ = ["Note", "find", "search"]

Note = Callable[[Front, Any, Moved], None]


def search(
    verbs: Verbs, source: Source, entries: Sequence[int], settings: SearchSettings, rules: Sequence[Rule] = (Forbid(),)
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, best first; `entries` says how many pieces each source has."""
    tasks = [Task(name, settings.longest(n, verbs.limit)) for name, n in enumerate(entries)]
    return find(verbs, source, tasks, settings, rules)


@torch.inference_mode()
def find(
    verbs: Verbs,
    source: Source | Together,
    tasks: Sequence[Task],
    settings: SearchSettings,
    rules: Sequence[Rule] = (Forbid(),),
    note: Note | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each task, 1 to `beam` of them, best first; row b of the source is that of task b.

    The names of the tasks differ. `note` is told of each step: the front, what the model said, and what became of it.
    """
    front, state = Front.open(tasks, settings, rules), verbs.begin(source)
    device, results = verbs.device, dict[int, list[Hypothesis]]()
    if front.begins is not None:
        state = state.select(torch.from_numpy(front.begins).to(device))
    while len(front):
        tokens = torch.from_numpy(front.tokens).to(device).unsqueeze(1)
        features, state = verbs.step(tokens, state, source)
        moved = front.advance(best(verbs, features, front))
        if note is not None:
            note(front, features, moved)
        results |= {task.name: hypotheses for task, hypotheses in moved.finished}
        front = moved.front
        if moved.rows is not None and len(front):
            state = state.select(torch.from_numpy(moved.rows).to(device))
        if moved.staying is not None and len(front):
            source = source.select(torch.from_numpy(moved.staying).to(device))
    return [results[task.name] for task in tasks]


def best(verbs: Verbs, features: Any, front: Front) -> Best:
    """What the model says may come next, as much of it as the front wants to know."""
    if front.wanted is None:
        return Best(verbs.project(features)[:, -1].float().log_softmax(-1).cpu().numpy())
    return Best(*(some.cpu().numpy() for some in verbs.best(features, front.wanted, front.never)))
