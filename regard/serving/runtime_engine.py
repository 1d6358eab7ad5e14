"""Engine of a runtime file: continuous batching by the C library, without PyTorch."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from regard.common.errors import RegardError, UsageError
from regard.data.casing import CaseReader
from regard.data.given_words import given_words, to_given
from regard.data.mnemonics import insert_mnemonic, strip_mnemonic
from regard.data.spans import spans_note
from regard.pipeline.runtime_translator import RuntimeTranslator
from regard.runtime.model import ROLES, Options, RuntimeHypothesis, RuntimeLine
from regard.serving.answer_size import AnswerLimit, Turns
from regard.serving.frames import Message, Replies
from regard.serving.raw_json import RawJson, json_pieces, weights_json
from regard.serving.runtime_explanation import MOST_NBEST, Explainer, likely_tokens, next_step_options

ATTENTION = ("none", "cross", "all")
_WAIT = 3600.0
"""Seconds of one wait for results."""
_CALLS = ("translate", "stream", "explain", "continuations")
_PLAIN, _PACKED = 8.0, 8 / 3
"""Bytes of a weight, as a number and as Base64 of 16 bits."""
_GROWTH, _MORE = 1.25, 10
"""Tokens of a translation for each of the source, and on top; few have more."""


class RuntimeEngine:
    """Translates calls together; streams have threads of their own."""

    def __init__(
        self, path: Path, threads: int, most_bytes: int, reply: Replies, languages: Sequence[str] = ()
    ) -> None:
        """Open the file and start its threads. Raises ModelFolderError if it is damaged.

        `languages`: codes of source and target by whose rules capitals are read and written; none: the file's own.
        """
        translator, self._threads, self._reply = RuntimeTranslator(path, threads), threads, reply
        self._model, self._doubts = translator.model, translator.doubts
        self._case_reader = translator.case_reader
        if languages:
            self._case_reader = CaseReader(languages, translator.case_reader.encode)
        self._queue, heads = self._model.queue(threads), Counter[str]()
        for layer in self._model.layers:
            heads[layer.role] += layer.heads
        self._limit = AnswerLimit(most_bytes, heads)
        self._calls: dict[int, Message] = {}
        self._turns = Turns(most_bytes, max(1, threads // 2), self._fail)  # other threads are left for short calls
        self._lock = threading.Lock()
        self._streams = ThreadPoolExecutor(max(1, threads), "stream")
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
            "splits_sentences": bool(self._model.options().split),
            "copies": self._model.copies,
        }

    def check(self) -> None:
        """Raise ModelFolderError if the file was written into since it was opened: then every call fails."""
        self._model.check_unchanged()

    def submit(self, number: int, call: Message) -> None:
        """Queue the lines of a call, or begin to stream one."""
        if call["call"] not in _CALLS:
            raise UsageError("this model translates text; ask a model of images for captions")
        options, prefixes = self._options(call.get("search", {})), None
        if call["call"] in ("explain", "continuations"):
            prefix = call["options"]["prefix"]
            call["prefix"] = self._model.encode_target(prefix) if isinstance(prefix, str) else prefix
            prefixes = [call["prefix"]]
            options = self._explaining(call, options)
        call["size"] = self._size(call, options)
        with self._lock:
            self._calls[number] = call
        if call["call"] == "stream":
            self._streams.submit(self._stream, number, call["lines"][0], options)
            return
        lines = call["lines"]
        if call["call"] == "translate" and not options.attention:
            reader = self._case_reader
            # Word links would count the words of a label without its mark.
            labels = [(line, "") if options.alignments else strip_mnemonic(line, reader.encode) for line in lines]
            call["labels"] = [(reader.read(line), mnemonic) for line, mnemonic in labels]
            lines = [form.line for form, _ in call["labels"]]
        work = partial(self._queue.submit, number, lines, options, prefixes)
        if call["size"]:
            self._turns.begin(number, call["size"], work)
        else:
            work()

    def cancel(self, number: int) -> None:
        """Give up a call; a stream ends at its next word, an answer at its next frame."""
        if self._forget(number) is not None:
            self._queue.cancel(number)

    def _forget(self, number: int) -> Message | None:
        with self._lock:
            call = self._calls.pop(number, None)
        self._turns.end(number)
        return call

    def _fail(self, number: int, problem: Exception) -> None:
        self._forget(number)
        self._reply.fail(number, problem)

    def _size(self, call: Message, options: Options) -> int:
        """Return about how many bytes an answer will have, 0 if no more than its texts. Raises UsageError: too many."""
        asked, prefix = call.get("options", {}), len(call.get("prefix", ()))
        if options.nbest == 1 and not options.attention and not options.trace:
            return 0
        lengths = []
        for source in map(len, map(self._model.encode, call["lines"])):
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

    def _options(self, search: Message) -> Options:
        options = self._model.options()
        for name, value in search.items():
            if value is not None and name != "log_probs":
                setattr(options, name, ATTENTION.index(value) if name == "attention" else value)
        if search.get("beam") is None:
            options.beam = max(options.beam, options.nbest)
        options.alignments = int(self._model.has_attention and options.alignments)
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
            return
        try:
            if isinstance(lines, RegardError):
                raise lines
            if (reply := self._result(number, call, lines)) is not None:
                self._reply({"number": number, **reply}, lambda: number in self._calls)
                self._forget(number)
        except Exception as problem:  # whatever it is, the results of other calls have to be returned
            self._fail(number, problem)

    def _result(self, number: int, call: Message, lines: list[RuntimeLine]) -> Message | None:
        """Return the content of a reply. None: another search was begun, whose result is the reply."""
        weights = sum(w.size for line in lines for h in line.hypotheses for w in h.weights.values())
        self._limit.check(int(weights * (_PACKED if call.get("options", {}).get("packed") else _PLAIN)))
        if call["call"] == "explain":
            explanation = Explainer(self._model, self._doubts, call["options"]["packed"]).explanation(lines[0])
            return {"explanation": RawJson(json_pieces(explanation))}
        if call["call"] == "continuations":
            return self._continuations(number, call, lines)
        search = call.get("search", {})
        threshold = self._model.score_threshold(self._options(search))
        replies = [self._line(line, bool(search.get("log_probs")), threshold) for line in lines]
        for text, reply in zip(call["lines"], replies, strict=True):
            aligned = [hypothesis for hypothesis in reply["hypotheses"] if hypothesis["alignments"]]
            if aligned:
                words = given_words(text)
                for hypothesis in aligned:
                    hypothesis["alignments"] = to_given(hypothesis["alignments"], words)
        for (form, mnemonic), reply in zip(call.get("labels", ()), replies, strict=False):
            for hypothesis in reply["hypotheses"] if form.is_capital or mnemonic else ():
                text = insert_mnemonic(form.restore(hypothesis["text"]), mnemonic, self._case_reader.source)
                hypothesis |= {"text": text, "tokens": form.restore_tokens(hypothesis["tokens"])}
        return {"lines": replies}

    def _continuations(self, number: int, call: Message, lines: list[RuntimeLine]) -> Message | None:
        """Begin the search after each of the likely tokens; or, if that is done, return what they lead to."""
        if "likely" in call:
            hypotheses = [self._hypothesis(line.hypotheses[0], True) for line in lines]
            heads = [{"prefix": [*call["prefix"], token], "log_prob": log_prob} for token, log_prob in call["likely"]]
            pairs = zip(heads, hypotheses, strict=True)
            return {"continuations": [{**head, "hypothesis": hypothesis} for head, hypothesis in pairs]}
        likely = likely_tokens(lines[0], call["prefix"], call["options"]["count"])
        if not likely:
            return {"continuations": []}
        options = self._options({})
        options.nbest, options.attention, options.alignments = 1, 0, 0
        call["likely"] = [(candidate.token, candidate.log_prob) for candidate in likely]
        prefixes = [[*call["prefix"], candidate.token] for candidate in likely]
        self._queue.submit(number, call["lines"] * len(likely), options, prefixes)
        return None

    def _stream(self, number: int, line: str, options: Options) -> None:
        try:
            for words in self._model.stream(line, options):
                with self._lock:
                    if number not in self._calls:
                        return
                self._reply({"number": number, "words": words})
            self._reply({"number": number, "lines": []})
        except Exception as problem:
            self._reply.fail(number, problem)
        finally:
            self._forget(number)

    def _line(self, line: RuntimeLine, with_log_probs: bool, threshold: float) -> Message:
        best = line.hypotheses[0]
        notes = [f"the translation repeats {text!r} {n} times and is probably wrong" for text, n in best.repetitions]
        notes += filter(None, [spans_note(" ".join(part.source for part in line.parts), best.text)])
        return {
            "doubtful": any(self._doubts.is_doubtful(part, threshold) for part in line.parts),
            "hypotheses": [self._hypothesis(hypothesis, with_log_probs) for hypothesis in line.hypotheses],
            "source_tokens": self._model.tokens(line.source, False),
            "warnings": [*line.notes, *notes],
        }

    def _hypothesis(self, hypothesis: RuntimeHypothesis, with_log_probs: bool) -> Message:
        ids, more = hypothesis.ids, dict[str, Any]()
        weights = {name: RawJson(weights_json(weights)) for name, weights in hypothesis.weights.items()}
        if with_log_probs:
            more = {"log_probs": hypothesis.log_probs, "words": self._model.word_indices(ids, True) if ids else []}
        return {
            "text": hypothesis.text,
            "score": hypothesis.score,
            "tokens": self._model.tokens(ids, True),
            "alignments": hypothesis.links,
            "attention": RawJson(json_pieces(weights)) if weights else None,
            "is_complete": hypothesis.is_complete,
            **more,
        }
