"""Continuous batching over PyTorch: as sentences finish, others take their rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from regard.models import Batch, SourceInput, source_length
from regard.search import Decoding, DecodingModel, Finished, Hypothesis, Rule, SearchSettings, SuppressTokens, Task


@dataclass(frozen=True)
class DecodeRequest:
    """A source to decode, token ids of a sentence or pixels of an image, and the task of its target."""

    source: SourceInput
    task: Task

    @property
    def source_length(self) -> int:
        """About how many memory entries the source has."""
        return source_length(self.source)

    @property
    def source_ids(self) -> Sequence[int]:
        """Token ids of a source that is a sentence."""
        assert not isinstance(self.source, torch.Tensor), "an image has no token ids"
        return self.source


@dataclass(frozen=True)
class BatchLimits:
    """Most that is decoded together: hypotheses (`rows`), and source tokens with their padding (`tokens`)."""

    rows: int = 160
    tokens: int = 4096


@torch.inference_mode()
def decode_requests(
    model: DecodingModel,
    requests: Sequence[DecodeRequest],
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
    limits: BatchLimits | None = None,
) -> list[list[Hypothesis]]:
    """Decode requests by continuous batching; return the hypotheses of each, best first, in their order.

    Task ids are unique. The longest sources go first; no sentence depends on those it is batched with.
    """
    waiting = deque(sorted(requests, key=lambda request: -request.source_length))
    lengths = {request.task.id: request.source_length for request in requests}
    results, limits = dict[int, list[Hypothesis]](), limits or BatchLimits()
    decoding: Decoding | None = None
    while waiting or decoding:
        tasks = decoding.beams.tasks if decoding else ()
        room = BatchLimits(
            limits.rows - len(tasks) * settings.beam, limits.tokens - sum(lengths[task.id] for task in tasks)
        )
        finished: list[Finished] = []
        if joining := _next(waiting, room, settings.beam, not tasks, limits.rows // 4):
            begun, finished = _begin(model, joining, settings, rules)
            decoding = decoding.join(begun) if decoding and begun else decoding or begun
        if decoding:
            decoding, ended = decoding.step(model)
            finished += ended
        results |= {task.id: hypotheses for task, hypotheses in finished}
    return [results[request.task.id] for request in requests]


def stream(
    model: DecodingModel,
    request: DecodeRequest,
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
) -> Iterator[tuple[int, ...]]:
    """Yield the token ids of one target after each step, end of sentence not counted: greedy, or one sample."""
    assert settings.beam == 1, "with several beams none is final before all are done"
    with torch.inference_mode():
        decoding, finished = _begin(model, [request], settings, rules)
    while not finished:
        yield decoding.beams.prefix_of(0)
        with torch.inference_mode():
            decoding, finished = decoding.step(model)
    yield finished[0].hypotheses[0].ids


def _next(
    waiting: deque[DecodeRequest], room: BatchLimits, beam: int, is_idle: bool, least: int
) -> list[DecodeRequest]:
    """Take the next requests that fit into the room; if nothing else is decoded, at least one.

    Less room than `least` rows is not worth a separate first step: nothing is taken until there is more.
    """
    taken, rows, tokens = list[DecodeRequest](), room.rows, room.tokens
    while waiting and (is_idle or room.rows >= least):
        rows, tokens = rows - beam, tokens - waiting[0].source_length
        if min(rows, tokens) < 0 and (taken or not is_idle):
            break
        taken.append(waiting.popleft())
    return taken


def _begin(
    model: DecodingModel, requests: Sequence[DecodeRequest], settings: SearchSettings, rules: Sequence[Rule]
) -> tuple[Decoding, list[Finished]]:
    """Encode requests and make their first step, after which each has as many rows as those already open."""
    source = model.encode(Batch.of([request.source for request in requests], model.device))
    tasks = [request.task for request in requests]
    return Decoding.begin(model, source, tasks, settings, rules).step(model)
