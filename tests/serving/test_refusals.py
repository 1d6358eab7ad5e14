"""Requests that are refused, or taken although they are strange, and what they are answered:
refusals.jsonl has both.

A line has a request (text with characters up to 255 for bytes; a list of texts, each with how often
it is repeated) and its answer. `PYTHONPATH=.:tests python tests/serving/test_refusals.py` writes
the answers again: what git then shows has changed.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import httpx
from fake import FakeService
from fuzz.exchanges import ask as exchange
from helpers.system_marks import posix
from running_server import serving

from regard.requests.server_settings import ServerSettings
from regard.serving.application import create_app
from regard.serving.keys import add_key

RECORD = Path(__file__).with_name("refusals.jsonl")
SHOWN = (
    "retry-after",
    "connection",
    "allow",
    "www-authenticate",
    "access-control-allow-origin",
)
SHAPES = {"error", "message", "detail"}


def cases() -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()
    ]


def seen(answer: httpx.Response) -> dict[str, Any]:
    """Return what the record says of an answer; of one that takes the request, status and headers."""
    headers = {name: answer.headers[name] for name in SHOWN if name in answer.headers}
    if answer.status_code < 400:
        return {"status": answer.status_code, **headers}
    if "allow" in headers:
        headers["allow"] = ", ".join(sorted(headers["allow"].split(", ")))
    try:
        content = answer.json()
    except ValueError:
        return {"status": answer.status_code, **headers, "text": answer.text}
    (shape,) = SHAPES & set(content)
    return {"status": answer.status_code, **headers, shape: content[shape]}


def written(text: str | list[tuple[str, int]]) -> bytes:
    """Return the bytes of a text, or of texts that are repeated."""
    parts = [(text, 1)] if isinstance(text, str) else text
    return "".join(part * count for part, count in parts).encode("latin-1")


def answers(folder: Path) -> list[dict[str, Any]]:
    """Send all requests: those of a connection to a server, the others to an application."""
    add_key(folder / "keys.json", "a")
    plain = create_app(FakeService(), ServerSettings())
    found = list[dict[str, Any]]()
    with serving(FakeService(), deadline=0.5) as address:
        server = ("127.0.0.1", int(address.rpartition(":")[2]))
        for case in cases():
            if "raw" in case:
                raw = exchange(server, written(case["raw"]), "127.0.0.1", 60.0)
                assert raw is not None
                headers = raw.headers
                answer = httpx.Response(raw.status, headers=headers, content=raw.body)
            else:
                settings = case.get("settings", {})
                if "require_key" in settings:
                    settings["key_file"] = str(folder / "keys.json")
                app = plain
                if settings:
                    app = create_app(FakeService(), ServerSettings(**settings))
                answer = asyncio.run(send(app, case))
            found.append(seen(answer))
    return found


async def send(app: Any, case: dict[str, Any]) -> httpx.Response:
    """Send a request to an application, so often as the case says; return the last answer."""
    headers = [
        (name, value.encode("latin-1")) for name, value in case["headers"].items()
    ]
    path = written(case["path"]).decode()
    content = written(case["content"])
    transport = httpx.ASGITransport(app)
    client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
    for _ in range(case.get("times", 1)):
        answer = await client.request(
            case.get("method", "POST"), path, headers=headers, content=content
        )
    return answer


@posix
def test_refusals_are_those_of_the_record(tmp_path: Path) -> None:
    """Each is a sentence; none is an internal error unless the fake service has one."""
    for case, answer in zip(cases(), answers(tmp_path), strict=True):
        assert (case["name"], answer) == (case["name"], case["answer"])
        *_, sentence = answer.values()
        is_refused = answer["status"] >= 400 and case.get("method") != "HEAD"
        assert not is_refused or 10 < len(sentence) < 1_500
        assert answer["status"] != 500 or '"bug"' in case["name"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        pairs = list(zip(cases(), answers(Path(temporary)), strict=True))
    with RECORD.open("w", encoding="utf-8") as file:
        for case, answer in pairs:
            file.write(
                json.dumps({**case, "answer": answer}, ensure_ascii=False) + "\n"
            )
