"""A service without models: each line comes back in capitals, marked with its model; what tests
want goes wrong.
"""

# ruff: noqa: ARG002

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from regard.attention.alignment import Readings
from regard.common.errors import DataError, LineError, RegardError, UsageError
from regard.documents import DocumentOptions
from regard.documents.document_translation import (
    DocumentTranslation,
    translated_document,
)
from regard.documents.formats import read_document
from regard.serving.pytorch_process import ProcessDied
from regard.serving.results import served_hypotheses, served_text
from regard.serving.service import (
    Continuation,
    DeadlineExceeded,
    DocumentFile,
    ExplanationRequest,
    Overloaded,
    SearchRequest,
    ServedHypothesis,
    ServedModel,
    ServedText,
    TextRequest,
)
from regard.text.casing import CaseReader
from regard.text.text_format import lay_out, stream_text, texts_path
from regard.text.text_path import PathRules, Request, Wanted, joint_path
from regard.text.translation import Translation

EXPLANATION = json.loads(
    Path(__file__).with_name("explanation.json").read_text("utf-8")
)
READER = CaseReader(("", ""), lambda text: [*map(ord, text)])
Ask = Callable[..., httpx.Response]  # sends a request to the application
KOREAN = ServedModel(
    "ko-en",
    "translation",
    (("ko", "en"),),
    facts={"precision": "int8"},
    readme="# ko-en\n",
)
MODELS = (
    KOREAN,
    ServedModel("en-ko", "translation", (("en", "ko"),)),
    ServedModel("second", "translation", (("ko", "en"), ("de", "en"))),
    ServedModel(
        "many",
        "translation",
        (("en", "fr"), ("en", "pt")),
        codes={"fr": ">>fra<<", "pt": ">>por<<"},
    ),
    ServedModel("unnamed", "translation", (("", ""),), has_attention=False),
    ServedModel("captions", "captions", (("", "en"),)),
)
TROUBLE = {
    "overload": Overloaded(7),
    "deadline": DeadlineExceeded(3.0),
    "usage": UsageError("`beam=9`: this model cannot"),
    "gone": RegardError("the model's process has died"),
    "died": ProcessDied(),
    "bug": ZeroDivisionError("secret words"),
}


@dataclass
class FakeService:
    """A line that is a key of `TROUBLE` raises its error; "slow" takes until the test releases it,
    and "long" is refused as a line.
    """

    models: Mapping[str, ServedModel] = field(
        default_factory=lambda: {model.name: model for model in MODELS}
    )
    is_ready: bool = True
    backlog: dict[str, tuple[int, int]] = field(default_factory=dict)
    calls: list[tuple[str, list[str], SearchRequest, float]] = field(
        default_factory=list
    )
    explanations: list[tuple[str, str, ExplanationRequest]] = field(
        default_factory=list
    )
    cancelled: list[str] = field(default_factory=list)
    shares: list[tuple[str, float]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    async def check(self) -> None:
        pass

    async def translate(
        self, model: str, texts: Sequence[str], request: TextRequest, deadline: float
    ) -> list[ServedText]:
        request = request.of_model(splits_sentences=True)
        search = request.search
        wanted = Wanted(search.nbest, search.alignments, search.attention != "none")
        rules = PathRules(READER, "", request.keep or True, wanted)
        has_links = search.alignments
        if request.form.kind != "text" and not rules.may_retry:
            has_links = True
            rules = replace(rules, wanted=wanted._replace(alignments=True))
        path = texts_path(texts, request.form, rules, request.sentences, request.code)
        advance: Callable[[], Request] = partial(next, path)
        while True:
            try:
                asked = advance()
            except StopIteration as stop:
                # Each token is a word.
                return [served_text(text, search, list) for text in stop.value]
            own = search.model_copy(update={"alignments": has_links or asked.links})
            self.calls.append((model, list(asked.lines), own, deadline))
            try:
                advance = partial(path.send, await self._decode(asked.lines, own))
            except RegardError as problem:
                advance = partial(path.throw, problem)

    async def translate_document(
        self, model: str, file: DocumentFile, request: TextRequest, deadline: float
    ) -> DocumentTranslation:
        options = DocumentOptions(column=file.column)
        document = read_document(file.data, file.name, options=options)
        search = SearchRequest(alignments=True)
        self.calls.append((model, list(document.lines), search, deadline))
        rules = PathRules(READER)
        path = joint_path(document.paths(rules, code=request.code))
        advance: Callable[[], Request] = partial(next, path)
        while True:
            try:
                asked = advance()
            except StopIteration as stop:
                return translated_document(document, stop.value)
            advance = partial(path.send, await self._decode(asked.lines, search))

    async def _decode(
        self, lines: Sequence[str], search: SearchRequest
    ) -> list[Translation]:
        _refuse_long(lines)
        for line in lines:
            await self._trouble(line)
        await asyncio.sleep(0)
        return [self._line(line, search) for line in lines]

    async def stream(
        self, model: str, text: str, request: TextRequest, deadline: float
    ) -> AsyncGenerator[tuple[int, str] | ServedText, None]:
        self.calls.append((model, [text], request.search, deadline))
        request = request.of_model(splits_sentences=True)
        parts = stream_text(
            lay_out(text, request.form, request.sentences),
            request.code,
            self._increments,
        )
        while True:
            try:
                number, words = next(parts)
            except StopIteration as stop:
                yield served_text(stop.value, request.search)
                return
            try:
                await asyncio.wait_for(self._trouble(words.strip().lower()), deadline)
            except asyncio.TimeoutError:
                raise DeadlineExceeded(deadline) from None
            yield number, words

    def _increments(self, line: str) -> Generator[str, None, Translation]:
        _refuse_long([line])
        for index, word in enumerate(translation(line).split(" ")):
            yield word if index == 0 else f" {word}"
        return self._line(line, SearchRequest())

    async def caption(
        self, model: str, image: bytes, search: SearchRequest, deadline: float
    ) -> list[ServedHypothesis]:
        _refuse_other_images(image)
        return served_hypotheses(self._line("a dog runs", search), search)

    async def explain(
        self, model: str, text: str, options: ExplanationRequest, deadline: float
    ) -> Mapping[str, Any]:
        self.explanations.append((model, text, options))
        await self._trouble(text)
        return {**EXPLANATION, "score": float("nan")}  # none of JSON's numbers

    async def continuations(
        self, model: str, text: str, prefix: object, count: int, deadline: float
    ) -> list[Continuation]:
        await self._trouble(text)
        first = Continuation(
            prefix=(5, 10),
            log_prob=-0.5,
            text=text.upper(),
            score=-1.0,
            tokens=("▁a",),
            log_probs=(-0.1,),
            words=(0,),
        )
        return [first] * count

    async def explain_image(
        self, model: str, image: bytes, deadline: float
    ) -> Mapping[str, Any]:
        _refuse_other_images(image)
        return {"target": ["a", "dog", "runs"]}

    def detect(self, text: str) -> list[tuple[str, float]]:
        if self.shares or not text:
            return self.shares
        is_korean = re.search("[가-힣]", text)
        likely, other = ("ko", "en") if is_korean else ("en", "ko")
        return [(likely, 0.98), ("de", 0.01), (other, 0.0)]

    async def _trouble(self, line: str) -> None:
        if line in TROUBLE:
            raise TROUBLE[line]
        if line == "slow":
            try:
                while not self.released.is_set():
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.cancelled.append(line)
                raise

    def _line(self, line: str, search: SearchRequest) -> Translation:
        tokens = tuple(line.split())
        code = int(line.startswith(">>"))
        links = [(0, 0)] * code
        links += [(word, word - code) for word in range(code, len(tokens))]
        weights = {"cross": np.ones((1, 1, 1))}
        target = (*tokens, "</s>")
        readings = Readings(tokens, target, (), (), weights, {"cross": "cross"})
        text = translation(line)
        best = Translation(
            text,
            tokens,
            score=-0.5,
            alignments=tuple(links) if search.alignments else None,
            readings=readings if search.attention != "none" else None,
            ids=tuple(range(len(tokens))),
            log_probs=(-0.5,) * len(tokens),
        )
        others = [
            replace(best, text=f"{text}{rank}", score=-0.5 - rank)
            for rank in range(1, search.nbest)
        ]
        return replace(
            best,
            nbest=(best, *others) if others else (),
            source_tokens=tokens,
            notes=("repeated",) if "again again" in line else (),
            doubtful="unlearnt" in line,
        )


def _refuse_other_images(image: bytes) -> None:
    if not image.startswith(b"\x89PNG"):
        raise DataError(
            "the image is none: wanted the bytes of a PNG, JPEG or WebP file"
        )


def _refuse_long(lines: Sequence[str]) -> None:
    for number, line in enumerate(lines):
        if line.lower() == "long":
            raise LineError((number, "is too long; shorten it"))


def translation(line: str) -> str:
    """Translate a line as the fake models do; codes of target languages are no words of it."""
    return re.sub("^>>.*<< ", "", line).upper()
