"""Mishaps while a server works: processes that are killed, files that change under it, links that
lead elsewhere.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fuzz.exchanges import BrokenAnswer, read, request, send
from fuzz.http_cases import HttpCase, Report, kind
from fuzz.material import SECRET
from fuzz.served import (
    FOLDER,
    PYTORCH,
    SENTENCES,
    SERVING,
    STEADY,
    SWAPPED,
    Served,
    is_unavailable,
)

# Seconds in which a changed file has to be in use, or a killed process in its place.
WAIT = 30.0
# Which model has the answers of a runtime file.
OTHER = {
    "translator": STEADY,
    "recurrent": SWAPPED,
}


@kind(share=0.3)
def killed_process(chance: random.Random) -> HttpCase:
    """Kill the process that answers, or that of PyTorch too, in the middle of a request: asked
    again, it is answered.
    """
    wanted = chance.choice((STEADY, FOLDER))
    texts = chance.choices(SENTENCES, k=chance.choice((1, 20, 200)))
    pause = chance.choice((0.0, 0.005, 0.05))
    killed = chance.choice(((SERVING,), (SERVING, PYTORCH)))

    def attack(server: Served) -> Report:
        start = time.monotonic()
        model = wanted if wanted in server.models else STEADY
        data = request("/v1/translate", {"text": texts, "target": "en", "model": model})
        with server.connect() as connection, connection.makefile("rb") as stream:
            send(connection, data)
            time.sleep(pause)
            server.kill_worker(*killed)
            with suppress(BrokenAnswer):
                read(stream)
        answer = server.insist(data)
        seconds = time.monotonic() - start
        if answer is None or answer.status != 200:
            return Report("down", (f"after a killed process: {answer}",), seconds)
        got = [each["text"] for each in json.loads(answer.body)["translations"]]
        if got != [server.expected[model][text] for text in texts]:
            return Report("wrong", ("the answer after a killed process",), seconds)
        return Report("slow" if seconds > WAIT else "done", (), seconds)

    count = f"{len(texts)} texts of {wanted}"
    return HttpCase(f"{' and '.join(killed)} killed after {pause} s, {count}", attack)


@kind(share=0.3)
def swapped_file(chance: random.Random) -> HttpCase:
    """Put another runtime file in the place of a served one, renamed or copied over it: no third
    answer comes.
    """
    in_place = chance.random() < 0.5
    text = chance.choice(SENTENCES)
    pause = chance.choice((0.0, 0.05))

    def attack(server: Served) -> Report:
        start = time.monotonic()
        known = {server.expected[model][text] for model in OTHER.values()}
        for origin, model in OTHER.items():
            end = time.monotonic() + WAIT
            server.put(SWAPPED, origin, in_place)
            wanted = server.expected[model][text]
            while (got := server.translate(text, SWAPPED)) != wanted:
                if got not in known and not is_unavailable(got):
                    return Report("wrong", (f"{got!r} is of neither file",))
                if time.monotonic() > end:
                    return Report("down", (f"the new file is not in use: {got!r}",))
                time.sleep(pause)
        return Report("done", seconds=time.monotonic() - start)

    way = "copied" if in_place else "renamed"
    return HttpCase(f"a runtime file {way} over a served one", attack)


@contextmanager
def _linked(server: Served, name: str) -> Iterator[None]:
    """Let a file of the folder that is served be a link to a file elsewhere, and have the folder
    loaded again.
    """
    path = server.path(FOLDER) / name
    kept = server.folder / "kept"
    if has_file := path.exists():
        path.rename(kept)
    path.symlink_to(server.folder / "secret")
    os.utime(server.path(FOLDER) / "config.json")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        if has_file:
            kept.rename(path)
        os.utime(server.path(FOLDER) / "config.json")


@kind(share=0.2)
def linked_file(chance: random.Random) -> HttpCase:
    """Link a file of a served folder to one elsewhere: its content never gets into an answer, nor
    into an export.
    """
    name = chance.choice(("README.md", "languages.json", "alignment.json", "data.json"))

    def attack(server: Served) -> Report:
        with _linked(server, name):
            end = time.monotonic() + (3 if FOLDER in server.models else 0)
            while time.monotonic() < end:
                answer = server.ask(request(f"/v1/models/{FOLDER}"))
                if answer and SECRET.encode() in answer.body:
                    return Report("leaked", ("the target of a link in an answer",))
                time.sleep(0.2)
            if (server.folder / "secret").read_text() != SECRET:
                return Report("leaked", ("the target of a link was written",))
            exports = Path(os.environ["REGARD_CACHE"]).glob("model-*")
            if any(SECRET.encode() in path.read_bytes() for path in exports):
                return Report("leaked", ("the target of a link in an export",))
        return Report("done")

    return HttpCase(f"{name} of a served folder is a link", attack)
