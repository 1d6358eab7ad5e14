"""Processes that serve are killed again and again, under load: how soon the next answer comes, and
whether it is right.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from statistics import median

from fuzz.attackers import Client
from fuzz.exchanges import request
from fuzz.hostile_requests import POSTED
from fuzz.material import Material
from fuzz.served import CAPTIONS, PYTORCH, SENTENCES, SERVING, STEADY, SWAPPED, Served

CLIENTS = 4
SOON = 2.0  # seconds until the next answer
LATE = "late: "
"""How problems begin that are only of time."""
QUIETEST = 1.5  # most seconds between an answer and the next kill
CAPTION = request("/v1/caption", POSTED["/v1/caption"](""))


def restart(material: Material, folder: Path, count: int, seed: int) -> list[str]:
    """Kill the process that serves so many times, and now and then that of PyTorch; return what
    should not have been.
    """
    chance = random.Random(f"{seed} restarts")
    server = Served(folder / "restarted", material, models=[STEADY, SWAPPED, CAPTIONS])
    stop = threading.Event()
    clients = [Client(server) for _ in range(CLIENTS)]
    problems = list[str]()
    seconds = list[float]()
    of_pytorch = list[float]()
    began = time.monotonic()
    with server:
        start = _seconds_until_caption(server, began)
        workers = len(server.workers())
        load = [
            threading.Thread(target=client.use, args=(stop.is_set, 0.0), daemon=True)
            for client in clients
        ]
        for thread in load:
            thread.start()
        for kill in range(count):
            time.sleep(chance.uniform(0, QUIETEST))
            model = chance.choice((STEADY, SWAPPED))
            text = chance.choice(SENTENCES)
            assert server.kill_worker(SERVING), "nothing to kill"
            killed = time.monotonic()
            got = server.translate(text, model, insists=True)
            seconds.append(time.monotonic() - killed)
            if got != server.expected[model][text]:
                problems.append(f"wrong: {text!r} by {model}: {got!r}")
            killed = time.monotonic()
            if kill % 10 == 0 and server.kill_worker(PYTORCH):
                of_pytorch.append(_seconds_until_caption(server, killed))
        stop.set()
        for thread in load:
            thread.join()
        server.insist(CAPTION)
        now = len(server.workers())

    problems += server.tracebacks()
    for client in clients:
        problems += client.wrong
        problems += [f"refused: {refused}" for refused in client.refused]
    if now != workers:
        problems.append(f"{now} processes serve, {workers} did")
    late = [each for each in seconds if each > SOON]
    if late:
        problems.append(f"{LATE}{len(late)} answers, by {max(late):.1f} s at most")
    latest = max(of_pytorch, default=0.0)
    if latest > start + SOON:
        problems.append(f"{LATE}captions, by {latest:.1f} s at most")
    print(f"restarts: the next answer after {median(seconds):.2f} s (median)")
    print(f"  {max(seconds):.2f} s (at most); captions after {latest:.2f} s (at most)")
    print(*(f"  client: {client}" for client in clients), sep="\n", flush=True)
    return problems


def _seconds_until_caption(server: Served, start: float) -> float:
    server.insist(CAPTION)
    return time.monotonic() - start
