"""Looking for the best target, of any model that has the verbs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.models import Source
from regard.search.beam import beam
from regard.search.greedy import greedy
from regard.search.hypothesis import Hypothesis, SearchSettings, Verbs
from regard.search.rules import Forbid, LengthPenalty, Rule

__all__ = ["Forbid", "Hypothesis", "LengthPenalty", "Rule", "SearchSettings", "Verbs", "beam", "greedy", "search"]


def search(
    verbs: Verbs, source: Source, entries: Sequence[int], settings: SearchSettings, rules: Sequence[Rule] = (Forbid(),)
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, best first; `entries` says how many pieces each source has."""
    device = source.summary.device
    longest = torch.tensor([settings.longest(n, verbs.limit) for n in entries], device=device)
    penalty = LengthPenalty(settings.length_penalty)
    if settings.beam == 1:
        return [[hypothesis] for hypothesis in greedy(verbs, source, longest, penalty, rules)]
    return beam(verbs, source, longest, settings.beam, penalty, rules)
