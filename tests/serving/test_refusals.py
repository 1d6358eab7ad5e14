"""Requests that are refused, or taken although they are strange, and what they are answered:
refusals.jsonl has both.

A line has a request (text with characters up to 255 for bytes; a list of texts, each with how often
it is repeated) and its answer. `PYTHONPATH=.:tests python tests/serving/test_refusals.py` writes
the answers again: what git then shows has changed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fake import FakeService
from fuzz.exchanges import ask as exchange
from helpers.system_marks import posix

from regard.serving.application import create_app
from regard.serving.keys import add_key
from regard.serving.server_settings import ServerSettings
from regard.serving.serving_process import server_config
from regard.serving.supervisor import listen

RECORD = Path(__file__).with_name("refusals.jsonl")
SHOWN = ("retry-after", "connection", "allow", "www-authenticate")
SHAPES = {"error", "message", "detail"}


def cases() -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()
    ]


def seen(answer: httpx.Response) -> dict[str, Any]:
    """Return what the record says of an answer; of one that takes the request, the status alone."""
    headers = {name: answer.headers[name] for name in SHOWN if name in answer.headers}
    if answer.status_code < 400:
        return {"status": answer.status_code}
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


async def answers(folder: Path) -> list[dict[str, Any]]:
    """Send all requests: those of a connection to a server, the others to an application."""
    settings = ServerSettings(deadline=0.5)
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(
        server_config(create_app(FakeService(), settings), settings)
    )
    running = asyncio.create_task(server.serve([listener]))
    add_key(folder / "keys.json", "a")
    plain = create_app(FakeService(), ServerSettings())
    found = list[httpx.Response]()
    for case in cases():
        if "raw" in case:
            address = listener.getsockname()
            sent = written(case["raw"])
            answer = await asyncio.to_thread(exchange, address, sent, "127.0.0.1", 60.0)
            assert answer is not None
            found.append(
                httpx.Response(
                    answer.status, headers=answer.headers, content=answer.body
                )
            )
            continue
        own = case.get("settings", {})
        if "require_key" in own:
            own["key_file"] = str(folder / "keys.json")
        app = create_app(FakeService(), ServerSettings(**own)) if own else plain
        found.append(await send(app, case))
    server.should_exit = True
    await running
    return [seen(answer) for answer in found]


async def send(app: Any, case: dict[str, Any]) -> httpx.Response:
    """Send a request to an application, so often as the case says; return the last answer."""
    headers = [
        (name.encode(), value.encode("latin-1"))
        for name, value in case["headers"].items()
    ]
    path = written(case["path"]).decode()
    content = written(case["content"])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost"
    ) as client:
        for _ in range(case.get("times", 1)):
            answer = await client.request(
                case.get("method", "POST"), path, headers=headers, content=content
            )
    return answer


@posix
def test_refusals_are_those_of_the_record(tmp_path: Path) -> None:
    """Each is a sentence; none is an internal error unless the fake service has one."""
    for case, answer in zip(cases(), asyncio.run(answers(tmp_path)), strict=True):
        assert (case["name"], answer) == (case["name"], case["answer"])
        *_, sentence = answer.values()
        is_refused = answer["status"] >= 400 and case.get("method") != "HEAD"
        assert not is_refused or 10 < len(sentence) < 1_500
        assert answer["status"] != 500 or '"bug"' in case["name"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        pairs = zip(cases(), asyncio.run(answers(Path(temporary))), strict=True)
        lines = [
            json.dumps({**case, "answer": answer}, ensure_ascii=False)
            for case, answer in pairs
        ]
    RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(lines)} requests\n")
