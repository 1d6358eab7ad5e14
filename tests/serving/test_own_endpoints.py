"""The endpoints under /v1: hypotheses, alignments, attention, streams, captions, explanations,
models.
"""

from __future__ import annotations

import base64
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


def test_a_plain_translation_is_short(ask: Ask) -> None:
    assert translate(ask) == [
        {"text": "HELLO", "source": "en", "target": "ko", "model": "en-ko"}
    ]
    several = translate(ask, text=["a", "", "B. C"])
    assert [item["text"] for item in several] == ["A", "", "B. C"]
    (warned,) = translate(ask, text="x again again")
    assert warned["warnings"] == ["repeated"]
    certain, doubtful, empty = translate(ask, text=["A. Unlearnt.", "A. unlearnt.", ""])
    assert "doubtful" in doubtful
    assert "doubtful" not in certain
    assert "doubtful" not in empty
    assert translate(ask, source="auto", target="en") == [
        {
            "text": "hello",
            "source": "en",
            "target": "en",
            "model": None,
            "confidence": 0.98,
        }
    ]


def test_lines_show_what_was_asked_for(ask: Ask, service: FakeService) -> None:
    wanted = {
        "nbest": 2,
        "alignments": True,
        "attention": "cross",
        "beam": 4,
        "max_length": 9,
    }
    (result,) = translate(ask, text="One two. Three", **wanted)
    assert result["alternatives"] == ["ONE TWO.1 THREE1"]
    assert [line["source"] for line in result["lines"]] == ["One two.", "Three"]
    assert result["lines"][0]["hypotheses"][0] == {
        "text": "ONE TWO.",
        "score": -0.5,
        "tokens": ["One", "two."],
        "alignments": [[0, 0], [1, 1]],
        "attention": {"cross": [[[1.0]]]},
    }
    search = service.calls[0][2].model_dump()
    assert {name: search[name] for name in wanted} == wanted
    (scored,) = translate(ask, scores=True)
    assert scored["lines"][0]["hypotheses"][0].keys() == {"text", "score", "tokens"}
    (whole,) = translate(ask, text="Come. Go", log_probs=True, split=False)
    (line,) = whole["lines"]
    (hypothesis,) = line["hypotheses"]
    assert line["source"] == "Come. Go"
    assert hypothesis["words"] == [0, 1]
    assert hypothesis["log_probs"] == [-0.5, -0.5]


def test_codes_of_target_languages_are_put_before_lines_and_not_counted(
    ask: Ask, service: FakeService
) -> None:
    (result,) = translate(ask, text="One two. Three", target="fr", alignments=True)
    assert result["text"] == "ONE TWO. THREE"
    assert service.calls[0][1] == [">>fra<< One two.", ">>fra<< Three"]
    line = result["lines"][0]
    assert line["source"] == "One two."
    assert line["hypotheses"][0]["alignments"] == [[0, 0], [1, 1]]


def test_models_are_chosen_by_name_or_pair(ask: Ask) -> None:
    def chosen(**asked: str) -> Any:
        return translate(ask, **asked)[0]

    assert chosen(source="ko", target="en")["model"] == "ko-en"
    assert chosen(source="ko", target="en", model="second")["model"] == "second"
    assert chosen(source="src", target="tgt")["model"] == "unnamed"
    assert chosen(source="auto", target="", model="unnamed")["source"] == "src"
    assert chosen(source="auto", target="", model="en-ko")["target"] == "ko"


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


def test_images_stay_in_memory(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was made")

    for name in (
        "NamedTemporaryFile",
        "TemporaryFile",
        "mkstemp",
        "SpooledTemporaryFile",
    ):
        monkeypatch.setattr(tempfile, name, refuse)
    assert (
        ask("/v1/caption", files={"image": PNG + bytes(5_000_000)}).status_code == 200
    )


ENCODED = base64.b64encode(PNG).decode()


def test_images_come_in_forms_and_json(ask: Ask, service: FakeService) -> None:
    address = f"data:image/png;base64,{ENCODED}"
    requests: list[dict[str, Any]] = [
        {"files": {"image": ("../../x.png", PNG, "image/png")}, "data": {"nbest": "2"}},
        {"json": {"image": ENCODED, "nbest": 2}},
        {"json": {"image": address, "nbest": 2, "model": "captions"}},
    ]
    for request in requests:
        answer = ask("/v1/caption", **request).json()
        assert answer["caption"] == "A DOG RUNS"
        assert answer["model"] == "captions"
        assert len(answer["hypotheses"]) == 2
    explained = ask("/v1/explain_image", files={"image": PNG}).json()
    assert explained == {
        "model": "captions",
        "explanation": {"target": ["a", "dog", "runs"]},
    }
    service.models = {"ko-en": service.models["ko-en"]}
    assert (
        "no model for captions"
        in ask("/v1/caption", files={"image": PNG}).json()["detail"]
    )


def test_explanations(ask: Ask, service: FakeService) -> None:
    answer = ask("/v1/explain", json={"text": "hello", "target": "ko"}).json()
    assert answer["source"] == "en"
    assert answer["target"] == "ko"
    assert answer["model"] == "en-ko"
    assert answer["explanation"]["text"] == "HELLO"
    assert answer["explanation"]["score"] is None, "NaN is none of JSON's numbers"
    options = {"nbest": 2, "prefix": [7, 8], "trace": True, "packed": True}
    asked = {"text": "hello", "target": "pt", "model": "many"}
    assert ask("/v1/explain", json={**asked, **options}).status_code == 200
    (_, _, default), (model, line, given) = service.explanations
    assert default.model_dump(include=set(options)) == ExplanationRequest().model_dump()
    assert (model, line) == ("many", ">>por<< hello")
    assert given.model_dump(include=set(options)) == options
    without_attention = ask("/v1/explain", json={"text": "a", "model": "unnamed"})
    assert without_attention.status_code == 200


def test_continuations(ask: Ask) -> None:
    asked = {"text": "hello", "target": "ko"}
    answer = ask("/v1/continuations", json={**asked, "prefix": [5], "count": 2}).json()
    assert answer["source"] == "en"
    assert answer["target"] == "ko"
    assert answer["model"] == "en-ko"
    _, second = answer["continuations"]
    assert second["prefix"] == [5, 11]
    assert second["text"] == "HELLO1"
    assert second["log_prob"] == -1.5
    assert len(ask("/v1/continuations", json=asked).json()["continuations"]) == 7


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


def test_a_service_that_is_late_is_cancelled(ask: Ask, service: FakeService) -> None:
    asked = {"text": "slow", "source": "en", "target": "ko"}
    answer = ask("/v1/translate", json=asked, headers={"X-Deadline-Ms": "50"})
    assert answer.status_code == 504
    assert service.cancelled == ["slow"]
