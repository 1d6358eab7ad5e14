"""Processes that serve are killed again and again, under load: how soon the next answer comes, and
whether it is right.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, permutations
from pathlib import Path
from statistics import median

from fuzz.exchanges import BrokenAnswer, request
from fuzz.hostile_requests import POSTED
from fuzz.material import Material
from fuzz.served import (
    CAPTIONS,
    PATIENCE,
    PAUSE,
    PYTORCH,
    SENTENCES,
    SERVING,
    STEADY,
    SWAPPED,
    Served,
    refusal,
    translation,
)

CLIENTS = 4
SOON = 2.0  # seconds until the next answer
LATE = "late: "
"""How problems begin that are only of time."""
QUIETEST = 1.5  # most seconds between an answer and the next kill


@dataclass
class Load:
    """Clients with texts of their own, and what became of their calls."""

    server: Served
    # When the calls that had a right answer were sent.
    right: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    stop: threading.Event = field(default_factory=threading.Event)
    change: threading.Condition = field(default_factory=threading.Condition)

    def use(self, expected: Sequence[tuple[str, str, str]]) -> None:
        """Ask for texts of models, one after the other and again from the first; what was not
        answered is asked again.
        """
        for model, text, translated in cycle(expected):
            while (wait := self._ask(model, text, translated)) is not None:
                if self.stop.wait(wait):
                    return

    def _ask(self, model: str, text: str, translated: str) -> float | None:
        """Ask once; return the seconds until the call is to be made again, or None if it was
        answered.
        """
        sent = time.monotonic()
        answer = None
        try:
            answer = self.server.ask(translation(text, model))
        except TimeoutError:
            self.others["hung"] += 1
        except (BrokenAnswer, ConnectionError):
            pass
        with self.change:
            if answer is None:
                self.others["closed"] += 1
                return PAUSE
            if answer.status != 200:
                self.others[refusal(answer)] += 1
                return float(answer.headers.get("retry-after", 1))
            got = answer.values["translations"][0]["text"]
            if got == translated:
                self.right.append(sent)
                self.change.notify_all()
            else:
                self.wrong.append(f"{text!r} by {model}: {got!r}")
        return 0.0 if self.stop.is_set() else None

    def seconds_until_answer(self, killed: float) -> float:
        """Wait for a right answer to a call that was sent after a moment; return the seconds from
        then on.
        """
        with self.change:
            self.change.wait_for(
                lambda: bool(self.right) and self.right[-1] > killed, PATIENCE
            )
        return time.monotonic() - killed


def restart(material: Material, folder: Path, count: int, seed: int) -> list[str]:  # noqa: C901 - one branch for each kind of answer
    """Kill the process that serves so many times, and now and then that of PyTorch; return what
    should not have been.
    """
    chance = random.Random(f"{seed} restarts")
    server = Served(folder / "restarted", material, models=[STEADY, SWAPPED, CAPTIONS])
    caption = request("/v1/caption", POSTED["/v1/caption"](""))
    began = time.monotonic()
    seconds = list[float]()
    of_pytorch = list[float]()
    with server:
        server.insist(caption)
        start = time.monotonic() - began
        load = Load(server)
        number = len(server.workers())
        triples = list[tuple[str, str, str]]()
        for sentences in permutations(SENTENCES, 3):
            text = " ".join(sentences)
            for model in (STEADY, SWAPPED):
                triples.append((model, text, server.translate(text, model)))
        clients = [
            threading.Thread(target=load.use, args=(triples[n::CLIENTS],), daemon=True)
            for n in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        for kill in range(count):
            time.sleep(chance.uniform(0, QUIETEST))
            killed = time.monotonic()
            assert server.kill_worker(SERVING), "nothing to kill"
            seconds.append(load.seconds_until_answer(killed))
            if kill % 10 == 0 and server.kill_worker(PYTORCH):
                killed = time.monotonic()
                server.insist(caption)
                of_pytorch.append(time.monotonic() - killed)
        load.stop.set()
        for client in clients:
            client.join(PATIENCE)
        server.insist(caption)
        now = len(server.workers())
    late = [each for each in seconds if each > SOON]
    problems = [f"wrong: {wrong}" for wrong in load.wrong]
    problems += server.tracebacks()
    if now != number:
        problems.append(f"{now} processes serve, {number} did")
    if load.others["hung"]:
        problems.append("a call without an answer")
    if late:
        problems.append(
            f"{LATE}{len(late)} of {count} answers, by {max(late):.1f} s at most"
        )
    if max(of_pytorch, default=0.0) > start + SOON:
        problems.append(f"{LATE}captions, by {max(of_pytorch):.1f} s at most")
    print(f"restarts: {count}, the next answer after {_summary(seconds)}")
    print(f"  captions after {_summary(of_pytorch)}, at the start {start:.1f} s")
    print(
        f"  right {len(load.right)}, wrong {len(load.wrong)}, {dict(load.others)}",
        flush=True,
    )
    return problems


def _summary(seconds: list[float]) -> str:
    seconds = seconds or [0.0]
    return f"{median(seconds):.2f} s (median), {max(seconds):.2f} s (at most)"
