"""Search trace: the beam search of one sentence, recorded step by step with its candidates."""

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
    """Observer (`OnStep`) of the search of one sentence.

    It records at each step the `width` likeliest candidates of each hypothesis, and all candidates
    that were selected.
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
        top = top_tokens(logits, self.width, beams.suppressed)
        log_probs, tokens, eos_log_probs = (tensor.tolist() for tensor in top)
        candidates = []
        for beam, row in enumerate(open_rows):
            by_token = dict(zip(tokens[row], log_probs[row], strict=True))
            choices = beams.byte_choices.get(row)
            if choices:
                row_log_probs = logits[row].float().log_softmax(-1).tolist()
                choices = sorted(choices, key=lambda token: -row_log_probs[token])
                by_token = {t: row_log_probs[t] for t in choices[: self.width]}
            by_token[EOS] = eos_log_probs[row]
            by_token.update(_forced_token(beams, logits[row]))

            # Copy tokens and terms are selected although other tokens are likelier.
            selected = [
                path[-1]
                for path in fates
                if path[:-1] == prefixes[beam] and path[-1] not in by_token
            ]
            if selected:
                selected_log_probs = logits[row].float().log_softmax(-1)[selected]
                by_token.update(zip(selected, selected_log_probs.tolist(), strict=True))

            for token, log_prob in by_token.items():
                fate = fates.get((*prefixes[beam], token), "pruned")
                total = float(beams.log_probs[0, row]) + log_prob
                candidates.append(Candidate(beam, token, log_prob, total, fate))
        candidates.sort(key=lambda candidate: -candidate.total_log_prob)
        self.steps.append(SearchStep(tuple(prefixes), tuple(candidates)))


def _forced_token(beams: Beams, logits: Tensor) -> dict[int, float]:
    """Return the token that the prefix forces, if any, with its log-probability."""
    (task,) = beams.tasks
    length = int(beams.lengths[0])
    if length >= len(task.prefix):
        return {}
    token = task.prefix[length]
    return {token: float(logits.float().log_softmax(-1)[token])}


def _fates(beams: Beams, result: StepResult) -> dict[Prefix, Fate]:
    """Map each hypothesis that is open after the step, or ended in it, to its fate."""
    after = result.beams
    fates = dict[Prefix, Fate]()
    if len(after):
        for row in range(after.width):
            if after.scores[0, row] > -float("inf"):
                fates[after.prefix_of(row)] = "kept"
        finished = after.hypotheses[0]
    else:
        finished = tuple(result.finished[0].hypotheses)
    finished_before = set(beams.hypotheses[0])
    for hypothesis in finished:
        if hypothesis not in finished_before:
            fates[(*hypothesis.ids, EOS)] = "ended"
    return fates
