"""The endpoints under /v1: hypotheses, alignments, attention, streams, captions, explanations, models."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fake import Ask, FakeService

PNG = b"\x89PNG\r\n\x1a\n and so on"


def translate(ask: Ask, **asked: Any) -> Any:
    answer = ask("/v1/translate", json={"text": "hello", "source": "en", "target": "ko", **asked})
    return answer.json()["translations"] if answer.status_code == 200 else answer.json()["detail"]


def events(answer: httpx.Response) -> list[tuple[str, Any]]:
    """Parse server-sent events."""
    blocks = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def test_a_plain_translation_is_short(ask: Ask) -> None:
    assert translate(ask) == [{"text": "HELLO", "source": "en", "target": "ko", "model": "en-ko"}]
    assert [item["text"] for item in translate(ask, text=["a", "", "B. C"])] == ["A", "", "B. C"]
    assert translate(ask, text="x again again")[0]["warnings"] == ["repeated"]
    assert [item.get("doubtful") for item in translate(ask, text=["A. Unlearnt.", "A. unlearnt.", ""])] == [
        None,
        True,
        None,
    ]
    assert translate(ask, source="auto", target="en") == [
        {"text": "hello", "source": "en", "target": "en", "model": None, "confidence": 0.98}
    ]


@pytest.mark.parametrize("asked", [{"scores": True}, {"format": "html"}])
def test_a_model_of_several_sentences_a_line_gets_lines_whole(
    ask: Ask, service: FakeService, asked: dict[str, Any]
) -> None:
    text = "One two. Three.\nFour five. Six."
    body = {"text": text, "source": "en", "target": "ko", **asked}
    counts = list[int]()
    for service.splits_sentences in (True, False):
        assert ask("/v1/translate", json=body).status_code == 200
        counts.append(len(service.calls[-1][1]))
    assert counts == [4, 1 if "format" in asked else 2]


def test_lines_show_what_was_asked_for(ask: Ask, service: FakeService) -> None:
    (result,) = translate(ask, text="One two. Three", nbest=2, alignments=True, attention="cross", beam=4, max_length=9)
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


def test_codes_of_target_languages_are_put_before_lines_and_not_counted(ask: Ask, service: FakeService) -> None:
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
    assert "there are: ko-en, en-ko" in translate(ask, model="../../etc/passwd")
    assert "no model of translation named" in translate(ask, model="captions")
    assert translate(ask, target="") == "the target language is missing; there are: en, ko, fr, pt, tgt"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"beams": 4}, 'unknown parameter "beams"; did you mean `beam`?'),
        ({"beam": "4"}, '`beam`: input should be a valid integer, got "4"'),
        ({"beam": 0}, "`beam`: input should be greater than or equal to 1, got 0"),
        ({"text": 5}, "`text`: wanted a text or a list of texts, got 5"),
        ({"text": None}, "`text`: wanted a text or a list of texts, got null"),
        ({"text": ["a", "", "b", None, 5]}, "`text`: text 4 is null, text 5 is 5; give texts"),
        ({"format": "pdf"}, "`format`: input should be 'text', 'html' or 'xml', got \"pdf\""),
        ({"deadline_ms": -1}, "`deadline_ms`"),
        ({"nbest": 1000}, "`nbest`: input should be less than or equal to 100"),
        ({"nbest": 3, "beam": 2}, "`nbest`: wanted 1 to the beam (2), got 3; lower it, or widen the beam"),
        ({"nbest": 3, "beam": 2, "target": "en"}, "`nbest`: wanted 1 to the beam (2), got 3"),
        ({"nbest": 100, "beam": 1, "text": ["", " "]}, "`nbest`: wanted 1 to the beam (1), got 100"),
        ({"text": "Short.\nLong", "target": "ko"}, "text 1, line 2 is too long; shorten it"),
    ],
)
def test_wrong_parameters_are_named(ask: Ask, asked: dict[str, Any], sentence: str) -> None:
    assert sentence in translate(ask, **asked)


def test_a_stream_ends_with_the_whole(ask: Ask, service: FakeService) -> None:
    answer = ask("/v1/translate", json={"text": ["One two. Three", ""], "source": "en", "target": "ko", "stream": True})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    *deltas, (last, result) = events(answer)
    assert [(name, data["line"], data["delta"]) for name, data in deltas] == [
        ("delta", 0, "ONE"), ("delta", 0, " TWO."), ("delta", 1, "THREE")
    ]  # fmt: skip
    assert last == "result"
    assert result["translations"] == translate(ask, text=["One two. Three", ""])
    assert events(ask("/v1/translate", json={"text": " ", "source": "en", "target": "ko", "stream": True})) == [
        ("result", {"translations": translate(ask, text=" ")})
    ]


def test_errors_of_a_stream(ask: Ask) -> None:
    asked = {"source": "en", "target": "ko", "stream": True}
    long = ask("/v1/translate", json={**asked, "text": "long"})
    assert (long.status_code, long.json()["detail"]) == (400, "text 1, line 1 is too long; shorten it")
    (_, error) = events(ask("/v1/translate", json={**asked, "text": ["fine", "\nlong"]}))
    assert (error[0], error[1]["detail"]) == ("error", "text 2, line 1 is too long; shorten it")
    early = ask("/v1/translate", json={**asked, "text": "overload"})
    assert (early.status_code, early.headers["retry-after"]) == (503, "7")
    late = events(ask("/v1/translate", json={**asked, "text": "fine overload"}))
    assert [name for name, _ in late] == ["delta", "error"]
    assert late[1][1]["status"] == 503
    hidden = ask("/v1/translate", json={**asked, "text": "fine bug"})
    assert events(hidden)[1][1]["status"] == 500
    assert "secret" not in hidden.text
    slow = events(ask("/v1/translate", json={**asked, "text": "fine slow", "deadline_ms": 2000}))
    assert (slow[1][0], slow[1][1]["status"]) == ("error", 504)
    for option in ({"beam": 4}, {"format": "html"}, {"scores": True}, {"alignments": True}):
        assert "greedily" in ask("/v1/translate", json={**asked, "text": "x", **option}).json()["detail"]


@pytest.mark.parametrize(
    "request_",
    [
        {"files": {"image": ("../../x.png", PNG, "image/png")}, "data": {"nbest": "2"}},
        {"json": {"image": base64.b64encode(PNG).decode(), "nbest": 2}},
        {"json": {"image": "data:image/png;base64," + base64.b64encode(PNG).decode(), "nbest": 2, "model": "captions"}},
    ],
    ids=["form", "json", "address"],
)
def test_captions(ask: Ask, request_: dict[str, Any]) -> None:
    answer = ask("/v1/caption", **request_).json()
    assert (answer["caption"], answer["model"], len(answer["hypotheses"])) == ("A DOG RUNS", "captions", 2)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"files": {"image": b"GIF"}}, "the image is none"),
        ({"json": {"image": "a!"}}, "not Base64"),
        ({"json": {"image": "é" * 8}}, "not Base64"),
        ({"json": {}}, "`image` is missing"),
        ({"json": {"image": 5}}, "`image`"),
        ({"files": {"image": b"GIF"}, "data": {"beam": "2", "nbest": "4"}}, "`nbest`: wanted 1 to the beam (2), got 4"),
        ({"json": {"image": "", "model": "ko-en"}}, "there is no model of captions named"),
    ],
)
def test_images_that_are_refused(ask: Ask, request_: dict[str, Any], sentence: str) -> None:
    answer = ask("/v1/caption", **request_)
    assert answer.status_code == 400
    assert sentence in answer.json()["detail"]


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
    assert {**answer, "explanation": None} == {"source": "en", "target": "ko", "model": "en-ko", "explanation": None}
    assert answer["explanation"]["text"] == "HELLO"
    assert answer["explanation"]["score"] is None, "NaN is none of JSON's numbers"
    asked = {"text": "hello", "target": "pt", "model": "many", "prefix": [7, 8], "nbest": 2, "trace": True}
    assert ask("/v1/explain", json={**asked, "packed": True}).status_code == 200
    options = {"nbest", "prefix", "trace", "packed"}
    assert [(model, line, asked.model_dump(include=options)) for model, line, asked in service.explanations] == [
        ("en-ko", "hello", {"nbest": None, "prefix": "", "trace": False, "packed": False}),
        ("many", ">>por<< hello", {"nbest": 2, "prefix": [7, 8], "trace": True, "packed": True}),
    ]
    assert ask("/v1/explain", json={"text": "a", "model": "unnamed"}).status_code == 200, "without attention, too"
    assert "nothing to explain" in ask("/v1/explain", json={"text": "a", "target": "en"}).json()["detail"]


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
    assert len(ask("/v1/continuations", json={"text": "hello", "target": "ko"}).json()["continuations"]) == 7


@pytest.mark.parametrize(
    "changes",
    [{"prefix": [-1]}, {"prefix": [1.5]}, {"prefix": [1 << 31]}, {"prefix": 3}, {"prefix": ["a"]}, {"nbest": 0}],
)
def test_explanations_that_are_refused(ask: Ask, changes: dict[str, Any]) -> None:
    answer = ask("/v1/explain", json={"text": "a", "target": "ko", **changes})
    assert answer.status_code == 400
    assert f"`{next(iter(changes))}`" in answer.json()["detail"]


def test_log_probabilities_and_undivided_lines(ask: Ask) -> None:
    asked = {"text": "Come. Go", "target": "ko", "source": "en", "log_probs": True}
    lines = ask("/v1/translate", json={**asked, "split": False}).json()["translations"][0]["lines"]
    assert [(line["source"], line["hypotheses"][0]["words"]) for line in lines] == [("Come. Go", [0, 1])]
    assert lines[0]["hypotheses"][0]["log_probs"] == [-0.5, -0.5]
    assert len(ask("/v1/translate", json=asked).json()["translations"][0]["lines"]) == 2


def test_explanations_of_images(ask: Ask) -> None:
    for request in ({"files": {"image": PNG}}, {"json": {"image": base64.b64encode(PNG).decode()}}):
        answer = ask("/v1/explain_image", **request).json()
        assert answer == {"model": "captions", "explanation": {"target": ["a", "dog", "runs"]}}
    assert "the image is none" in ask("/v1/explain_image", files={"image": b"x"}).json()["detail"]
    assert "ko-en" in ask("/v1/explain_image", json={"image": "", "model": "ko-en"}).json()["detail"]


def test_models(ask: Ask, service: FakeService) -> None:
    models = ask("/v1/models", "GET").json()["models"]
    assert [model["name"] for model in models] == list(service.models)
    assert models[0]["pairs"] == [{"source": "ko", "target": "en"}]
    assert ask("/v1/models/ko-en", "GET").json() == {**models[0], "readme": "# ko-en\n"}
    for name in ("none", "..%2F..%2Fetc%2Fpasswd", "%00"):
        assert ask(f"/v1/models/{name}", "GET").status_code == 404


def test_deadlines_are_those_asked_for_up_to_the_servers(make_ask: Callable[..., Ask], service: FakeService) -> None:
    ask = make_ask(deadline=500.0)
    for headers, milliseconds, wanted in (
        ({}, None, 500),
        ({}, 200_000, 200),
        ({"X-Deadline-Ms": "100000"}, None, 100),
        ({}, 600_000, 500),
    ):
        asked = {"text": "hello", "source": "en", "target": "ko"} | (
            {"deadline_ms": milliseconds} if milliseconds else {}
        )
        assert ask("/v1/translate", json=asked, headers=headers).status_code == 200
        assert wanted - 60 < service.calls[-1][3] <= wanted
    for header in ("0", "x", "-1", "9" * 30):
        assert ask("/v1/translate", json={"text": "a"}, headers={"X-Deadline-Ms": header}).status_code == 400


@pytest.mark.parametrize(("path", "status"), [("/v1/translate", 504), ("/translate", 504), ("/v2/translate", 503)])
def test_a_service_that_is_late_is_cancelled(ask: Ask, service: FakeService, path: str, status: int) -> None:
    names = ("text", "source_lang", "target_lang") if path == "/v2/translate" else ("text", "source", "target")
    asked = dict(zip(names, ("slow", "en", "ko"), strict=True)) | ({"q": "slow"} if path == "/translate" else {})
    assert ask(path, json=asked, headers={"X-Deadline-Ms": "50"}).status_code == status
    assert service.cancelled == ["slow"]
