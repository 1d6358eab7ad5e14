"""The endpoints under /v1: hypotheses, alignments, attention, streams, captions, explanations,
models.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fake import Ask, FakeService

PNG = b"\x89PNG\r\n\x1a\n and so on"


def translate(ask: Ask, **asked: Any) -> Any:
    return ask(
        "/v1/translate", json={"text": "hello", "source": "en", "target": "ko", **asked}
    ).json()["translations"]


def events(answer: httpx.Response) -> list[tuple[str, Any]]:
    """Parse server-sent events."""
    blocks = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in blocks
    ]


def test_a_plain_translation_is_short(ask: Ask) -> None:
    assert translate(ask) == [{"text": "HELLO", "source": "en", "target": "ko", "model": "en-ko"}]
    assert [item["text"] for item in translate(ask, text=["a", "", "B. C"])] == ["A", "", "B. C"]
    assert translate(ask, text="x again again")[0]["warnings"] == ["repeated"]
    assert [
        "doubtful" in item for item in translate(ask, text=["A. Unlearnt.", "A. unlearnt.", ""])
    ] == [
        False,
        True,
        False,
    ]
    assert translate(ask, source="auto", target="en") == [
        {"text": "hello", "source": "en", "target": "en", "model": None, "confidence": 0.98}
    ]


@pytest.mark.parametrize("asked", [{"scores": True}, {"format": "html"}])
def test_a_model_of_several_sentences_a_line_gets_lines_whole(
    ask: Ask, service: FakeService, asked: dict[str, Any]
) -> None:
    text = "One two. Three.\nFour five. Six."
    counts = list[int]()
    for service.splits_sentences in (True, False):
        translate(ask, text=text, **asked)
        counts.append(len(service.calls[-1][1]))
    assert counts == [4, 1 if "format" in asked else 2]


def test_lines_show_what_was_asked_for(ask: Ask, service: FakeService) -> None:
    (result,) = translate(
        ask,
        text="One two. Three",
        nbest=2,
        alignments=True,
        attention="cross",
        beam=4,
        max_length=9,
    )
    assert result["alternatives"] == ["ONE TWO.1 THREE1"]
    assert [line["source"] for line in result["lines"]] == ["One two.", "Three"]
    best = result["lines"][0]["hypotheses"][0]
    assert best == {
        "text": "ONE TWO.", "score": -0.5, "tokens": ["One", "two."], "alignments": [[0, 0], [1, 1]],
        "attention": {"cross": [[[1.0]]]},
    }  # fmt: skip
    search = service.calls[0][2]
    assert (search.beam, search.nbest, search.max_length, search.attention) == (4, 2, 9, "cross")
    scored = translate(ask, scores=True)[0]["lines"][0]["hypotheses"][0]
    assert scored.keys() == {"text", "score", "tokens"}


def test_codes_of_target_languages_are_put_before_lines_and_not_counted(
    ask: Ask, service: FakeService
) -> None:
    (result,) = translate(ask, text="One two. Three", target="fr", alignments=True)
    assert result["text"] == "ONE TWO. THREE"
    assert service.calls[0][1] == [">>fra<< One two.", ">>fra<< Three"]
    assert result["lines"][0]["source"] == "One two."
    assert result["lines"][0]["hypotheses"][0]["alignments"] == [[0, 0], [1, 1]]


def test_models_are_chosen_by_name_or_pair(ask: Ask) -> None:
    assert translate(ask, source="ko", target="en")[0]["model"] == "ko-en"
    assert translate(ask, source="ko", target="en", model="second")[0]["model"] == "second"
    assert translate(ask, source="auto", target="", model="unnamed")[0]["source"] == "src"
    assert translate(ask, source="src", target="tgt")[0]["model"] == "unnamed"
    assert translate(ask, source="auto", target="", model="en-ko")[0]["target"] == "ko"


def test_a_stream_ends_with_the_whole(ask: Ask, service: FakeService) -> None:
    answer = ask(
        "/v1/translate",
        json={"text": ["One two. Three", ""], "source": "en", "target": "ko", "stream": True},
    )
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    *deltas, (last, result) = events(answer)
    assert [(name, data["line"], data["delta"]) for name, data in deltas] == [
        ("delta", 0, "ONE"), ("delta", 0, " TWO."), ("delta", 1, "THREE")
    ]  # fmt: skip
    assert last == "result"
    assert result["translations"] == translate(ask, text=["One two. Three", ""])
    assert events(
        ask("/v1/translate", json={"text": " ", "source": "en", "target": "ko", "stream": True})
    ) == [("result", {"translations": translate(ask, text=" ")})]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"text": ["fine", "\nlong"]}, 400),
        ({"text": "fine overload"}, 503),
        ({"text": "fine bug"}, 500),
        ({"text": "fine slow", "deadline_ms": 2000}, 504),
    ],
)
def test_an_error_after_the_first_word_is_the_last_event(
    ask: Ask, asked: dict[str, Any], status: int
) -> None:
    answer = ask("/v1/translate", json={"source": "en", "target": "ko", "stream": True, **asked})
    (first, (name, error)) = events(answer)
    assert (first[0], name, error["status"]) == ("delta", "error", status)
    assert status != 400 or error["detail"] == "text 2, line 1 is too long; shorten it"
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    "request_",
    [
        {"files": {"image": ("../../x.png", PNG, "image/png")}, "data": {"nbest": "2"}},
        {"json": {"image": base64.b64encode(PNG).decode(), "nbest": 2}},
        {
            "json": {
                "image": "data:image/png;base64," + base64.b64encode(PNG).decode(),
                "nbest": 2,
                "model": "captions",
            }
        },
    ],
    ids=["form", "json", "address"],
)
def test_captions(ask: Ask, request_: dict[str, Any]) -> None:
    answer = ask("/v1/caption", **request_).json()
    assert (answer["caption"], answer["model"], len(answer["hypotheses"])) == (
        "A DOG RUNS",
        "captions",
        2,
    )


def test_images_stay_in_memory(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was made")

    for name in ("NamedTemporaryFile", "TemporaryFile", "mkstemp", "SpooledTemporaryFile"):
        monkeypatch.setattr(tempfile, name, refuse)
    assert ask("/v1/caption", files={"image": PNG + bytes(5_000_000)}).status_code == 200


def test_captions_need_a_model(ask: Ask, service: FakeService) -> None:
    service.models = {"ko-en": service.models["ko-en"]}
    assert "no model for captions" in ask("/v1/caption", files={"image": PNG}).json()["detail"]


def test_explanations(ask: Ask, service: FakeService) -> None:
    answer = ask("/v1/explain", json={"text": "hello", "target": "ko"}).json()
    assert {**answer, "explanation": None} == {
        "source": "en",
        "target": "ko",
        "model": "en-ko",
        "explanation": None,
    }
    assert answer["explanation"]["text"] == "HELLO"
    assert answer["explanation"]["score"] is None, "NaN is none of JSON's numbers"
    asked = {
        "text": "hello",
        "target": "pt",
        "model": "many",
        "prefix": [7, 8],
        "nbest": 2,
        "trace": True,
    }
    assert ask("/v1/explain", json={**asked, "packed": True}).status_code == 200
    options = {"nbest", "prefix", "trace", "packed"}
    assert [
        (model, line, asked.model_dump(include=options))
        for model, line, asked in service.explanations
    ] == [
        ("en-ko", "hello", {"nbest": None, "prefix": "", "trace": False, "packed": False}),
        ("many", ">>por<< hello", {"nbest": 2, "prefix": [7, 8], "trace": True, "packed": True}),
    ]
    assert ask("/v1/explain", json={"text": "a", "model": "unnamed"}).status_code == 200, (
        "without attention, too"
    )


def test_continuations(ask: Ask) -> None:
    asked = {"text": "hello", "target": "ko", "prefix": [5], "count": 2}
    answer = ask("/v1/continuations", json=asked).json()
    assert (answer["source"], answer["target"], answer["model"]) == ("en", "ko", "en-ko")
    assert answer["continuations"][1] == {
        "prefix": [5, 11],
        "log_prob": -1.5,
        "text": "HELLO1",
        "score": -1.0,
        "tokens": ["▁a"],
        "log_probs": [-0.1],
        "words": [0],
    }
    assert (
        len(
            ask("/v1/continuations", json={"text": "hello", "target": "ko"}).json()["continuations"]
        )
        == 7
    )


def test_log_probabilities_and_undivided_lines(ask: Ask) -> None:
    lines = translate(ask, text="Come. Go", log_probs=True, split=False)[0]["lines"]
    assert [(line["source"], line["hypotheses"][0]["words"]) for line in lines] == [
        ("Come. Go", [0, 1])
    ]
    assert lines[0]["hypotheses"][0]["log_probs"] == [-0.5, -0.5]
    assert len(translate(ask, text="Come. Go", log_probs=True)[0]["lines"]) == 2


def test_explanations_of_images(ask: Ask) -> None:
    for request in ({"files": {"image": PNG}}, {"json": {"image": base64.b64encode(PNG).decode()}}):
        answer = ask("/v1/explain_image", **request).json()
        assert answer == {"model": "captions", "explanation": {"target": ["a", "dog", "runs"]}}


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
        assert wanted - 60 < service.calls[-1][3] <= wanted


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/v1/translate", {"text": "slow", "source": "en", "target": "ko"}, 504),
        ("/translate", {"q": "slow", "source": "en", "target": "ko"}, 504),
        ("/v2/translate", {"text": "slow", "source_lang": "en", "target_lang": "ko"}, 503),
    ],
)
def test_a_service_that_is_late_is_cancelled(
    ask: Ask, service: FakeService, path: str, asked: dict[str, str], status: int
) -> None:
    assert ask(path, json=asked, headers={"X-Deadline-Ms": "50"}).status_code == status
    assert service.cancelled == ["slow"]
