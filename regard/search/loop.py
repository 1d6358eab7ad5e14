"""The decoding loop, and the protocol of the models that it decodes with.

Plain and continuous batching share the step `Decoding.step`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch

from regard.common.shapes import Array, Int, Tensor
from regard.models import Batch
from regard.search.beams import Beams, Finished, StepCandidates, StepResult
from regard.search.logits_processors import Rule, SuppressTokens
from regard.search.settings import SearchSettings
from regard.search.task import Hypothesis, Task

OnStep = Callable[[Beams, object, StepResult], None]
"""Observer of a search, called after each step.

Its arguments are the beams before the step, the model's features, and the result.
"""


class DecodingModel(Protocol):
    """The methods of a model that decoding needs; `Model` and `Ensemble` have them.

    Sources, states and features are opaque to the search; sources and states have `select(rows)`
    and `join(other)`.
    """

    @property
    def device(self) -> torch.device: ...
    @property
    def max_target(self) -> int | None: ...
    def encode(self, batch: Batch) -> Any: ...
    def begin(self, source: Any) -> object: ...
    def step(
        self, tokens: Int[Tensor, "N T"], state: Any, source: Any
    ) -> tuple[object, object]: ...
    def project(self, features: Any) -> Tensor: ...
    def top_tokens(
        self, features: Any, k: int, suppressed: Sequence[int] = ()
    ) -> tuple[Tensor, Tensor, Tensor]: ...


@dataclass(frozen=True)
class Decoding:
    """Sentences that are being decoded: their beams, and the model's state and source for these."""

    beams: Beams
    state: Any
    source: Any

    @classmethod
    def begin(
        cls,
        model: DecodingModel,
        source: object,
        tasks: Sequence[Task],
        settings: SearchSettings,
        rules: Sequence[Rule],
    ) -> Decoding:
        """Begin decoding before the first token; row b of the source belongs to task b."""
        beams = Beams.initial(tasks, settings, rules)
        state = _select(model.begin(source), beams.initial_rows, model.device)
        return cls(beams, state, source)

    def __len__(self) -> int:
        """Number of open sentences."""
        return len(self.beams)

    def step(
        self, model: DecodingModel, on_step: OnStep | None = None
    ) -> tuple[Decoding, list[Finished]]:
        """Decode one more token of every row.

        Returns the sentences that are still open, and those that have ended.
        """
        tokens = torch.from_numpy(self.beams.tokens).to(model.device).unsqueeze(1)
        features, state = model.step(tokens, self.state, self.source)
        result = self.beams.advance(_candidates(model, features, self.beams))
        if on_step is not None:
            on_step(self.beams, features, result)
        if not len(result.beams):
            return replace(self, beams=result.beams), result.finished
        state = _select(state, result.parent_rows, model.device)
        source = _select(self.source, result.kept_sentences, model.device)
        return Decoding(result.beams, state, source), result.finished

    def select(self, sentences: Sequence[int], model: DecodingModel) -> Decoding:
        """Keep the sentences with these indices, and drop the others."""
        kept = np.array(sentences, np.int64)
        state = _select(self.state, self.beams.rows_of(kept), model.device)
        source = _select(self.source, kept, model.device)
        return Decoding(self.beams.select(kept), state, source)

    def join(self, other: Decoding) -> Decoding:
        """Merge sentences that were begun separately.

        Both must have made their first step, so that they have the same number of beams.
        """
        return Decoding(
            self.beams.join(other.beams),
            self.state.join(other.state),
            self.source.join(other.source),
        )


def search(
    model: DecodingModel,
    source: object,
    source_lengths: Sequence[int],
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
) -> list[list[Hypothesis]]:
    """Search for the best targets of encoded sentences of these lengths.

    Returns the hypotheses of each sentence, best first.
    """
    tasks = [
        Task(id, settings.max_steps(length, model.max_target))
        for id, length in enumerate(source_lengths)
    ]
    return decode(model, source, tasks, settings, rules)


@torch.inference_mode()
def decode(
    model: DecodingModel,
    source: object,
    tasks: Sequence[Task],
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
    on_step: OnStep | None = None,
) -> list[list[Hypothesis]]:
    """Decode tasks in one batch until all have ended; return 1 to `beam` hypotheses of each.

    Hypotheses are sorted best first. Row b of the source belongs to task b. `on_step` observes all
    steps.
    """
    decoding = Decoding.begin(model, source, tasks, settings, rules)
    results: dict[int, list[Hypothesis]] = {}
    while len(decoding):
        decoding, finished = decoding.step(model, on_step)
        results.update((task.id, hypotheses) for task, hypotheses in finished)
    return [results[task.id] for task in tasks]


def _candidates(model: DecodingModel, features: object, beams: Beams) -> StepCandidates:
    """Ask the model for as many of its likeliest tokens as the beams need, or for all tokens."""
    if beams.k_needed is None:
        logits = model.project(features)[:, -1]
        return StepCandidates(logits.float().log_softmax(-1).cpu().numpy())
    top = model.top_tokens(features, beams.k_needed, beams.suppressed)
    return StepCandidates(*(tensor.cpu().numpy() for tensor in top))


def _select(value: Any, rows: Array | None, device: torch.device) -> object:
    """Select rows of a state, or sentences of a source; None leaves it unchanged."""
    return value if rows is None else value.select(torch.from_numpy(rows).to(device))
