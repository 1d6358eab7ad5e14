"""Metrics: off unless asked for, behind a token if there is one, and without a label that tells of
people or texts.
"""

from __future__ import annotations

from collections.abc import Callable

from fake import Ask, FakeService
from prometheus_client.parser import text_string_to_metric_families

SECRET = "very-secret-text"


def samples(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the values of each series by its labels' values, in the order of their names."""
    table: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sample.labels[name] for name in sorted(sample.labels))
            table.setdefault(sample.name, {})[labels] = sample.value
    return table


def test_metrics_are_off_unless_asked_for(ask: Ask) -> None:
    assert ask("/metrics", "GET").status_code == 404


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


def test_counts(make_ask: Callable[..., Ask]) -> None:
    ask = make_ask(metrics=True, metrics_token="token")
    texts = [f"{SECRET} two. Three", "안녕"]
    asked = {"q": texts, "source": "auto", "target": "ko", "api_key": SECRET}
    ask("/translate", json=asked)
    ask(f"/translate?{SECRET}", json={"q": SECRET, "source": SECRET, "target": "ko"})
    ask(
        "/v1/translate",
        json={"text": "one two", "source": "en", "target": "ko", "stream": True},
    )
    ask(f"/{SECRET}", "GET")
    ask(f"/v1/models/{SECRET}", "GET")
    ask("/health", "BREW")
    answer = ask("/metrics", "GET", headers={"Authorization": "Bearer token"})
    assert answer.headers["content-type"].startswith("text/plain; version=")
    for hidden in (SECRET, "127.0.0.1", "_created"):
        assert hidden not in answer.text
    table = samples(answer.text)
    for request in (
        ("POST", "/translate", "200"),
        ("POST", "/translate", "400"),
        ("GET", "unmatched", "404"),
        ("GET", "/v1/models/{name}", "404"),
        ("other", "/health", "405"),
    ):
        assert table["regard_requests_total"][request] == 1
    # The Korean text was left as it is.
    assert table["regard_texts_total"] == {("en", "ko"): 2}
    assert table["regard_characters_total"]["en", "ko"] == len(texts[0]) + len(
        "one two"
    )
    assert table["regard_tokens_total"]["en", "ko"] == 5
    assert table["regard_request_duration_seconds_count"]["POST", "/translate"] == 2
    assert table["regard_requests_in_flight"] == {(): 1}  # the request for the metrics


def test_the_depth_of_the_queue_is_that_of_all_models(
    make_ask: Callable[..., Ask], service: FakeService
) -> None:
    ask = make_ask(metrics=True)
    assert samples(ask("/metrics", "GET").text)["regard_queue_depth"] == {(): 0}
    service.backlog = {"a": (5, 100), "b": (7, 200)}
    assert samples(ask("/metrics", "GET").text)["regard_queue_depth"] == {(): 12}
