"""The likeliest piece at every step."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.data.tokenizer import BOS, EOS
from regard.models import Source
from regard.search.hypothesis import Hypothesis, Verbs
from regard.search.rules import Forbid, LengthPenalty, Rule, end_where_due
from regard.shapes import Int, Tensor

__all__ = ["greedy"]


@torch.inference_mode()
def greedy(
    verbs: Verbs,
    source: Source,
    longest: Int[Tensor, " B"],
    penalty: LengthPenalty,
    rules: Sequence[Rule] = (Forbid(),),
) -> list[Hypothesis]:
    """One hypothesis a sentence, of at most `longest` pieces with end of sentence; finished sentences leave."""
    B = len(longest)
    history = torch.full((B, 1), BOS, device=longest.device)
    state, sentences = verbs.begin(source), torch.arange(B, device=longest.device)
    totals = torch.zeros(B, device=longest.device)
    results: list[Hypothesis | None] = [None] * B
    while len(sentences):
        features, state = verbs.step(history[:, -1:], state, source)
        likely = verbs.project(features)[:, -1].float().log_softmax(-1)  # (N, V)
        choice = likely
        for rule in rules:
            choice = rule(choice, history)
        chosen = end_where_due(choice, history.shape[1] >= longest).argmax(-1, keepdim=True)
        totals = totals + likely.gather(1, chosen)[:, 0]
        history = torch.cat([history, chosen], 1)
        ended = chosen[:, 0] == EOS
        if not bool(ended.any()):
            continue
        length = history.shape[1] - 1
        for row in ended.nonzero()[:, 0].tolist():
            total = float(totals[row])
            ids = tuple(history[row, 1:-1].tolist())
            results[int(sentences[row])] = Hypothesis(ids, total, total / penalty(length))
        going = (~ended).nonzero()[:, 0]
        history, totals, sentences, longest = (x[going] for x in (history, totals, sentences, longest))
        state, source = state.select(going), source.select(going)
    return [hypothesis for hypothesis in results if hypothesis is not None]
