"""Engine of a model folder that only PyTorch can run: captioners, and translators without native code."""

from __future__ import annotations

import base64
import queue
import threading
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from regard.common.errors import LineWarning, RegardError, UsageError
from regard.data.casing import CaseReader
from regard.explain.explanation import explain_caption
from regard.model_folder import folder_languages, load_folder, load_language_id
from regard.pipeline.captioner import Captioner
from regard.pipeline.loading import load
from regard.pipeline.translator import Translator
from regard.runtime.model import ROLES
from regard.serving.answer_size import AnswerLimit
from regard.serving.frames import Message, Replies
from regard.serving.raw_json import RawJson, json_pieces, weights_json
from regard.visualisation.explanation_data import page_data

_CHARACTERS = 3
"""Characters of a token, about."""
TOGETHER = 16
"""Calls that are decoded together, if their options are the same."""


class PyTorchEngine:
    """Runs calls in the order of their arrival, those that wait at the same time and have the same options together."""

    def __init__(
        self,
        path: Path,
        precision: Any,
        threads: int,
        most_bytes: int,
        reply: Replies,
        languages: Sequence[str] = (),
    ) -> None:
        """Load the folder. Raises ModelFolderError if it is damaged.

        `languages`: codes of source and target by whose rules capitals are read and written; none: the folder's own.
        """
        torch.set_num_threads(threads)
        self._pipeline = load(path, precision=precision)
        if languages and isinstance(self._pipeline, Translator):
            self._pipeline.case_reader = CaseReader(languages, self._pipeline.case_reader.encode)
        self._path, self._reply, self._precision = path, reply, precision
        self._limit = AnswerLimit(most_bytes, self._pipeline.attention_heads())
        self._calls: queue.SimpleQueue[tuple[int, Message]] = queue.SimpleQueue()
        self._waiting: set[int] = set()
        threading.Thread(target=self._work, daemon=True).start()  # ends with the process

    def about(self) -> Message:
        """Return kind, card and layers of the model."""
        readme = self._path / "README.md"
        folder, languages = load_folder(self._path), folder_languages(self._path)
        identification = load_language_id(self._path)
        return {
            "kind": "captions" if isinstance(self._pipeline, Captioner) else "translation",
            "engine": "pytorch",
            "card": {
                "parameters": sum(parameter.numel() for parameter in folder.model.parameters()),
                "precision": self._precision,
                "languages": [languages.source, languages.target],
                "readme": readme.read_text("utf-8", "replace") if readme.is_file() else "",
            },
            "layers": [],
            "language_id": identification.to_json() if identification else "",
            "splits_sentences": self._pipeline.settings.search.splits_sentences,
            "copies": self._pipeline.tokenizer.copies,
        }

    def check(self) -> None:
        """Do nothing: the model lies in memory, whatever becomes of its files."""

    def submit(self, number: int, call: Message) -> None:
        """Queue a call. Raises UsageError for a kind of call that this model cannot do."""
        reads_images = isinstance(self._pipeline, Captioner)
        if reads_images != (call["call"] in ("caption", "explain_image")):
            raise UsageError(
                "this model captions images; ask a model of text for translations"
                if reads_images
                else "this model translates text; ask a model of images for captions"
            )
        search = call.get("search", {})
        if call["call"] == "translate" and (search["attention"] != "none" or search["nbest"] > 1):
            tokens = [len(line) // _CHARACTERS + 1 for line in call["lines"]]
            roles = () if search["attention"] == "none" else ROLES
            self._limit.check(self._limit.size(((n, n) for n in tokens), search["nbest"], roles))
        self._waiting.add(number)
        self._calls.put((number, call))

    def cancel(self, number: int) -> None:
        """Leave a call out if its turn has not come."""
        self._waiting.discard(number)

    def _work(self) -> None:
        while True:
            waiting = [self._calls.get()]
            while len(waiting) < TOGETHER and not self._calls.empty():
                waiting.append(self._calls.get())
            groups = defaultdict[str, list[tuple[int, Message]]](list)
            for number, call in waiting:
                if number in self._waiting:
                    self._waiting.discard(number)
                    groups[f"{call['call']} {sorted(call.get('search', {}).items())}"].append((number, call))
            for group in groups.values():
                self._run(group)

    def _run(self, group: list[tuple[int, Message]]) -> None:
        """Run calls of one kind and the same options; each alone if one of them fails."""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                replies = self._results([call for _, call in group], caught)
        except Exception as problem:
            if len(group) > 1:
                for item in group:
                    self._run([item])
                return
            self._reply.fail(group[0][0], problem if isinstance(problem, RegardError) else RegardError(str(problem)))
            return
        for (number, _), reply in zip(group, replies, strict=True):
            self._reply({"number": number, **reply})

    def _results(self, calls: list[Message], caught: list[Any]) -> list[Message]:
        kind, search = calls[0]["call"], dict(calls[0].get("search", {}))
        wants_attention = search.pop("attention", "none") != "none"
        search.pop("log_probs", None)  # PyTorch's search keeps sums alone
        options: dict[str, Any] = {name: value for name, value in search.items() if value is not None}
        if "split" in options:
            options["split"] = "on" if options["split"] else "off"
        if "beam" not in options and options.get("nbest", 1) > self._pipeline.settings.search.beam:
            options["beam"] = options["nbest"]
        if kind == "caption":
            options.pop("alignments", None)
            images = [base64.b64decode(call["image"]) for call in calls]
            captions = self._pipeline.caption(images, readings=wants_attention, **options)
            return [{"lines": [_line(caption)]} for caption in captions]
        if kind == "explain_image":
            shown = (explain_caption(self._pipeline, base64.b64decode(call["image"])) for call in calls)
            pages = (page_data(data, caption.text, ("", "")) for caption, data in shown)
            return [{"explanation": RawJson(list(json_pieces(page)))} for page in pages]
        if kind == "translate":
            return self._translations(calls, options, wants_attention, caught)
        if kind == "stream":
            return [{"lines": [_line(self._pipeline.translate(call["lines"][0], beam=1)[0])]} for call in calls]
        raise UsageError("this model runs on PyTorch, which this server has no explanations of; use `regard show`")

    def _translations(
        self, calls: list[Message], options: dict[str, Any], wants_attention: bool, caught: list[Any]
    ) -> list[Message]:
        lines = [line for call in calls for line in call["lines"]]
        translations = self._pipeline.translate(lines, readings=wants_attention, **options)
        notes = defaultdict[int, list[str]](list)
        for warning in caught:
            if isinstance(warning.message, LineWarning):
                notes[warning.message.index].append(str(warning.message))
        results = [_line(translation, notes[index]) for index, translation in enumerate(translations)]
        counts = [len(call["lines"]) for call in calls]
        return [{"lines": [results.pop(0) for _ in range(count)]} for count in counts]


def _line(result: Any, notes: Sequence[str] = ()) -> Message:
    """Return a Translation or Caption as the content of a reply."""
    readings = result.readings
    weights = {} if readings is None else {name: RawJson(weights_json(w)) for name, w in readings.weights.items()}
    ranked = [
        {
            "text": hypothesis.text,
            "score": hypothesis.score,
            "tokens": hypothesis.tokens,
            "alignments": getattr(hypothesis, "alignments", None),
            "attention": None if rank or not weights else RawJson(list(json_pieces(weights))),
            "is_complete": getattr(hypothesis, "is_complete", True),
        }
        for rank, hypothesis in enumerate(result.nbest or (result,))
    ]
    source = () if readings is None else readings.source
    doubtful = getattr(result, "doubtful", False)  # captions have no threshold
    return {"hypotheses": ranked, "source_tokens": source, "warnings": list(notes), "doubtful": doubtful}
