"""Metrics: off unless asked for, behind a token if there is one, and without a label that tells of
people or texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fake import Ask, FakeService

SECRET = "very-secret-text"
COUNTED = """\
regard_requests_total{method="POST",route="/translate",status="200"} 1.0
regard_requests_total{method="POST",route="/translate",status="400"} 1.0
regard_requests_total{method="POST",route="/v1/translate",status="200"} 1.0
regard_requests_total{method="POST",route="/translate_file",status="200"} 1.0
regard_requests_total{method="GET",route="unmatched",status="404"} 1.0
regard_requests_total{method="GET",route="/v1/models/{name}",status="404"} 1.0
regard_requests_total{method="other",route="/health",status="405"} 1.0
regard_request_duration_seconds_count{method="POST",route="/translate"} 2.0
regard_request_duration_seconds_count{method="POST",route="/v1/translate"} 1.0
regard_request_duration_seconds_count{method="POST",route="/translate_file"} 1.0
regard_request_duration_seconds_count{method="GET",route="unmatched"} 1.0
regard_request_duration_seconds_count{method="GET",route="/v1/models/{name}"} 1.0
regard_request_duration_seconds_count{method="other",route="/health"} 1.0
regard_requests_in_flight 1.0
regard_queue_depth 12.0
regard_texts_total{source="en",target="ko"} 4.0
regard_characters_total{source="en",target="ko"} 41.0
regard_tokens_total{source="en",target="ko"} 5.0
regard_documents_total{source="en",target="ko"} 1.0
"""


def test_the_token_is_wanted(make_ask: Callable[..., Ask]) -> None:
    ask = make_ask(metrics=True, metrics_token="tökén")
    for header in ("", "Bearer", "Bearer x", "tökén", "Bearer tökén"):
        answer = ask("/metrics", "GET", headers={"Authorization": header.encode()})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (
            401,
            "Bearer",
        )
    ask = make_ask(metrics=True, metrics_token="t")

    assert ask("/metrics", "GET", headers={"Authorization": "Bearer t"}).is_success


def test_counts(make_ask: Callable[..., Ask], service: FakeService) -> None:
    """A text that is left as it is, as the Korean one, is not counted; the request for the metrics
    is in flight.
    """
    service.backlog = {"a": (5, 100), "b": (7, 200)}
    ask = make_ask(metrics=True, metrics_token="token")
    texts = [f"{SECRET} two. Three", "안녕"]
    ask("/translate", json={"q": texts, "source": "auto", "target": "ko"})
    ask(f"/translate?{SECRET}", json={"q": SECRET, "source": SECRET, "target": "ko"})
    streamed = {"text": "one two", "source": "en", "target": "ko", "stream": True}
    ask("/v1/translate", json=streamed)
    page = {"file": ("a.html", b"<p>one</p><p>four</p>")}
    form = {"source": "en", "target": "ko"}
    ask("/translate_file", data=form, files=page)
    ask(f"/{SECRET}", "GET")
    ask(f"/v1/models/{SECRET}", "GET")
    ask("/health", "BREW")
    answer = ask("/metrics", "GET", headers={"Authorization": "Bearer token"})

    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert SECRET not in answer.text

    lines = answer.text.splitlines(keepends=True)
    counted = [line for line in lines if not re.match("#|.*seconds_(bucket|sum)", line)]
    assert "".join(counted) == COUNTED
