"""The endpoints under /v1 beyond plain answers: searches, streams, images, explanations, models,
deadlines.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fake import Ask, FakeService

from regard.serving.service import ExplanationRequest

PNG = b"\x89PNG\r\n\x1a\n and so on"


def translate(ask: Ask, **asked: Any) -> Any:
    values = {"text": "hello", "source": "en", "target": "ko", **asked}
    return ask("/v1/translate", json=values).json()["translations"]


def events(answer: httpx.Response) -> list[tuple[str, Any]]:
    """Parse server-sent events."""
    events = re.findall("event: (.*)\ndata: (.*)\n\n", answer.text)
    return [(name, json.loads(data)) for name, data in events]


def test_a_stream_ends_with_the_whole(ask: Ask) -> None:
    def stream(text: Any) -> httpx.Response:
        asked = {"text": text, "source": "en", "target": "ko", "stream": True}
        return ask("/v1/translate", json=asked)

    answer = stream(["One two. Three", ""])
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"

    *deltas, (last, result) = events(answer)
    assert {name for name, _ in deltas} == {"delta"}

    grown = [(data["line"], data["delta"]) for _, data in deltas]
    assert grown == [(0, "ONE"), (0, " TWO."), (1, "THREE")]
    assert last == "result"
    assert result["translations"] == translate(ask, text=["One two. Three", ""])

    ((last, result),) = events(stream(" "))
    assert last == "result"
    assert result["translations"] == translate(ask, text=" ")


@pytest.mark.system
@pytest.mark.parametrize(
    ("asked", "status", "detail"),
    [
        ({"text": ["fine", "\nlong"]}, 400, "text 2, line 1 is too long; shorten it"),
        ({"text": "fine slow", "deadline_ms": 500}, 504, "not done within"),
    ],
)
def test_an_error_after_the_first_word_is_the_last_event(
    ask: Ask, asked: dict[str, Any], status: int, detail: str
) -> None:
    values = {"source": "en", "target": "ko", "stream": True, **asked}
    (first, _), (last, error) = events(ask("/v1/translate", json=values))
    assert (first, last) == ("delta", "error")
    assert error["status"] == status
    assert detail in error["detail"]


def test_the_search_is_that_asked_for(ask: Ask, service: FakeService) -> None:
    wanted = {"nbest": 2, "alignments": True, "attention": "cross", "max_length": 9}
    translate(ask, **wanted)
    _, _, search, _ = service.calls[0]
    assert search.model_dump(include={*wanted}) == wanted


def test_images_come_in_forms_and_stay_in_memory(
    ask: Ask, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/there is no folder")
    image = {"image": ("../../x.png", PNG + bytes(5_000_000), "image/png")}
    answer = ask("/v1/caption", files=image, data={"nbest": "2"}).json()
    assert answer["caption"] == "A DOG RUNS"
    assert len(answer["hypotheses"]) == 2

    explained = ask("/v1/explain_image", files=image)
    assert explained.json()["model"] == "captions"

    del service.models["captions"]
    refused = ask("/v1/caption", files=image)
    assert "no model for captions" in refused.json()["detail"]


def test_options_of_explanations(ask: Ask, service: FakeService) -> None:
    options = {"nbest": 2, "prefix": [7, 8], "trace": True, "packed": True}
    asked = {"text": "hello", "target": "pt", "model": "many"}
    ask("/v1/explain", json=asked)
    ask("/v1/explain", json={**asked, **options})
    (_, _, default), (model, line, given) = service.explanations
    assert default.model_dump(include={*options}) == ExplanationRequest().model_dump()
    assert (model, line) == ("many", ">>por<< hello")
    assert given.model_dump(include={*options}) == options

    without_attention = ask("/v1/explain", json={"text": "a", "model": "unnamed"})
    assert without_attention.status_code == 200

    several = ask("/v1/continuations", json={"text": "hello", "target": "ko"}).json()
    assert len(several["continuations"]) == 7


def test_models(ask: Ask, service: FakeService) -> None:
    models = ask("/v1/models", "GET").json()["models"]
    assert [model["name"] for model in models] == list(service.models)
    assert models[0]["pairs"] == [{"source": "ko", "target": "en"}]
    assert ask("/v1/models/ko-en", "GET").json() == {**models[0], "readme": "# ko-en\n"}

    service.models = {"\udcff": replace(service.models["en-ko"], name="\udcff")}
    (model,) = ask("/v1/models", "GET").json()["models"]
    assert model["name"] == "\udcff", "the name of a file may be no UTF-8"


def test_deadlines_are_those_asked_for_up_to_the_servers(
    make_ask: Callable[..., Ask], service: FakeService
) -> None:
    ask = make_ask(deadline=500.0)
    for headers, asked, wanted in (
        ({}, {}, 500),
        ({}, {"deadline_ms": 200_000}, 200),
        ({"X-Deadline-Ms": "100000"}, {}, 100),
        ({}, {"deadline_ms": 600_000}, 500),
    ):
        body = {"text": "hello", "source": "en", "target": "ko", **asked}
        assert ask("/v1/translate", json=body, headers=headers).status_code == 200
        *_, deadline = service.calls[-1]
        assert wanted - 60 < deadline <= wanted
