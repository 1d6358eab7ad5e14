"""Processes that serve are killed again and again, under load: how soon the next answer comes, and
whether it is right.

And a call that kills the process which answers it may do so three times and no more.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, permutations
from pathlib import Path

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
DEATHS = 3  # that a call may cause
POISON = "나는 독을 먹고 있었다"
PLANT = '''"""Let the processes that serve die where the C library gets a text with a word in it."""

import ctypes
import os
import signal
import sys


def is_poisonous(argument):
    texts = argument if isinstance(argument, ctypes.Array) and argument._type_ is ctypes.c_char_p else [argument]
    return any(isinstance(text, bytes) and {word!r} in text for text in texts)


class Library(ctypes.CDLL):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        base = self._FuncPtr

        class Function(base):
            _flags_, _restype_ = base._flags_, base._restype_

            def __call__(self, *arguments):
                if any(map(is_poisonous, arguments)):
                    os.kill(os.getpid(), signal.SIGSEGV)
                return super().__call__(*arguments)

        self._FuncPtr = Function


if any("regard.serving" in word for word in sys.orig_argv):
    ctypes.CDLL = Library
'''
"""Module that Python imports at its start, under the name `sitecustomize`."""


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
            self.change.wait_for(lambda: bool(self.right) and self.right[-1] > killed, PATIENCE)
        return time.monotonic() - killed


def restart(material: Material, folder: Path, count: int, seed: int) -> list[str]:
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
        texts = [" ".join(sentences) for sentences in permutations(SENTENCES, 3)]
        triples = [
            (model, text, server.translate(text, model))
            for text in texts
            for model in (STEADY, SWAPPED)
        ]
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
    problems += [f"{now} processes serve, {number} did"] * (now != number)
    problems += ["a call without an answer"] * bool(load.others["hung"])
    problems += server.tracebacks()
    problems += [
        f"{LATE}{len(late)} of {count} times no answer within {SOON:g} s; {max(seconds):.1f} s at most"
    ] * bool(late)
    problems += [
        f"{LATE}captions after {each:.1f} s, at the start after {start:.1f} s"
        for each in of_pytorch
        if each > start + SOON
    ]
    print(
        f"restarts: {count}, the next answer after {_summary(seconds)}; captions after {_summary(of_pytorch)}, at the start {start:.1f} s"
    )
    print(f"  right {len(load.right)}, wrong {len(load.wrong)}, {dict(load.others)}", flush=True)
    return problems


def _summary(seconds: list[float]) -> str:
    ordered = sorted(seconds) or [0.0]
    return f"{ordered[len(ordered) // 2]:.2f} s (median), {ordered[-1]:.2f} s (at most)"


def poison(material: Material, folder: Path) -> list[str]:
    """Make a call that kills the process which answers it, again and again; return what should not
    have been.
    """
    plant = folder / "plant"
    plant.mkdir(parents=True, exist_ok=True)
    (plant / "sitecustomize.py").write_text(PLANT.replace("{word!r}", repr("독을".encode())))
    problems = list[str]()
    outcomes = list[str]()
    processes = set[int]()
    with Served(folder / "poisoned", material, models=[STEADY], path=[plant]) as server:
        expected = server.expected[STEADY]
        for text in SENTENCES:
            processes |= {*server.workers()}
            outcomes.append(_outcome(server))
            answer = server.insist(translation(text))
            if answer is None or answer.status != 200:
                problems.append(f"another call, after {outcomes}: {answer}")
            elif (got := answer.values["translations"][0]["text"]) != expected[text]:
                problems.append(f"wrong: {text!r}: {got!r}")
        processes |= {*server.workers()}
    print(f"a poisonous call: {outcomes}; {len(processes) - 1} processes died", flush=True)
    if len(processes) - 1 != DEATHS or outcomes[:DEATHS] != ["closed"] * DEATHS:
        problems.append(f"a poisonous call killed {len(processes) - 1} processes: {outcomes}")
    if not all(
        outcome.startswith("503 ") and len(outcome) > len("503 ") + 10
        for outcome in outcomes[DEATHS:]
    ):
        problems.append(f"a poisonous call is not refused in a sentence: {outcomes}")
    return problems


def _outcome(server: Served) -> str:
    """Make the poisonous call once; return the status and sentence of its answer."""
    with suppress(BrokenAnswer, ConnectionError):
        if (answer := server.ask(translation(POISON))) is not None:
            return refusal(answer)
    return "closed"
