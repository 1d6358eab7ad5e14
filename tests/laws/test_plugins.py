"""The laws of registered models, kept by models with a plug-in of each kind: score, normaliser,
positions, encoder and decoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from helpers.forgotten_plugins import forgotten_plugins
from torch import nn

import regard
from laws import test_attention_recording as recording
from laws import test_batching as batching
from laws import test_padding as padding
from laws import test_reported_scores as reported
from laws import test_search_laws as search
from laws import test_step_by_step as stepping
from laws.models import fitted
from regard.attention import Attention, AttentionPositions
from regard.common.plugins import import_named
from regard.layers.embedding import Embedding, OutputProjection
from regard.models import Decoder, ModelSettings, PartSettings, Source, State

EXAMPLES = Path(__file__).parents[2] / "examples"
LAWS = [
    stepping.test_step_by_step_equals_all_at_once_for_any_split,
    stepping.test_a_state_can_be_stepped_again_with_the_same_result,
    stepping.test_a_state_follows_its_beams,
    stepping.test_gradients_step_by_step_equal_those_of_all_at_once,
    batching.test_teacher_forcing_alone_equals_any_batch_padding_and_order,
    partial(batching.test_sentences_join_and_leave_in_any_order, beams=3),
    padding.test_masked_encoder_outputs_change_nothing_even_if_they_are_nan,
    padding.test_padding_gets_no_gradient_and_every_source_does,
    recording.test_watching_changes_no_output_to_the_bit,
    recording.test_readings_step_by_step_equal_those_of_all_at_once,
    partial(search.test_beam_one_equals_greedy, rules="both"),
    partial(
        search.test_a_beam_as_wide_as_the_space_equals_exhaustive_search, alpha=0.6
    ),
    partial(
        reported.test_a_beam_is_the_same_alone_and_in_a_batch_with_true_scores, width=4
    ),
]
TRANSFORMER = {
    "kind": "transformer",
    "layers": 1,
    "size": 16,
    "heads": 2,
    "feedforward": 24,
    "dropout": 0.0,
}
RECURRENT: dict[str, Any] = {
    "kind": "recurrent",
    "size": 16,
    "embedding": 16,
    "dropout": 0.0,
}
SIDES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "score": (RECURRENT, {**RECURRENT, "score": "coverage"}),
    "normaliser": ({**TRANSFORMER, "normaliser": "sparsemax"}, TRANSFORMER),
    "positions": (
        {**TRANSFORMER, "positions": "nearness"},
        {**TRANSFORMER, "positions": "nearness"},
    ),
    "encoder": ({**RECURRENT, "kind": "mingru", "size": 8}, RECURRENT),
    "decoder": (RECURRENT, {"kind": "averaging"}),
}


class Nearness(AttentionPositions):
    """A bias by the distance that each head has learnt."""

    has_bias = True

    def __init__(self, heads: int, size: int) -> None:
        super().__init__(heads, size)
        self.rate = nn.Parameter(torch.ones(heads))

    def bias(self, queries: torch.Tensor, entries: torch.Tensor) -> torch.Tensor:
        distances = (queries[:, :, None] - entries[:, None]).abs()
        return self.rate[:, None, None] * distances[:, None].sqrt()


class AveragingSettings(PartSettings):
    """Settings of the decoder."""

    kind: Literal["averaging"] = "averaging"
    size: int = 16
    layers: int = 1
    embedding: int = 16


class AveragingDecoder(Decoder):
    """Attention with a decaying sum of the embeddings of the target as its query."""

    def __init__(self, settings: AveragingSettings, vocabulary: int, source: Any):
        super().__init__()
        size = settings.size
        self.embedding = Embedding(vocabulary, size, scale_embedding=False)
        self.cross_attention = Attention("cross", size, source.size, size)
        self.output = OutputProjection(vocabulary, size)

    def prepare(self, encoded: Any) -> Source:
        outputs = encoded.outputs
        memory = self.cross_attention.prepare(outputs, outputs, encoded.keep)
        return Source((memory,), encoded.summary, encoded.grid)

    def begin(self, source: Source) -> State:
        rows = len(source.summary)
        hidden = source.summary.new_zeros(rows, self.embedding.weight.shape[1])
        return State(torch.zeros(rows, dtype=torch.long), {"hidden": hidden}, {})

    def step(
        self, tokens: torch.Tensor, state: State, source: Source
    ) -> tuple[torch.Tensor, State]:
        hidden = state.tensors["hidden"]
        queries = []
        for embedded in self.embedding(tokens).unbind(1):
            hidden = torch.tanh(hidden / 2 + embedded)
            queries.append(hidden)
        query = torch.stack(queries, 1)
        features = query + self.cross_attention(query, source.memories[0])
        position = state.position + tokens.shape[1]
        return features, State(position, {"hidden": hidden}, {})


@pytest.fixture(autouse=True)
def _plugins() -> Iterator[None]:
    with forgotten_plugins():
        names = ("coverage", "sparsemax", "mingru")
        import_named(str(EXAMPLES / f"{name}.py") for name in names)
        regard.register_positions("nearness")(Nearness)
        regard.register_decoder("averaging", AveragingSettings)(AveragingDecoder)
        yield


@pytest.mark.parametrize("part", SIDES)
@pytest.mark.parametrize(
    "law", LAWS, ids=lambda law: getattr(law, "func", law).__name__
)
def test_a_plugin_keeps_the_law(law: Any, part: str) -> None:
    encoder, decoder = SIDES[part]
    values = {"encoder": encoder, "decoder": decoder, "share": "none"}
    parsed = ModelSettings.parse(values, "a law")
    sides = fitted(parsed.encoder, parsed.decoder)
    settings = ModelSettings(encoder=sides[0], decoder=sides[1], share="none")

    assert settings.plugins
    law(settings=settings)
