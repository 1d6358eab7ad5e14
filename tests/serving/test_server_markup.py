"""HTML and XML through the three APIs: a fake model, which writes all in capitals, breaks code."""

from __future__ import annotations

from typing import Any

import pytest
from fake import Ask

TEXT = "<p>Open {file} at <b>7:30 now</b>.</p><p>Go &amp; see.</p>"
KEPT = "<p>OPEN {file} AT <b>7:30 NOW</b>.</p><p>GO &amp; SEE.</p>"
PAIR = {"source": "en", "target": "ko"}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "LibreTranslate": ("/translate", {**PAIR, "q": TEXT, "format": "html"}),
    "own": ("/v1/translate", {**PAIR, "text": TEXT, "format": "html"}),
    "own, XML": ("/v1/translate", {**PAIR, "text": TEXT, "format": "xml"}),
    "DeepL": (
        "/v2/translate",
        {"text": [TEXT], "target_lang": "KO", "tag_handling": "html"},
    ),
    "DeepL, XML": (
        "/v2/translate",
        {"text": [TEXT], "target_lang": "KO", "tag_handling": "xml"},
    ),
}


def translated(ask: Ask, api: str) -> dict[str, Any]:
    """Return the answer of one of the APIs, or its only translation."""
    path, body = REQUESTS[api]
    answer = ask(path, json=body).json()
    (result,) = answer.get("translations", [answer])
    assert isinstance(result, dict)
    return result


@pytest.mark.parametrize("api", REQUESTS)
def test_code_of_markup_is_kept(ask: Ask, api: str) -> None:
    result = translated(ask, api)
    assert KEPT in (result.get("translatedText"), result.get("text"))
    assert "broken" not in result


@pytest.mark.parametrize("api", REQUESTS)
def test_a_sentence_that_no_try_keeps_is_left_and_marked(
    ask: Ask, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fake.translation", lambda line: f"{line.upper()} {{y}}")
    result = translated(ask, api)
    assert TEXT in (result.get("translatedText"), result.get("text"))
    if api.startswith("own"):
        assert result["broken"]
        assert "{y}" in " ".join(result["warnings"])
