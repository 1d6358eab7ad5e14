"""A call that is cancelled while its texts are laid out leaves nothing: no turn, no call, nothing to decode."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from regard.runtime import native
from regard.serving.runtime_engine import RuntimeEngine
from regard.serving.service import SearchRequest, TextRequest
from tests.runtime.pairs import maker

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)


def _call(texts: list[str]) -> dict[str, Any]:
    request = TextRequest(SearchRequest(nbest=2)).to_message()
    return {"call": "translate", "texts": texts, "request": request, "seconds": 600.0}


def test_a_call_that_is_cancelled_amid_its_layout_ends_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, runtime = maker(lambda: tmp_path / "run")("transformer", "transformer")
    replies: Queue[Any] = Queue()
    engine = RuntimeEngine(runtime.model.path, 1, 10**8, lambda reply, *_: replies.put(reply))  # type: ignore[arg-type]
    is_laid_out, goes_on = threading.Event(), threading.Event()
    begin_texts = engine._translator.begin_texts

    def slowly(*arguments: Any, **options: Any) -> Any:
        is_laid_out.set()
        assert goes_on.wait(60)
        return begin_texts(*arguments, **options)

    monkeypatch.setattr(engine._translator, "begin_texts", slowly)
    engine.submit(1, _call(["나는 집에 간다. " * 2000]))
    assert is_laid_out.wait(60)
    engine.cancel(1)
    goes_on.set()
    engine.submit(2, _call(["나는 집에 간다"]))
    assert replies.get(timeout=60)["number"] == 2
    assert engine._text_calls == engine._calls == {}
