"""Continuous batching over PyTorch: when sentences finish, waiting ones take their rows.

The sentences of a batch may belong to different calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue

import torch

from regard.common.errors import RegardError
from regard.common.stopping import PATIENCE, STOP_EVENT, check_stop
from regard.models import Batch, SourceInput, source_length
from regard.search import (
    Decoding,
    DecodingModel,
    Finished,
    Hypothesis,
    Rule,
    SearchSettings,
    SuppressTokens,
    Task,
)
from regard.search.loop import OnStep

INTERRUPTED = (
    "the decoding ended before its last step, with an interrupt or a fork of the process; begin it "
    "anew"
)


@dataclass(frozen=True)
class DecodeRequest:
    """A source to decode, the token ids of a sentence or the pixels of an image, and the task of
    its target.
    """

    source: SourceInput
    task: Task

    @property
    def source_length(self) -> int:
        """Approximate number of memory entries of the source."""
        return source_length(self.source)

    @property
    def source_ids(self) -> Sequence[int]:
        """Token ids of a source that is a sentence."""
        assert not isinstance(self.source, torch.Tensor), "an image has no token ids"
        return self.source


@dataclass(frozen=True)
class BatchLimits:
    """Limits of a batch: hypotheses (`rows`), and source tokens including padding (`tokens`)."""

    rows: int = 160
    tokens: int = 4096


class DecodeCall:
    """Requests that one caller waits for, with their state and results.

    If `is_streamed`, `events` receives the prefix of the only target after each step; the last
    event of any call is None. `on_step` observes the steps of the only target. A call that
    `is_withdrawn` loses its rows at the next step.
    """

    def __init__(
        self,
        requests: Sequence[DecodeRequest],
        settings: SearchSettings,
        rules: Sequence[Rule] = (SuppressTokens(),),
        is_streamed: bool = False,
        on_step: OnStep | None = None,
    ) -> None:
        assert not is_streamed or settings.beam == 1, (
            "with several beams none is final before all are done"
        )
        self.settings = settings
        self.rules = tuple(rules)
        self.on_step = on_step
        # PyTorch keeps a separate number of threads for each calling thread.
        self.threads = torch.get_num_threads()
        self._stop = STOP_EVENT.get()
        sentences = (
            _Sentence.of(self, index, request) for index, request in enumerate(requests)
        )
        self.waiting = deque(sorted(sentences, key=lambda sentence: -sentence.tokens))
        self.results: list[list[Hypothesis]] = [[] for _ in requests]
        self.remaining = len(requests)
        self.open_rows = 0
        self.turn = 0
        self.events: SimpleQueue[tuple[int, ...] | None] = SimpleQueue()
        self.is_withdrawn = False
        self.is_streamed = is_streamed
        self._streamed = 0
        self._error: BaseException | None = None
        if not requests:
            self.events.put(None)

    def follow(self, advance: Callable[[], None]) -> Iterator[tuple[int, ...]]:
        """Yield the streamed prefixes until the call is done; `advance` returns once there is an
        event.

        Raises the error of the call, or Stopped. Closing the generator withdraws the call. No lock
        is taken for this, since a generator may be freed in any thread at any time.
        """
        try:
            advance()
            while (prefix := self._next_event()) is not None:
                yield prefix
                advance()
        finally:
            self.is_withdrawn = True
        if self._error is not None:
            raise self._error

    def check_stop(self) -> None:
        """Raise Stopped if the caller has given up the call."""
        check_stop(self._stop)

    def _next_event(self) -> tuple[int, ...] | None:
        while True:
            self.check_stop()
            with suppress(Empty):
                return self.events.get(timeout=None if self._stop is None else PATIENCE)

    def stream(self, prefix: tuple[int, ...]) -> None:
        """Put the prefix of a streamed target among the events, after shorter ones that are
        missing.
        """
        for length in range(self._streamed + 1, len(prefix) + 1):
            self.events.put(prefix[:length])
        self._streamed = len(prefix)

    def finish(self, sentence: _Sentence, hypotheses: list[Hypothesis]) -> None:
        """Store the result of one request."""
        self.results[sentence.index] = hypotheses
        self.open_rows -= sentence.rows
        self.remaining -= 1
        if self.is_streamed:
            self.stream(hypotheses[0].ids)
            self.events.put(hypotheses[0].ids)
        if not self.remaining:
            self.events.put(None)

    def fail(self, error: BaseException) -> None:
        """End the call with an error, which is raised in the thread of its caller."""
        self._error = error
        self.is_withdrawn = True
        self.events.put(None)


@dataclass(frozen=True, eq=False)
class _Sentence:
    """A request of a call. Its task is a copy, which identifies the sentence among all calls."""

    call: DecodeCall
    index: int
    source: SourceInput
    task: Task
    rows: int
    tokens: int

    @classmethod
    def of(cls, call: DecodeCall, index: int, request: DecodeRequest) -> _Sentence:
        return cls(
            call,
            index,
            request.source,
            replace(request.task),
            call.settings.beam,
            request.source_length,
        )


@dataclass(eq=False)
class _JointDecoding:
    """Calls with the same search, and their open sentences, which are decoded together."""

    calls: list[DecodeCall]
    is_closed: bool  # no further call may join
    decoding: Decoding | None = None
    sentences: dict[Task, _Sentence] = field(default_factory=dict)

    def accepts(self, call: DecodeCall) -> bool:
        """Return whether a call can join: it has the same search and number of threads."""
        first = self.calls[0]
        if (
            self.is_closed
            or call.on_step is not None
            or (call.settings, call.threads) != (first.settings, first.threads)
        ):
            return False
        try:
            return bool(call.rules == first.rules)
        except Exception:  # user-defined rules that cannot be compared
            return False

    def select(self, model: DecodingModel, sentences: Sequence[_Sentence]) -> None:
        """Keep some of the open sentences, and free the rows of the others."""
        kept = {sentence.task: sentence for sentence in sentences}
        if self.decoding is not None and len(kept) < len(self.sentences):
            tasks = self.decoding.beams.tasks
            rows = [index for index, task in enumerate(tasks) if task in kept]
            self.decoding = self.decoding.select(rows, model) if rows else None
        self.sentences = kept

    def advance(
        self,
        decoding: Decoding | None,
        joined: Sequence[_Sentence],
        finished: Sequence[Finished],
    ) -> None:
        """Store the result of a step."""
        self.decoding = decoding or None
        self.sentences |= {sentence.task: sentence for sentence in joined}
        for task, hypotheses in finished:
            sentence = self.sentences.pop(task)
            sentence.call.finish(sentence, hypotheses)
        self.calls = [call for call in self.calls if call.remaining]
        if decoding and any(call.is_streamed for call in self.calls):
            for row, task in enumerate(decoding.beams.tasks):
                call = self.sentences[task].call
                if call.is_streamed:
                    call.stream(decoding.beams.prefix_of(row))


class Scheduler:
    """Scheduler of any number of calls: decodes those with the same search together, others in
    turns.

    The next sentence to begin belongs to the call with the fewest rows. If there is no room for it
    and its call has no rows, the newest sentence of the call with the most rows is preempted, so
    that no call waits for the end of a long one. The limits hold for all calls together. A sentence
    that exceeds them by itself is decoded beside others, one such sentence at a time.

    Any thread may call `add`; only one thread at a time may call `step`.
    """

    def __init__(self, model: DecodingModel, limits: BatchLimits | None = None) -> None:
        self._model = model
        self._limits = limits or BatchLimits()
        self._added = deque[DecodeCall]()
        self._decodings = deque[_JointDecoding]()
        self._turns = count()

    def add(self, call: DecodeCall) -> None:
        """Add a call; its first sentences begin at the next step."""
        self._added.append(call)

    def run(self, call: DecodeCall) -> Iterator[tuple[int, ...]]:
        """Decode a call in this thread; yield its streamed prefixes."""
        self.add(call)
        return call.follow(partial(self._advance, call))

    def _advance(self, call: DecodeCall) -> None:
        while call.events.empty():
            self.step()

    @torch.inference_mode()
    def step(self, sets_threads: bool = False) -> bool:
        """Decode one more token of the sentences whose turn it is; return whether there are any.

        `sets_threads`: let PyTorch use as many threads in this thread as it would use in the
        caller's.
        """
        try:
            joint = self._next()
            if joint is None:
                return False
            if sets_threads and torch.get_num_threads() != joint.calls[0].threads:
                torch.set_num_threads(joint.calls[0].threads)
            self._step(joint)
        except BaseException:  # an interrupt leaves the state of all decodings unknown
            for joint in self._decodings:
                for call in joint.calls:
                    call.fail(RegardError(INTERRUPTED))
            self._decodings.clear()
            raise
        return True

    def _next(self) -> _JointDecoding | None:
        """Drop withdrawn calls, take in new ones, and return the decoding whose turn it is."""
        for joint in tuple(self._decodings):
            if any(call.is_withdrawn for call in joint.calls):
                joint.calls = [call for call in joint.calls if not call.is_withdrawn]
                sentences = [
                    sentence
                    for sentence in joint.sentences.values()
                    if sentence.call in joint.calls
                ]
                joint.select(self._model, sentences)
            if not joint.calls:
                self._decodings.remove(joint)

        while self._added:
            call = self._added.popleft()
            call.turn = next(self._turns)
            for joint in self._decodings:
                if joint.accepts(call):
                    joint.calls.append(call)
                    break
            else:
                self._decodings.append(_JointDecoding([call], call.on_step is not None))

        self._decodings.rotate(-1)
        return self._decodings[0] if self._decodings else None

    def _step(self, joint: _JointDecoding) -> None:
        """Begin the sentences for which there is room, and decode a token of all open ones."""
        beginning = self._admit(joint)
        decoding = joint.decoding
        finished: list[Finished] = []
        try:
            if beginning:
                begun, finished = self._begin(joint.calls[0], beginning)
                if not decoding:
                    decoding = begun
                elif begun:
                    decoding = decoding.join(begun)
            if decoding:
                decoding, ended = decoding.step(self._model, joint.calls[0].on_step)
                finished += ended
        except Exception as error:
            self._attribute(error, joint, beginning)
        else:
            joint.advance(decoding, beginning, finished)

    def _begin(
        self, call: DecodeCall, sentences: Sequence[_Sentence]
    ) -> tuple[Decoding, list[Finished]]:
        """Encode sentences and take their first step.

        After it, each sentence has as many rows as those that are already open.
        """
        sources = [sentence.source for sentence in sentences]
        encoded = self._model.encode(Batch.of(sources, self._model.device))
        tasks = [sentence.task for sentence in sentences]
        decoding = Decoding.begin(
            self._model, encoded, tasks, call.settings, call.rules
        )
        return decoding.step(self._model, call.on_step)

    def _attribute(
        self, error: Exception, joint: _JointDecoding, beginning: Sequence[_Sentence]
    ) -> None:
        """Let the call whose step failed fail.

        If the failed step was shared by several calls, each is decoded separately from now on, so
        that only the call that causes the error fails.
        """
        self._decodings.remove(joint)
        if len(joint.calls) == 1:
            joint.calls[0].fail(error)
            return
        for sentence in reversed(beginning):
            self._postpone(sentence)
        for call in joint.calls:
            separate = _JointDecoding([call], True, joint.decoding, joint.sentences)
            sentences = [
                sentence
                for sentence in joint.sentences.values()
                if sentence.call is call
            ]
            separate.select(self._model, sentences)
            self._decodings.append(separate)

    # --- Admission of waiting sentences

    def _admit(self, joint: _JointDecoding) -> list[_Sentence]:
        """Take the next sentences for which there is room; none if it is the turn of other calls.

        If less than a quarter of the rows is free, a separate first step does not pay off, except
        for a call without any rows.
        """
        admitted = list[_Sentence]()
        calls = [call for other in self._decodings for call in other.calls]
        taken = sum(
            call.open_rows for call in calls if call.settings.beam <= self._limits.rows
        )
        pays_off = self._limits.rows - taken >= self._limits.rows // 4
        if not any(
            call.waiting and (pays_off or not call.open_rows) for call in joint.calls
        ):
            return admitted

        open_sentences = [
            sentence
            for other in self._decodings
            for sentence in other.sentences.values()
        ]
        room = _Room(self._limits, open_sentences)
        while True:
            call = self._neediest(room)
            if call is None or call not in joint.calls:
                break
            if call.open_rows and not pays_off:
                break
            sentence = call.waiting[0]
            if not room.holds(sentence) and (
                call.open_rows or not self._make_room(room, sentence)
            ):
                break
            room.take(call.waiting.popleft())
            call.open_rows += sentence.rows
            call.turn = next(self._turns)
            admitted.append(sentence)
        return admitted

    def _neediest(self, room: _Room) -> DecodeCall | None:
        """Return the waiting call with the fewest rows; in a tie, the least recently served one.

        A call whose large sentence waits for the end of another large one is passed over, so that
        it does not block the others.
        """
        waiting = [
            call for joint in self._decodings for call in joint.calls if call.waiting
        ]
        ready = [
            call
            for call in waiting
            if not (room.has_large and room.is_large(call.waiting[0]))
        ]
        return min(ready, key=lambda call: (call.open_rows, call.turn), default=None)

    def _make_room(self, room: _Room, sentence: _Sentence) -> bool:
        """Preempt the newest sentences of the calls with the most rows until this sentence fits.

        Returns False if it does not fit although every call has at most one open sentence.
        """
        while not room.holds(sentence):
            calls = [call for joint in self._decodings for call in joint.calls]
            largest = max(calls, key=lambda call: call.open_rows)
            if largest.open_rows <= largest.settings.beam:
                return False
            joint = next(joint for joint in self._decodings if largest in joint.calls)
            sentences = list(joint.sentences.values())
            newest = [other for other in sentences if other.call is largest][-1]
            joint.select(
                self._model, [other for other in sentences if other is not newest]
            )
            self._postpone(newest)
            room.free(newest)
        return True

    def _postpone(self, sentence: _Sentence) -> None:
        """Put a sentence back to the head of its call's queue. Decoding it anew gives the same
        result.
        """
        sentence.call.waiting.appendleft(sentence)
        sentence.call.open_rows -= sentence.rows


class _Room:
    """Rows and tokens that the limits leave beside the open sentences.

    A sentence that exceeds the limits by itself is not counted.
    """

    def __init__(self, limits: BatchLimits, sentences: Sequence[_Sentence]) -> None:
        self._limits = limits
        self.rows = limits.rows
        self._tokens = limits.tokens
        self.has_large = False
        for sentence in sentences:
            self.take(sentence)

    def is_large(self, sentence: _Sentence) -> bool:
        """Return whether a sentence is larger than the limits by itself."""
        return (
            sentence.rows > self._limits.rows or sentence.tokens > self._limits.tokens
        )

    def holds(self, sentence: _Sentence) -> bool:
        """Return whether there is room for a sentence."""
        if self.is_large(sentence):
            return not self.has_large
        return sentence.rows <= self.rows and sentence.tokens <= self._tokens

    def take(self, sentence: _Sentence) -> None:
        """Take the room of a sentence."""
        if self.is_large(sentence):
            self.has_large = True
        else:
            self.rows -= sentence.rows
            self._tokens -= sentence.tokens

    def free(self, sentence: _Sentence) -> None:
        """Give the room of a sentence back."""
        if self.is_large(sentence):
            self.has_large = False
        else:
            self.rows += sentence.rows
            self._tokens += sentence.tokens


def decode_requests(
    model: DecodingModel,
    requests: Sequence[DecodeRequest],
    settings: SearchSettings,
    rules: Sequence[Rule] = (SuppressTokens(),),
    limits: BatchLimits | None = None,
) -> list[list[Hypothesis]]:
    """Decode requests by continuous batching; return the hypotheses of each request, best first.

    The results are in the order of the requests. The longest sources are decoded first; the result
    of a sentence does not depend on the others in its batch.
    """
    call = DecodeCall(requests, settings, rules)
    deque(Scheduler(model, limits).run(call), maxlen=0)
    return call.results
