"""The endpoints under /v1 beyond their answers: searches, images, explanations, deadlines."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace

import pytest
from fake import Ask, FakeService

from regard.serving.service import ExplanationRequest

PNG = b"\x89PNG\r\n\x1a\n and so on"


def test_the_search_is_that_asked_for(ask: Ask, service: FakeService) -> None:
    wanted = {"nbest": 2, "alignments": True, "attention": "cross", "max_length": 9}
    asked = {"text": "hello", "source": "en", "target": "ko", **wanted}
    assert ask("/v1/translate", json=asked).status_code == 200

    search = service.calls[0][2]
    assert search.model_dump(include={*wanted}) == wanted


def test_a_stream_that_is_late_ends_with_an_error(ask: Ask) -> None:
    asked = {"text": "fine slow", "source": "en", "target": "ko", "stream": True}
    answer = ask("/v1/translate", json={**asked, "deadline_ms": 500})
    first, last, _ = answer.text.split("\n\n")
    assert first.startswith("event: delta")
    assert last.startswith("event: error")
    assert '"status":504' in last
    assert "not done within 0.5 seconds" in last


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


def test_the_name_of_a_model_may_be_no_utf_8(ask: Ask, service: FakeService) -> None:
    service.models = {"\udcff": replace(service.models["en-ko"], name="\udcff")}
    (model,) = ask("/v1/models", "GET").json()["models"]
    assert model["name"] == "\udcff"


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
