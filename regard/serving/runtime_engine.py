"""Engine of a runtime file: continuous batching by the C library, without PyTorch."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from regard.errors import RegardError, UsageError
from regard.runtime.model import Hypothesis, Line, Options, RuntimeModel
from regard.serving.frames import Message
from regard.serving.replies import Replies, start_thread

ATTENTION = ("none", "cross", "all")
_WAIT = 3600.0
"""Seconds of one wait for results."""
_EOS = 3


class RuntimeEngine:
    """Translates calls together; streams have threads of their own."""

    def __init__(self, path: Path, threads: int, reply: Replies) -> None:
        """Open the file and start its threads. Raises ModelFolderError if it is damaged."""
        self._model, self._threads, self._reply = RuntimeModel(path), threads, reply
        self._queue = self._model.queue(threads)
        self._calls: dict[int, Message] = {}
        self._lock = threading.Lock()
        self._streams = ThreadPoolExecutor(max(1, threads), "stream")
        start_thread(self._return_results)

    def about(self) -> Message:
        """Return kind, card and layers of the model."""
        card = {name: value for name, value in self._model.card.items() if name not in ("model", "tokenizer")}
        layers = [(layer.name, layer.role, layer.heads) for layer in self._model.layers]
        identification = self._model.language_id.decode("utf-8", "replace")
        return {
            "kind": "translation",
            "engine": "runtime",
            "card": card,
            "layers": layers,
            "language_id": identification,
        }

    def submit(self, number: int, call: Message) -> None:
        """Queue the lines of a call, or begin to stream one."""
        if call["call"] not in ("translate", "stream", "explain"):
            raise UsageError("this model translates text; ask a model of images for captions")
        options = self._options(call.get("search", {}), call["call"] == "explain")
        with self._lock:
            self._calls[number] = call
        if call["call"] == "stream":
            self._streams.submit(self._stream, number, call["lines"][0], options)
            return
        try:
            self._queue.submit(number, call["lines"], options)
        except BaseException:
            self._forget(number)
            raise

    def cancel(self, number: int) -> None:
        """Give up a call; a stream ends at its next word."""
        if self._forget(number) is not None:
            self._queue.cancel(number)

    def _forget(self, number: int) -> Message | None:
        with self._lock:
            return self._calls.pop(number, None)

    def _options(self, search: Message, is_explained: bool) -> Options:
        options = self._model.options()
        for name, value in search.items():
            if value is not None:
                setattr(options, name, ATTENTION.index(value) if name == "attention" else value)
        if search.get("beam") is None:
            options.beam = max(options.beam, options.nbest)
        options.alignments, options.threads = int(options.alignments), self._threads
        if is_explained:
            options.attention, options.alignments = 2, int(self._has_attention)
        elif options.alignments and not self._has_attention:
            options.alignments = 0
        return options

    @property
    def _has_attention(self) -> bool:
        return any(layer.role == "cross" for layer in self._model.layers)

    def _return_results(self) -> None:
        while True:
            if (taken := self._queue.take(_WAIT)) is None:
                continue
            number, lines = taken
            if (call := self._forget(number)) is None:
                continue
            if lines is None:
                self._reply.fail(number, RegardError("there is not enough memory for this call; send less text"))
            elif call["call"] == "explain":
                self._reply({"number": number, "explanation": self._explanation(lines[0])})
            else:
                self._reply({"number": number, "lines": [self._line(line) for line in lines]})

    def _stream(self, number: int, line: str, options: Options) -> None:
        try:
            for words in self._model.stream(line, options):
                with self._lock:
                    if number not in self._calls:
                        return
                self._reply({"number": number, "words": words})
            self._reply({"number": number, "lines": []})
        except (RegardError, MemoryError) as problem:
            self._reply.fail(number, problem)
        finally:
            self._forget(number)

    def _line(self, line: Line) -> Message:
        tokens = self._model.tokens
        return {
            "hypotheses": [
                {
                    "text": hypothesis.text,
                    "score": hypothesis.score,
                    "tokens": tokens(hypothesis.ids, True),
                    "alignments": hypothesis.links,
                    "attention": {name: weights.round(5).tolist() for name, weights in hypothesis.weights.items()},
                }
                for hypothesis in line.hypotheses
            ],
            "source_tokens": tokens(line.source, False),
            "warnings": [*line.notes, *_repetitions(line.hypotheses[0])],
        }

    def _explanation(self, line: Line) -> Message:
        """Return a line as the JavaScript module returns it, which the page reads."""
        roles = {layer.name: layer.role for layer in self._model.layers}
        ranked = [self._explained(hypothesis, roles) for hypothesis in line.hypotheses]
        best = ranked[0]
        source = {
            "sourceTokens": self._model.tokens(line.source, False),
            "sourceWords": self._words(line.source, False),
        }
        return {**best, **source, "nbest": ranked, "parts": line.parts, "notes": list(line.notes)}

    def _explained(self, hypothesis: Hypothesis, roles: dict[str, str]) -> Message:
        repetition = next(iter(hypothesis.repetitions), None)
        return {
            "text": hypothesis.text,
            "score": hypothesis.score,
            "tokens": self._model.tokens(hypothesis.ids, True),
            "ids": hypothesis.ids,
            "targetWords": self._words((*hypothesis.ids, _EOS), True),
            "alignments": hypothesis.links,
            "attention": [_attention(name, roles[name], weights) for name, weights in hypothesis.weights.items()],
            "repetition": repetition and {"text": repetition[0], "times": repetition[1]},
        }

    def _words(self, ids: tuple[int, ...], is_target: bool) -> Message:
        indices = self._model.word_indices(ids, is_target) if ids else []
        words: list[list[int]] = [[] for _ in range(max(indices, default=-1) + 1)]
        for token, word in zip(ids, indices, strict=True):
            if word >= 0:
                words[word].append(token)
        return {"texts": [self._model.decode(word, is_target) for word in words], "ofTokens": indices}


def _attention(name: str, role: str, weights: Any) -> Message:
    heads, rows, columns = weights.shape
    values = weights.round(5).ravel().tolist()
    return {"name": name, "role": role, "heads": heads, "rows": rows, "columns": columns, "weights": values}


def _repetitions(hypothesis: Hypothesis) -> list[str]:
    return [
        f"the translation repeats {text!r} {times} times and is probably wrong"
        for text, times in hypothesis.repetitions
    ]
