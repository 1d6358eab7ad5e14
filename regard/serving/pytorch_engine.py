"""Engine of a model folder that only PyTorch can run: captioners, and translators without native code."""

from __future__ import annotations

import base64
import json
import queue
import threading
import warnings
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from regard.common.errors import RegardError, UsageError
from regard.explain.explanation import explain_caption
from regard.model_folder import folder_languages, load_folder, load_language_id
from regard.pipeline.captioner import Captioner
from regard.pipeline.folder_translator import FolderTranslator
from regard.pipeline.loading import load
from regard.runtime.model import ROLES
from regard.serving.answer_size import AnswerLimit
from regard.serving.frames import Message, Replies
from regard.serving.raw_json import RawJson, json_pieces
from regard.serving.replies import line_reply, text_reply
from regard.serving.service import SearchRequest, TextRequest
from regard.text.casing import CaseReader
from regard.text.text_path import Request, Wanted, run_path
from regard.text.translation import Translation
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
        if languages and isinstance(self._pipeline, FolderTranslator):
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
        search = call.get("request", {}).get("search", {})
        if call["call"] == "translate" and (search["attention"] != "none" or search["nbest"] > 1):
            tokens = [len(line) // _CHARACTERS + 1 for text in call["texts"] for line in text.splitlines()]
            roles = () if search["attention"] == "none" else ROLES
            self._limit.check(self._limit.size(((n, n) for n in tokens), search["nbest"], roles))
        call["retries_until"] = monotonic() + call.get("seconds", 0.0) / 2  # a stream has none
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
                    options = {name: call.get(name) for name in ("call", "search", "request")}
                    groups[json.dumps(options)].append((number, call))
            for group in groups.values():
                self._run(group)

    def _run(self, group: list[tuple[int, Message]]) -> None:
        """Run calls of one kind and the same options; each alone if one of them fails."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                replies = self._results([call for _, call in group])
        except Exception as problem:
            if len(group) > 1:
                for item in group:
                    self._run([item])
                return
            self._reply.fail(group[0][0], problem if isinstance(problem, RegardError) else RegardError(str(problem)))
            return
        for (number, _), reply in zip(group, replies, strict=True):
            self._reply({"number": number, **reply})

    def _results(self, calls: list[Message]) -> list[Message]:
        kind = calls[0]["call"]
        if kind == "caption":
            search = SearchRequest(**calls[0]["search"])
            images = [base64.b64decode(call["image"]) for call in calls]
            options = {"nbest": search.nbest, **search.given_options(self._pipeline.settings.search.beam)}
            captions = self._pipeline.caption(images, readings=search.attention != "none", **options)
            return [{"lines": [line_reply(caption)]} for caption in captions]
        if kind == "explain_image":
            shown = (explain_caption(self._pipeline, base64.b64decode(call["image"])) for call in calls)
            pages = (page_data(data, caption.text, ("", "")) for caption, data in shown)
            return [{"explanation": RawJson(list(json_pieces(page)))} for page in pages]
        if kind in ("translate", "stream"):
            return self._translations(calls)
        raise UsageError("this model runs on PyTorch, which this server has no explanations of; use `regard show`")

    def _translations(self, calls: list[Message]) -> list[Message]:
        """Translate the texts of calls together; one that is to be streamed comes at once, found greedily."""
        request = TextRequest.of_message(calls[0]["request"]).of_model(self._pipeline.search.splits_sentences)
        search = request.search
        is_stream = calls[0]["call"] == "stream"
        options: dict[str, Any] = (
            {"beam": 1} if is_stream else search.given_options(self._pipeline.settings.search.beam)
        )
        if request.form.split == "0":
            options["split"] = "off"
        texts = [text for call in calls for text in call["texts"]]
        way = self._pipeline.begin_texts(
            texts,
            request.form,
            Wanted(search.nbest, search.alignments, search.attention != "none"),
            request.keep or True,
            request.sentences,
            request.code,
            **options,
        )
        retries_until = min(call["retries_until"] for call in calls)

        def decode(asked: Request) -> list[Translation] | None:
            return None if asked.is_retry and monotonic() > retries_until else way.decoder(asked)

        replies = iter([text_reply(text, None) for text in run_path(way.path, decode)])
        return [{"texts": list(islice(replies, len(call["texts"])))} for call in calls]
