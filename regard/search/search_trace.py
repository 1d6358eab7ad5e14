"""Search trace: the beam search of one sentence, recorded step by step with its candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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

    def __call__(self, beams: Beams, features: object, result: StepResult) -> None:
        assert len(beams) == 1, "one sentence is recorded at a time"
        open_rows = [
            row for row in range(beams.width) if beams.scores[0, row] > -float("inf")
        ]
        prefixes = [beams.prefix_of(row) for row in open_rows]
        fates = _fates(beams, result)
        logits = self.model.project(features)[:, -1]
        top = top_tokens(logits, self.width, beams.suppressed)
        top_log_probs, tokens, eos_log_probs = (tensor.tolist() for tensor in top)
        all_log_probs = logits.float().log_softmax(-1)

        candidates = []
        for beam, row in enumerate(open_rows):
            log_probs = all_log_probs[row].tolist()
            if choices := beams.byte_choices.get(row):
                by_token = _likeliest(choices, log_probs, self.width)
            else:
                by_token = dict(zip(tokens[row], top_log_probs[row], strict=True))
            by_token[EOS] = eos_log_probs[row]
            # Forced tokens, copy tokens and terms are selected although others are likelier.
            for token in _forced_token(beams):
                by_token[token] = log_probs[token]
            for token in _last_tokens(fates, prefixes[beam]):
                by_token.setdefault(token, log_probs[token])

            for token, log_prob in by_token.items():
                fate = fates.get((*prefixes[beam], token), "pruned")
                total = float(beams.log_probs[0, row]) + log_prob
                candidates.append(Candidate(beam, token, log_prob, total, fate))
        candidates.sort(key=lambda candidate: -candidate.total_log_prob)
        self.steps.append(SearchStep(tuple(prefixes), tuple(candidates)))


def _likeliest(
    choices: Iterable[int], log_probs: Sequence[float], width: int
) -> dict[int, float]:
    """Return the `width` likeliest of some tokens with their log-probabilities."""
    ranked = sorted(choices, key=lambda token: -log_probs[token])
    return {token: log_probs[token] for token in ranked[:width]}


def _forced_token(beams: Beams) -> tuple[int, ...]:
    """Return the token that the prefix forces, if any."""
    (task,) = beams.tasks
    length = int(beams.lengths[0])
    return task.prefix[length : length + 1]


def _last_tokens(fates: Mapping[Prefix, Fate], prefix: Prefix) -> list[int]:
    """Return the last tokens of the hypotheses that extend `prefix` by one token."""
    return [tokens[-1] for tokens in fates if tokens[:-1] == prefix]


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
