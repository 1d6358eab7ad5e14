"""The K best beginnings side by side, for many sentences at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.data.tokenizer import BOS, EOS
from regard.models import Source, State
from regard.search.hypothesis import Hypothesis, Verbs
from regard.search.rules import Forbid, LengthPenalty, Rule, end_where_due
from regard.shapes import Float, Int, Tensor

__all__ = ["beam"]


@torch.inference_mode()
def beam(
    verbs: Verbs,
    source: Source,
    longest: Int[Tensor, " B"],
    width: int,
    penalty: LengthPenalty,
    rules: Sequence[Rule] = (Forbid(),),
) -> list[list[Hypothesis]]:
    """The finished hypotheses of each sentence, best first: 1 to `width`, of at most `longest` pieces each.

    A hypothesis is finished when end of sentence is among the `width` best continuations of its sentence; a sentence
    leaves the batch when it has `width` of them or has reached its longest.
    """
    B = len(longest)
    finished: list[list[Hypothesis]] = [[] for _ in range(B)]
    front = _Front.start(verbs.begin(source), source, longest)
    while len(front.sentences):
        likely, state = front.look(verbs)
        choice = likely
        for rule in rules:
            choice = rule(choice, front.history)
        choice = end_where_due(choice, front.due())
        best = front.continuations(choice, likely, width)
        for row, hypothesis in best.ended(front, penalty):
            finished[int(front.sentences[row])].append(hypothesis)
        counts = torch.tensor([len(finished[i]) for i in front.sentences.tolist()], device=longest.device)
        front = best.follow(front, state, going=(counts < width) & ~front.last() & best.alive())
    return [sorted(some, key=lambda h: -h.score)[:width] for some in finished]


@dataclass(frozen=True)
class _Front:
    """The beginnings that are still open: A sentences, K beams each, row a·K + k."""

    history: Tensor  # (A·K, t) pieces so far, beginning of sentence first
    totals: Tensor  # (A, K) log-probabilities
    ranks: Tensor  # (A, K) the same as the rules would have them, to choose by; −∞ where a beam is empty
    sentences: Tensor  # (A,) which sentences these are
    longest: Tensor  # (A,)
    state: State
    source: Source

    @classmethod
    def start(cls, state: State, source: Source, longest: Tensor) -> _Front:
        B, device = len(longest), longest.device
        history = torch.full((B, 1), BOS, device=device)
        zeros = torch.zeros(B, 1, device=device)
        return cls(history, zeros, zeros, torch.arange(B, device=device), longest, state, source)

    def look(self, verbs: Verbs) -> tuple[Float[Tensor, "N V"], State]:
        """The log-probability of each next piece."""
        features, state = verbs.step(self.history[:, -1:], self.state, self.source)
        return verbs.project(features)[:, -1].float().log_softmax(-1), state

    def last(self) -> Tensor:
        """Which sentences must end with this step."""
        return self.history.shape[1] >= self.longest

    def due(self) -> Tensor:
        return self.last().repeat_interleave(self.totals.shape[1])

    def continuations(self, choice: Tensor, likely: Tensor, width: int) -> _Continuations:
        """The 2·width best next pieces of each sentence: enough for `width` to go on whatever number ends."""
        A, K = self.totals.shape
        V = choice.shape[1]
        ranks, where = (self.ranks.view(-1, 1) + choice).view(A, K * V).topk(min(2 * width, K * V), dim=1)
        beams, pieces = where.div(V, rounding_mode="floor"), where.remainder(V)
        totals = self.totals.gather(1, beams) + likely.view(A, K * V).gather(1, where)
        return _Continuations(totals, ranks, beams, pieces, width)


@dataclass(frozen=True)
class _Continuations:
    """The best next pieces of each sentence, best first."""

    totals: Tensor  # (A, C)
    ranks: Tensor  # (A, C)
    beams: Tensor  # (A, C) which beam each goes on from
    pieces: Tensor  # (A, C)
    width: int

    def ended(self, front: _Front, penalty: LengthPenalty) -> list[tuple[int, Hypothesis]]:
        """The hypotheses that end here, among the `width` best."""
        K, length = front.totals.shape[1], front.history.shape[1]
        ends = (self.pieces == EOS) & (self.ranks != -torch.inf)
        ends[:, self.width :] = False
        found = []
        for row, column in ends.nonzero().tolist():
            ids = front.history[row * K + int(self.beams[row, column]), 1:].tolist()
            total = float(self.totals[row, column])
            found.append((row, Hypothesis(tuple(ids), total, total / penalty(length))))
        return found

    def alive(self) -> Tensor:
        """Which sentences have a continuation that does not end."""
        return ((self.pieces != EOS) & (self.ranks != -torch.inf)).any(1)

    def follow(self, front: _Front, state: State, going: Tensor) -> _Front:
        """The front after this step: of the sentences that go on, the `width` best continuations that did not end."""
        rows = going.nonzero()[:, 0]
        ranks = self.ranks[rows].masked_fill(self.pieces[rows] == EOS, -torch.inf)
        ranks, where = ranks.topk(min(self.width, ranks.shape[1]), dim=1)
        totals, beams, pieces = (some[rows].gather(1, where) for some in (self.totals, self.beams, self.pieces))
        before = (rows[:, None] * front.totals.shape[1] + beams).view(-1)
        history = torch.cat([front.history.index_select(0, before), pieces.view(-1, 1)], 1)
        source = front.source if len(rows) == len(going) else front.source.select(rows)
        return _Front(history, totals, ranks, front.sentences[rows], front.longest[rows], state.select(before), source)
