"""Engine of a runtime file: continuous batching by the C library, without PyTorch."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from regard.common.errors import LineError, RegardError, UsageError
from regard.pipeline.runtime_translator import LibraryDecoder, RuntimeTranslator
from regard.pipeline.translator import TranslationCall
from regard.runtime.model import ROLES, Constraints, Options, RuntimeHypothesis, RuntimeLine
from regard.serving.answer_size import AnswerLimit, Turns
from regard.serving.frames import Message, Replies
from regard.serving.raw_json import RawJson, json_pieces
from regard.serving.replies import WordIndices, text_reply
from regard.serving.runtime_explanation import MOST_NBEST, Explainer, likely_tokens, next_step_options
from regard.serving.service import TextRequest
from regard.text.casing import CaseReader
from regard.text.text_format import TranslatedText, lay_out, stream_text
from regard.text.text_path import Request, Wanted

ATTENTION = ("none", "cross", "all")
_WAIT = 3600.0
"""Seconds of one wait for results."""
_LONG = 10_000
"""Characters from which on texts are laid out in a thread."""
_CALLS = ("translate", "stream", "explain", "continuations")
_PLAIN, _PACKED = 8.0, 8 / 3
"""Bytes of a weight, as a number and as Base64 of 16 bits."""
_GROWTH, _MORE = 1.25, 10
"""Tokens of a translation for each of the source, and on top; few have more."""


@dataclass
class _TextCall:
    """A call that translates texts: its way, what decodes it, what is being decoded, and how its reply is made."""

    way: TranslationCall[list[TranslatedText]]
    words: WordIndices | None
    retries_until: float
    request: Request = field(default_factory=lambda: Request((), ()))

    @property
    def decoder(self) -> LibraryDecoder:
        assert isinstance(self.way.decoder, LibraryDecoder), "it stands on the library"
        return self.way.decoder


class RuntimeEngine:
    """Translates calls together; streams have threads of their own."""

    def __init__(
        self, path: Path, threads: int, most_bytes: int, reply: Replies, languages: Sequence[str] = ()
    ) -> None:
        """Open the file and start its threads. Raises ModelFolderError if it is damaged.

        `languages`: codes of source and target by whose rules capitals are read and written; none: the file's own.
        """
        self._translator = RuntimeTranslator(path, threads)
        self._threads = threads
        self._reply = reply
        self._model = self._translator.model
        if languages:
            self._translator.case_reader = CaseReader(languages, self._translator.case_reader.encode)
        self._queue = self._model.queue(threads)
        heads = Counter[str]()
        for layer in self._model.layers:
            heads[layer.role] += layer.heads
        self._limit = AnswerLimit(most_bytes, heads)
        self._calls: dict[int, Message] = {}
        self._text_calls: dict[int, _TextCall] = {}
        self._turns = Turns(most_bytes, max(1, threads // 2), self._fail)  # other threads are left for short calls
        self._lock = threading.Lock()
        self._streams = ThreadPoolExecutor(max(1, threads), "stream")
        self._layouts = ThreadPoolExecutor(1, "layout")
        for _ in range(max(1, threads // 2) + 2):  # one is left for short calls, while another ends what was cancelled
            threading.Thread(target=self._return_results, daemon=True).start()

    def about(self) -> Message:
        """Return kind, card and layers of the model."""
        card = {name: value for name, value in self._model.card.items() if name not in ("model", "tokenizer")}
        return {
            "kind": "translation",
            "engine": "runtime",
            "card": card,
            "layers": [(layer.name, layer.role, layer.heads) for layer in self._model.layers],
            "language_id": self._model.language_id.decode("utf-8", "replace"),
        }

    def check(self) -> None:
        """Raise ModelFolderError if the file was written into since it was opened: then every call fails."""
        self._model.check_unchanged()

    def submit(self, number: int, call: Message) -> None:
        """Begin a call."""
        kind = call["call"]
        if kind not in _CALLS:
            raise UsageError("this model translates text; ask a model of images for captions")
        with self._lock:
            self._calls[number] = call
        if kind == "stream":
            self._streams.submit(self._stream, number, call)
        elif kind == "translate":
            is_long = sum(map(len, call["texts"])) > _LONG
            (self._layouts.submit if is_long else _at_once)(self._begin_texts, number, call)
        else:
            self._begin_explanation(number, call)

    def _begin_explanation(self, number: int, call: Message) -> None:
        prefix = call["options"]["prefix"]
        call["prefix"] = self._model.encode_target(prefix) if isinstance(prefix, str) else prefix
        options = self._explaining(call, self._options())
        size = self._size(call["lines"], options, call)
        constraints = [Constraints.of_prefix(call["prefix"])]
        self._begin(number, size, partial(self._queue.submit, number, call["lines"], options, constraints))

    def _begin(self, number: int, size: int, work: Callable[[], None]) -> None:
        """Hand over what is to be decoded, or let it wait for its turn; give up a call that was cancelled meanwhile."""
        if number not in self._calls:
            return
        if size:
            self._turns.begin(number, size, work)
        else:
            work()
        if number not in self._calls:
            self._forget(number)
            self._queue.cancel(number)

    def _begin_texts(self, number: int, call: Message) -> None:
        """Lay texts out, and hand over what is to be decoded first."""
        try:
            request = self._text_request(call)
            search = request.search
            wanted = Wanted(search.nbest, search.alignments, search.attention != "none")
            way = self._translator.begin_texts(call["texts"], wanted=wanted, **self._text_options(request))
            end = monotonic() + call["seconds"] / 2
            words = partial(self._model.word_indices, is_target=True) if search.log_probs else None
            text_call = _TextCall(way, words, end)
            text_call.decoder.record(ATTENTION.index(search.attention))
            with self._lock:
                if number not in self._calls:  # it was cancelled while it was laid out
                    return
                self._text_calls[number] = text_call
            self._go_on(number, text_call, lambda: next(way.path), is_first=True)
        except Exception as problem:  # whatever it is, the caller is told
            self._fail(number, problem)

    def _text_request(self, call: Message) -> TextRequest:
        return TextRequest.of_message(call["request"]).of_model(bool(self._model.options().split))

    def _text_options(self, request: TextRequest) -> dict[str, Any]:
        """Return the options by which texts of a request are translated."""
        options: dict[str, Any] = {
            "form": request.form,
            "keep": request.keep or True,
            "sentences": request.sentences,
            "code": request.code,
        }
        options |= request.search.given_options(self._model.options().beam)
        if request.form.split == "0":
            options["split"] = "off"
        return options

    def _go_on(self, number: int, call: _TextCall, advance: Callable[[], Request], is_first: bool = False) -> None:
        """Take the next step of a call: what is to be decoded is handed over; the result is the reply."""
        while True:
            try:
                request = advance()
            except StopIteration as stop:
                texts = [text_reply(text, call.words) for text in stop.value]
                self._answer(number, {"texts": texts})
                return
            if request.is_retry and monotonic() > call.retries_until:
                advance = partial(call.way.path.send, None)
                continue
            call.request = request
            lines, options, _ = call.decoder.arguments(request)
            size = self._size(lines, options) if is_first else 0
            self._begin(number, size, partial(self._submit_texts, number, call))
            return

    def _submit_texts(self, number: int, call: _TextCall) -> None:
        try:
            self._queue.submit(number, *call.decoder.arguments(call.request))
        except LineError as problem:
            self._go_on(number, call, partial(call.way.path.throw, problem))

    def _answer(self, number: int, content: Message) -> None:
        self._reply({"number": number, **content}, lambda: number in self._calls)
        self._forget(number)

    def cancel(self, number: int) -> None:
        """Give up a call; a stream ends at its next word, an answer at its next frame."""
        if self._forget(number) is not None:
            self._queue.cancel(number)

    def _forget(self, number: int) -> Message | None:
        with self._lock:
            call = self._calls.pop(number, None)
            self._text_calls.pop(number, None)
        self._turns.end(number)
        return call

    def _fail(self, number: int, problem: Exception) -> None:
        self._forget(number)
        self._reply.fail(number, problem)

    def _size(self, lines: Sequence[str], options: Options, call: Message | None = None) -> int:
        """Return about how many bytes an answer will have, 0 if no more than its texts. Raises UsageError: too many."""
        asked = call["options"] if call else {}
        prefix = len(call["prefix"]) if call else 0
        if options.nbest == 1 and not options.attention and not options.trace:
            return 0
        lengths = []
        for source in map(len, map(self._model.encode, lines)):
            most = min(_GROWTH * source + _MORE, options.max_ratio * source + options.max_extra)
            most = min(most, options.max_length) if options.max_length >= 0 else most
            lengths.append((source, int(most) + prefix))
        roles = {0: (), 1: ("cross",), 2: ROLES}[options.attention]
        rest = (roles, _PACKED if asked.get("packed") else _PLAIN, options.trace and options.beam)
        while (size := self._limit.size(lengths, options.nbest, *rest)) > self._limit.most:
            if asked.get("nbest", 1) is not None or options.nbest == 1:
                break
            options.nbest -= 1  # nobody said how many
        self._limit.check(size)
        return size

    def _options(self) -> Options:
        options = self._model.options()
        options.threads = self._threads
        return options

    def _explaining(self, call: Message, options: Options) -> Options:
        """Change the options of a search to those of an explanation, or of the first search for continuations."""
        asked = call["options"]
        if call["call"] == "continuations":
            return next_step_options(options, call["prefix"])
        options.nbest = asked["nbest"] or min(MOST_NBEST, options.beam)
        options.beam = max(options.beam, options.nbest)
        options.attention, options.alignments, options.trace = 2, int(self._model.has_attention), int(asked["trace"])
        options.states = int(asked["packed"] and self._model.recurrence & 1)
        return options

    def _return_results(self) -> None:
        while True:
            if (taken := self._queue.take(_WAIT)) is not None:
                self._return(*taken)

    def _return(self, number: int, lines: list[RuntimeLine] | RegardError) -> None:
        if (call := self._calls.get(number)) is None:
            self._forget(number)
            return
        try:
            text_call = self._text_calls.get(number)
            if isinstance(lines, RegardError):
                if text_call is None:
                    raise lines
                self._go_on(number, text_call, partial(text_call.way.path.throw, lines))
                return
            self._check_weights(lines, bool(call.get("options", {}).get("packed")))
            if text_call is not None:
                translations = text_call.decoder.read(text_call.request, lines)
                self._go_on(number, text_call, partial(text_call.way.path.send, translations))
            elif call["call"] == "explain":
                explainer = Explainer(self._model, self._translator.doubts, call["options"]["packed"])
                self._answer(number, {"explanation": RawJson(json_pieces(explainer.explanation(lines[0])))})
            elif (reply := self._continuations(number, call, lines)) is not None:
                self._answer(number, reply)
        except Exception as problem:  # whatever it is, the results of other calls have to be returned
            self._fail(number, problem)

    def _check_weights(self, lines: Sequence[RuntimeLine], is_packed: bool) -> None:
        """Raise UsageError if the attention weights of an answer are too many."""
        weights = sum(w.size for line in lines for h in line.hypotheses for w in h.weights.values())
        self._limit.check(int(weights * (_PACKED if is_packed else _PLAIN)))

    def _continuations(self, number: int, call: Message, lines: list[RuntimeLine]) -> Message | None:
        """Begin the search after each of the likely tokens; or, if that is done, return what they lead to."""
        if "likely" in call:
            hypotheses = [self._hypothesis(line.hypotheses[0]) for line in lines]
            heads = [{"prefix": [*call["prefix"], token], "log_prob": log_prob} for token, log_prob in call["likely"]]
            pairs = zip(heads, hypotheses, strict=True)
            return {"continuations": [{**head, "hypothesis": hypothesis} for head, hypothesis in pairs]}
        likely = likely_tokens(lines[0], call["prefix"], call["options"]["count"])
        if not likely:
            return {"continuations": []}
        options = self._options()
        options.nbest, options.attention, options.alignments = 1, 0, 0
        call["likely"] = [(candidate.token, candidate.log_prob) for candidate in likely]
        constraints = [Constraints.of_prefix([*call["prefix"], candidate.token]) for candidate in likely]
        self._queue.submit(number, call["lines"] * len(likely), options, constraints)
        return None

    def _stream(self, number: int, call: Message) -> None:
        try:
            request = self._text_request(call)
            layout = lay_out(call["texts"][0], request.form, request.sentences)
            stream = partial(self._translator.begin_stream, keep=request.keep or True)
            parts = stream_text(layout, request.code, stream)
            while True:
                try:
                    line, words = next(parts)
                except StopIteration as stop:
                    self._reply({"number": number, "texts": [text_reply(stop.value, None)]})
                    return
                if number not in self._calls:
                    return
                self._reply({"number": number, "line": line, "words": words})
        except Exception as problem:
            self._reply.fail(number, problem)
        finally:
            self._forget(number)

    def _hypothesis(self, hypothesis: RuntimeHypothesis) -> Message:
        ids = hypothesis.ids
        return {
            "text": hypothesis.text,
            "score": hypothesis.score,
            "tokens": self._model.tokens(ids, True),
            "alignments": None,
            "attention": None,
            "log_probs": hypothesis.log_probs,
            "words": self._model.word_indices(ids, True) if ids else [],
        }


def _at_once(work: Callable[[int, Message], None], number: int, call: Message) -> None:
    work(number, call)
