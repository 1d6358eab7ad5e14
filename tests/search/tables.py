"""Decoding models that take the logits of each next token from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.models import Batch, Source, State, top_tokens
from regard.search import Task

__all__ = ["Table", "random_table", "source", "tasks_of"]


@dataclass(frozen=True)
class Table:
    """Logits by sentence (the number in its source), by target position, and by the previous
    token.
    """

    logits: Tensor  # (B, T, V, V)
    max_target: int | None = None

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def encode(
        self,
        batch: Batch,
    ) -> Source:
        """Take the first token of each source as the number of its sentence."""
        return Source((), batch.data[:, :1, None].float())

    def begin(
        self,
        source: Source,
    ) -> State:
        rows = source.summary.shape[0]
        return State(torch.zeros(rows, dtype=torch.int64), {}, {})

    def step(
        self,
        tokens: Tensor,
        state: State,
        source: Source,
    ) -> tuple[Tensor, State]:
        B = source.summary.shape[0]
        N = tokens.shape[0]

        assert N % B == 0, "every sentence has the same number of rows"

        sentences = source.summary[:, 0, 0].long().repeat_interleave(N // B)[:, None]
        positions = state.position[:, None] + torch.arange(tokens.shape[1])
        positions = positions.clamp_max(self.logits.shape[1] - 1)
        features = self.logits[sentences, positions, tokens]
        return features, State(state.position + tokens.shape[1], {}, {})

    def project(
        self,
        features: Tensor,
    ) -> Tensor:
        return features

    def top_tokens(
        self,
        features: Tensor,
        k: int,
        suppressed: Sequence[int] = (),
    ) -> tuple[Tensor, Tensor, Tensor]:
        return top_tokens(features[:, -1], k, suppressed)


def source(sentences: int) -> Source:
    return Source((), torch.arange(sentences).float().view(-1, 1, 1))


def tasks_of(sentences: int, max_steps: int) -> list[Task]:
    """Return a task without constraints for each sentence."""
    return [Task(number, max_steps) for number in range(sentences)]


def random_table(
    sentences: int,
    tokens: int,
    max_length: int = 8,
    end: float = 0.0,
    seed: int = 0,
) -> Table:
    """Draw random logits for each sentence; `end` is added to those of end of sentence."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(sentences, max_length, tokens, tokens, generator=generator)
    logits[..., 3] += end
    return Table(logits)
