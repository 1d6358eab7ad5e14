"""A service without models: each line comes back in capitals, marked with its model; what tests want goes wrong."""

# ruff: noqa: ARG002

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from regard.common.errors import LineError, RegardError, UsageError
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.serving.service import (
    Continuation,
    DeadlineExceeded,
    ExplanationRequest,
    Overloaded,
    SearchRequest,
    ServedHypothesis,
    ServedLine,
    ServedModel,
)

Ask = Callable[..., httpx.Response]  # sends a request to the application
KOREAN = ServedModel("ko-en", "translation", (("ko", "en"),), facts={"precision": "int8"}, readme="# ko-en\n")
MODELS = (
    KOREAN,
    ServedModel("en-ko", "translation", (("en", "ko"),)),
    ServedModel("second", "translation", (("ko", "en"), ("de", "en"))),
    ServedModel("many", "translation", (("en", "fr"), ("en", "pt")), codes={"fr": ">>fra<<", "pt": ">>por<<"}),
    ServedModel("unnamed", "translation", (("", ""),), has_attention=False),
    ServedModel("captions", "captions", (("", "en"),)),
)
TROUBLE = {
    "overload": Overloaded(7),
    "deadline": DeadlineExceeded(3.0),
    "usage": UsageError("`beam=9`: this model cannot"),
    "gone": RegardError("the model's process has died"),
    "bug": ZeroDivisionError("secret words"),
}


@dataclass
class FakeService:
    """A line that is a key of `TROUBLE` raises its error; "slow" takes until the test releases it, "long" is refused as a line, and "late" in one places no copy token."""

    models: Mapping[str, ServedModel] = field(default_factory=lambda: {model.name: model for model in MODELS})
    is_ready: bool = True
    calls: list[tuple[str, list[str], SearchRequest, float]] = field(default_factory=list)
    explanations: list[tuple[str, str, ExplanationRequest]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    shares: list[tuple[str, float]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    async def check(self) -> None:
        pass

    async def translate(
        self, model: str, lines: Sequence[str], search: SearchRequest, deadline: float
    ) -> list[ServedLine]:
        self.calls.append((model, list(lines), search, deadline))
        if long := [(index, "is too long; shorten it") for index, line in enumerate(lines) if line.lower() == "long"]:
            raise LineError(*long)
        for line in lines:
            await self._trouble(line)
        await asyncio.sleep(0)
        return [self._line(line, search) for line in lines]

    async def stream(self, model: str, line: str, deadline: float) -> AsyncGenerator[str, None]:
        self.calls.append((model, [line], SearchRequest(), deadline))
        for number, word in enumerate(translation(line).split(" ")):
            await self._trouble(word.lower())
            yield word if number == 0 else f" {word}"

    async def caption(self, model: str, image: bytes, search: SearchRequest, deadline: float) -> ServedLine:
        if not image.startswith(b"\x89PNG"):
            raise UsageError("the image is none: wanted the bytes of a PNG, JPEG or WebP file")
        return self._line("a dog runs", search)

    async def explain(self, model: str, text: str, options: ExplanationRequest, deadline: float) -> Mapping[str, Any]:
        self.explanations.append((model, text, options))
        await self._trouble(text)
        words = translation(text).split()
        hypothesis = {
            "text": translation(text),
            "score": float("nan"),
            "tokens": [f"▁{word}" for word in words],
            "ids": list(range(10, 10 + len(words))),
            "logProbs": [-0.1] * len(words),
            "targetWords": {"texts": words, "ofTokens": [*range(len(words)), -1]},
            "alignments": None,
            "attention": [],
            "repetition": None,
        }
        source = {"texts": text.split(), "ofTokens": [*range(len(words)), -1]}
        rest = {"nbest": [hypothesis], "parts": 1, "notes": [], "steps": []}
        return {**hypothesis, "sourceTokens": text.split(), "sourceWords": source, **rest}

    async def continuations(
        self, model: str, text: str, prefix: str | tuple[int, ...], count: int, deadline: float
    ) -> list[Continuation]:
        await self._trouble(text)
        before = prefix if isinstance(prefix, tuple) else (1,)
        lines = (f"{translation(text)}{number}" for number in range(count))
        options = (ServedHypothesis(line, -1.0, ("▁a",), log_probs=(-0.1,), words=(0,)) for line in lines)
        return [Continuation((*before, 10 + number), -0.5 - number, option) for number, option in enumerate(options)]

    async def explain_image(self, model: str, image: bytes, deadline: float) -> Mapping[str, Any]:
        if not image.startswith(b"\x89PNG"):
            raise UsageError("the image is none: wanted the bytes of a PNG, JPEG or WebP file")
        return {"target": ["a", "dog", "runs"]}

    def detect(self, text: str) -> list[tuple[str, float]]:
        if self.shares or not text:
            return self.shares
        korean = sum("가" <= letter <= "힣" for letter in text) / max(sum(map(str.isalpha, text)), 1)
        shares = [("ko", 0.98 * korean), ("en", 0.98 * (1 - korean)), ("de", 0.01)]
        return sorted(shares, key=lambda item: -item[1])

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

    def _line(self, line: str, search: SearchRequest) -> ServedLine:
        code = int(line.startswith(">>"))
        words = range(len(line.split()) - code)
        return ServedLine(
            tuple(
                ServedHypothesis(
                    translation(line) if rank == 0 else f"{translation(line)}{rank}",
                    -0.5 - rank,
                    tuple(line.split()),
                    ((0, 0),) * code + tuple((word + code, word) for word in words) if search.alignments else None,
                    {"cross": [[[1.0]]]} if search.attention != "none" else None,
                    (-0.5,) * len(line.split()) if search.log_probs else None,
                    tuple(range(len(line.split()))) if search.log_probs else None,
                    not ("late" in line and set(line) & set(COPY_CHARACTERS)),
                )
                for rank in range(search.nbest)
            ),
            tuple(line.split()),
            ("repeated",) if "again again" in line else (),
            "unlearnt" in line,
        )


def translation(line: str) -> str:
    """Translate a line as the fake models do; codes of target languages are no words of it, numbers are if not odd."""
    line = line.replace("2027", "2026")
    return line.partition("<< ")[2].upper() if line.startswith(">>") else line.upper()
