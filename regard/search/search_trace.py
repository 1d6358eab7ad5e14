"""Search trace: the beam search of one sentence recorded step by step, with candidates kept, ended
and pruned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.common.shapes import Tensor
from regard.data.vocabulary import EOS
from regard.models import top_tokens
from regard.search.beams import Beams, StepResult
from regard.search.loop import DecodingModel
from regard.search.search_steps import Candidate, Fate, Prefix, SearchStep


@dataclass
class SearchRecorder:
    """Observer of the search of one sentence (`OnStep`): records `width` candidates of each
    hypothesis at each step.
    """

    model: DecodingModel
    width: int = 8
    steps: list[SearchStep] = field(default_factory=list)

    def __call__(self, beams: Beams, features: Any, result: StepResult) -> None:
        assert len(beams) == 1, "one sentence is recorded at a time"
        open_rows = [
            row for row in range(beams.width) if beams.scores[0, row] > -float("inf")
        ]
        prefixes = [beams.prefix_of(row) for row in open_rows]
        fates = _fates(beams, result)
        logits = self.model.project(features)[:, -1]
        log_probs, tokens, eos_log_probs = top_tokens(
            logits, self.width, beams.suppressed
        )
        candidates = []
        for beam, row in enumerate(open_rows):
            by_token = dict(
                zip(tokens[row].tolist(), log_probs[row].tolist(), strict=True)
            )
            if choices := beams.byte_choices.get(row):
                own = logits[row].float().log_softmax(-1).tolist()
                by_token = {
                    token: own[token]
                    for token in sorted(choices, key=lambda i: -own[i])[: self.width]
                }
            more = {EOS: float(eos_log_probs[row]), **_forced(beams, logits[row])}
            kept = [
                path[-1]
                for path in fates
                if path[:-1] == prefixes[beam] and path[-1] not in by_token | more
            ]
            # Copy tokens and terms, which are written where others are likelier.
            if kept:
                more |= zip(
                    kept,
                    logits[row].float().log_softmax(-1)[kept].tolist(),
                    strict=True,
                )
            for token, log_prob in (by_token | more).items():
                fate = fates.get((*prefixes[beam], token), "pruned")
                total = float(beams.log_probs[0, row]) + log_prob
                candidates.append(Candidate(beam, token, log_prob, total, fate))
        ranked = sorted(candidates, key=lambda candidate: -candidate.total_log_prob)
        self.steps.append(SearchStep(tuple(prefixes), tuple(ranked)))


def _forced(beams: Beams, logits: Tensor) -> dict[int, float]:
    """Return the token that the prefix forces, and its log-probability; nothing after the
    prefix.
    """
    (task,), length = beams.tasks, int(beams.lengths[0])
    if length >= len(task.prefix):
        return {}
    return {
        task.prefix[length]: float(logits.float().log_softmax(-1)[task.prefix[length]])
    }


def _fates(beams: Beams, result: StepResult) -> dict[Prefix, Fate]:
    """Map each hypothesis that is open after the step, or ended in it, to its fate."""
    after = result.beams
    fates = dict[Prefix, Fate]()
    if len(after):
        rows = (
            row for row in range(after.width) if after.scores[0, row] > -float("inf")
        )
        fates |= {after.prefix_of(row): "kept" for row in rows}
        ended = after.hypotheses[0]
    else:
        ended = tuple(result.finished[0].hypotheses)
    before = set(beams.hypotheses[0])
    return fates | {
        (*hypothesis.ids, EOS): "ended"
        for hypothesis in ended
        if hypothesis not in before
    }
