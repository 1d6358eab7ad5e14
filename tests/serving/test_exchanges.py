"""Requests that are answered, and their answers: exchanges.json has both, and the lines that a model
translates for each; settings change them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from fake import Ask, FakeService

EXCHANGES = Path(__file__).with_name("exchanges.json").read_text(encoding="utf-8")
HELLO = {"q": "hello", "source": "en", "target": "ko"}


def test_answers_are_those_of_the_record(ask: Ask, service: FakeService) -> None:
    """A stream of events is recorded as the lines that are sent."""
    for case in json.loads(EXCHANGES):
        expected = (case.pop("name"), case.pop("answer"), case.pop("lines"))
        name, *_ = expected
        answer = ask(**case)
        is_stream = answer.headers["content-type"].startswith("text/event-stream;")
        content = answer.text.splitlines() if is_stream else answer.json()
        lines = [line for call in service.calls for line in call[1]]
        assert (name, content, lines) == expected

        service.calls.clear()


def test_parameters_come_in_parts(ask: Ask) -> None:
    parts = {name: (None, value) for name, value in HELLO.items()}
    assert ask("/translate", files=parts).json() == {"translatedText": "HELLO"}


def test_html_asks_for_alignments(ask: Ask, service: FakeService) -> None:
    ask("/translate", json={**HELLO, "format": "html"})
    assert service.calls[0][2].alignments


def test_what_the_servers_patterns_match_is_kept(
    make_ask: Callable[..., Ask], service: FakeService
) -> None:
    ask = make_ask(keep=("Foobar( Suite)?", r"[A-Z]-\d+"))
    answer = ask("/translate", json={**HELLO, "q": "Open Foobar Suite b-7 B-7"}).json()
    assert answer["translatedText"] == "OPEN Foobar Suite B-7 B-7"
    assert service.calls[0][1] == ["Open b-7"]


def test_a_server_that_ends_is_not_ready(ask: Ask, service: FakeService) -> None:
    assert ask("/ready", "GET").status_code == 200

    service.is_ready = False
    assert ask("/ready", "GET").status_code == 503
    assert ask("/translate", json=HELLO).status_code == 200, "open connections go on"
