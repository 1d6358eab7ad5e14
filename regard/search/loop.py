"""The decoding loop: the protocol of a decodable model, and the step that plain and continuous
batching share.
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

OnStep = Callable[[Beams, Any, StepResult], None]
"""Observer of a search: called after each step with the beams before it, the model's features, and
the result.
"""


class DecodingModel(Protocol):
    """All that decoding needs of a model: a `Model` or an `Ensemble`.

    Sources, states and features are opaque to the search; sources and states have `select(rows)`
    and `join(other)`.
    """

    @property
    def device(self) -> torch.device: ...
    @property
    def max_target(self) -> int | None: ...
    def encode(self, batch: Batch) -> Any: ...
    def begin(self, source: Any) -> Any: ...
    def step(
        self, tokens: Int[Tensor, "N T"], state: Any, source: Any
    ) -> tuple[Any, Any]: ...
    def project(self, features: Any) -> Tensor: ...
    def top_tokens(
        self, features: Any, k: int, suppressed: Sequence[int] = ()
    ) -> tuple[Tensor, Tensor, Tensor]: ...


@dataclass(frozen=True)
class Decoding:
    """Sentences in the middle of decoding: their beams, and the model's state and source, which
    follow the beams.
    """

    beams: Beams
    state: Any
    source: Any

    @classmethod
    def begin(
        cls,
        model: DecodingModel,
        source: Any,
        tasks: Sequence[Task],
        settings: SearchSettings,
        rules: Sequence[Rule],
    ) -> Decoding:
        """Begin decoding before the first token; row b of the source is that of task b."""
        beams = Beams.initial(tasks, settings, rules)
        return cls(
            beams,
            _select(model.begin(source), beams.initial_rows, model.device),
            source,
        )

    def __len__(self) -> int:
        """Number of open sentences."""
        return len(self.beams)

    def step(
        self, model: DecodingModel, on_step: OnStep | None = None
    ) -> tuple[Decoding, list[Finished]]:
        """Decode one more token of every row; return the rows that are still open, and the
        sentences that are done.
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
        """Keep some sentences, by index, and drop the others."""
        kept = np.array(sentences, np.int64)
        state = _select(self.state, self.beams.rows_of(kept), model.device)
        return Decoding(
            self.beams.select(kept), state, _select(self.source, kept, model.device)
        )

    def join(self, other: Decoding) -> Decoding:
        """Merge sentences that were begun apart; both have made their first step, so that they have
        as many beams.
        """
        return Decoding(
            self.beams.join(other.beams),
            self.state.join(other.state),
            self.source.join(other.source),
        )


def search(
    model: DecodingModel,
    source: Any,
    source_lengths: Sequence[int],
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
) -> list[list[Hypothesis]]:
    """Search for the best targets of encoded sentences of these lengths; return the hypotheses of
    each, best first.
    """
    tasks = [
        Task(id, settings.max_steps(length, model.max_target))
        for id, length in enumerate(source_lengths)
    ]
    return decode(model, source, tasks, settings, rules)


@torch.inference_mode()
def decode(
    model: DecodingModel,
    source: Any,
    tasks: Sequence[Task],
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
    on_step: OnStep | None = None,
) -> list[list[Hypothesis]]:
    """Decode tasks together until all are done; return the hypotheses of each, 1 to `beam` of them,
    best first.

    Row b of the source is that of task b. `on_step` observes every step.
    """
    decoding = Decoding.begin(model, source, tasks, settings, rules)
    results: dict[int, list[Hypothesis]] = {}
    while len(decoding):
        decoding, finished = decoding.step(model, on_step)
        results |= {task.id: hypotheses for task, hypotheses in finished}
    return [results[task.id] for task in tasks]


def _candidates(model: DecodingModel, features: Any, beams: Beams) -> StepCandidates:
    """Ask the model for as many likeliest tokens as the beams need, or for whole distributions."""
    if beams.k_needed is None:
        return StepCandidates(
            model.project(features)[:, -1].float().log_softmax(-1).cpu().numpy()
        )
    top = model.top_tokens(features, beams.k_needed, beams.suppressed)
    return StepCandidates(*(tensor.cpu().numpy() for tensor in top))


def _select(value: Any, rows: Array | None, device: torch.device) -> Any:
    """Select rows of a state or sentences of a source; None: all, as they are."""
    return value if rows is None else value.select(torch.from_numpy(rows).to(device))
