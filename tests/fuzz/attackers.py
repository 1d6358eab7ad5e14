"""Eight attackers of mixed kinds beside a well-behaved client: what it still gets, memory, and the
end of the server.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import resource
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median

import fuzz.hostile_requests  # noqa: F401 - registers its kinds
from fuzz.exchanges import BrokenAnswer, read, request, send
from fuzz.http_cases import KINDS, Exchange
from fuzz.material import Material
from fuzz.process import end_with
from fuzz.served import (
    DEADLINE,
    NO_ANSWER,
    PYTORCH,
    SENTENCES,
    SERVING,
    STEADY,
    SWAPPED,
    Served,
    translation,
    worker,
)

from regard.serving.keys import add_key

PROCESSES = get_context("fork")
REQUESTS = 600  # a minute, of each key or address
DESCRIPTORS = 512  # files and connections that the server may have open
IDLE = 700  # connections that one attacker holds
UNREAD = 24  # answers that one attacker leaves unread
CLIENT = "127.0.0.2"
PAUSE = 0.1  # seconds between the requests of the client
RATIO, GROWTH, END = 5.0, 1.1, DEADLINE + 15.0
"""Most that the client's 99th percentile may grow by, and memory after the first minute; seconds to
end in.
"""


@dataclass
class Siege:
    """A server under attack, and what was seen of it; `stop` ends the attacks, `leave` the
    attackers, who are processes.

    Until they leave, they hold the connections that are open.
    """

    server: Served
    seed: int
    stop: Event = field(default_factory=PROCESSES.Event)
    leave: Event = field(default_factory=PROCESSES.Event)
    results: SimpleQueue[tuple[Counter[str], list[str]]] = field(
        default_factory=PROCESSES.SimpleQueue
    )
    answers: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    held: list[socket.socket] = field(default_factory=list)  # open to the end

    def count(self, attacker: str, outcome: object) -> None:
        """Count what became of a request of an attacker."""
        self.answers[f"{attacker} {outcome}"] += 1


@dataclass
class Client:
    """A client with a key that asks for one sentence after the other, and again if its connection
    is lost.

    Infinitely late is what was refused; an answer after a lost connection took the time of both
    requests.
    """

    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    def use(self, server: Served, key: str, until: Callable[[], bool]) -> None:
        """Ask until it is enough."""
        number = 0
        while not until():
            text = SENTENCES[number % len(SENTENCES)]
            number = number + 1
            start = time.monotonic()
            got = self._ask(server, text, key, start + END)
            late = time.monotonic() - start
            if got[:3].isdigit() or got.startswith(NO_ANSWER):
                self.refused[got[:100]] += 1
                late = math.inf
            elif got != server.expected[STEADY][text]:
                self.wrong.append(f"{text!r}: {got!r}")
            self.seconds.append(late)
            time.sleep(PAUSE)

    def _ask(self, server: Served, text: str, key: str, end: float) -> str:
        """Ask until there is an answer, or it is too late."""
        while True:
            try:
                got = server.translate(text, STEADY, CLIENT, key)
            except (OSError, BrokenAnswer) as problem:
                got = f"{NO_ANSWER}: {problem!r}"
            if not got.startswith(NO_ANSWER) or time.monotonic() > end:
                return got
            self.lost += 1
            time.sleep(PAUSE)

    @property
    def p99(self) -> float:
        """The time that 99 % of the requests did not exceed."""
        return sorted(self.seconds)[math.ceil(0.99 * len(self.seconds)) - 1]

    def __str__(self) -> str:
        milliseconds = (
            f"p50 {1000 * median(self.seconds):.0f} ms, p99 {1000 * self.p99:.0f} ms"
        )
        return f"{len(self.seconds)} requests, {milliseconds}"


Attacker = Callable[[Siege, random.Random, str], Iterator[None]]
"""Yields after each of its deeds, from an address of its own."""


def _exchange(
    siege: Siege, name: str, source: str, data: bytes, leaves: float | None = None
) -> None:
    outcome: object = "failed"
    try:
        with (
            siege.server.connect(source) as connection,
            connection.makefile("rb") as stream,
        ):
            send(connection, data)
            if leaves is None:
                outcome = answer.status if (answer := read(stream)) else "closed"
            else:
                time.sleep(leaves)
                outcome = "left"
    except (OSError, BrokenAnswer, ValueError):
        pass
    siege.count(name, outcome)


def _line(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(SENTENCES, k=count))


def huge_explanations(
    siege: Siege, chance: random.Random, source: str
) -> Iterator[None]:
    """Ask for a hundred hypotheses of long lines, with attention of all layers."""
    while True:
        text = _line(chance, chance.choice((6, 30, 100)))
        values = {"text": text, "target": "en", "model": STEADY, "nbest": 100}
        explain = request("/v1/explain", {**values, "trace": True})
        more = {"text": [text] * 8, "beam": 100, "attention": "all"}
        translate = request("/v1/translate", {**values, **more})
        data = chance.choice((explain, translate))
        _exchange(siege, "explanations", source, data, chance.choice((None, 0.5)))
        yield


def unread_answers(siege: Siege, chance: random.Random, source: str) -> Iterator[None]:
    """Ask for large answers and read none of them, with the connections left open."""
    held = deque[socket.socket]()
    while True:
        values = {
            "text": _line(chance, 30),
            "target": "en",
            "model": STEADY,
            "nbest": 20,
        }
        with contextlib.suppress(OSError):
            connection = siege.server.connect(source)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            send(connection, request("/v1/explain", values) * chance.choice((1, 5)))
            held.append(connection)
            siege.held.append(connection)
            siege.count("unread", "sent")
        if len(held) > UNREAD:
            held.popleft().close()
        time.sleep(0.2)
        yield


def idle_connections(
    siege: Siege, chance: random.Random, source: str
) -> Iterator[None]:
    """Hold as many connections as the server lets be, a part of which sends a byte now and then."""
    held = list[socket.socket]()
    while True:
        while len(held) < IDLE:
            try:
                held.append(siege.server.connect(source))
            except OSError:
                siege.count("idle", "refused")
                break
            siege.count("idle", "connected")
        for connection in chance.sample(held, min(len(held), 50)):
            try:
                connection.setblocking(False)
                connection.send(b"P")
                if connection.recv(1_000) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                pass
            except OSError:
                held.remove(connection)
                connection.close()
        time.sleep(0.1)
        yield


def hostile_requests(
    siege: Siege, chance: random.Random, source: str
) -> Iterator[None]:
    """Send the cases of the fuzzer that are dear to read: damaged JSON, very many names, markup,
    framing, images.
    """
    names = [
        "damaged_json",
        "many_names",
        "odd_markup",
        "broken_framing",
        "odd_images",
        "odd_values",
    ]
    while True:
        case = KINDS[chance.choice(names)](chance)
        if isinstance(case.attack, Exchange):
            leaves = 0.2 if case.attack.is_broken else None
            _exchange(siege, "hostile", source, case.attack.data, leaves)
        yield


def cancelled_streams(
    siege: Siege, chance: random.Random, source: str
) -> Iterator[None]:
    """Open streams and go in the middle of them."""
    while True:
        data = translation(". ".join(chance.choices(SENTENCES, k=50)), stream=True)
        _exchange(siege, "streams", source, data, chance.choice((0.0, 0.02, 0.2)))
        yield


def forged_proxies(siege: Siege, chance: random.Random, source: str) -> Iterator[None]:
    """Claim to be another client in each request, to get round the limit of requests."""
    while True:
        address = ".".join(str(chance.randrange(1, 255)) for _ in range(4))
        name = chance.choice(("X-Forwarded-For: ", "X-Real-IP: ", "Forwarded: for="))
        header = f"{name}{address}\r\nHost:".encode()
        data = translation(chance.choice(SENTENCES)).replace(b"Host:", header, 1)
        _exchange(siege, "forged", source, data)
        yield


def killed_processes(
    siege: Siege, chance: random.Random, source: str
) -> Iterator[None]:
    """Kill the process that answers, or that of PyTorch, every ten seconds."""
    while True:
        name = chance.choice((SERVING, SERVING, PYTORCH))
        for _ in siege.server.kill_worker(name):
            siege.count(name, "killed")
        siege.stop.wait(10)
        yield


def swapped_files(siege: Siege, chance: random.Random, source: str) -> Iterator[None]:
    """Put other files into the place of a served one, and ask for what it translates: no third
    answer may come.
    """
    while True:
        origin = chance.choice(("translator", "recurrent"))
        siege.server.put(SWAPPED, origin, in_place=chance.random() < 0.5)
        end = time.monotonic() + 5
        text = chance.choice(SENTENCES)
        known = {siege.server.expected[model][text] for model in (STEADY, SWAPPED)}
        while time.monotonic() < end and not siege.stop.is_set():
            with contextlib.suppress(OSError, BrokenAnswer):
                got = siege.server.translate(text, SWAPPED, source)
                if (
                    got not in known
                    and not got[:3].isdigit()
                    and not got.startswith(NO_ANSWER)
                ):
                    siege.problems.append(f"swapped files: {text!r} became {got!r}")
                siege.count("swapped", got[:3] if got not in known else "right")
            time.sleep(0.2)
        yield


ATTACKERS: list[Attacker] = [
    *(huge_explanations, unread_answers, idle_connections, hostile_requests),
    *(cancelled_streams, forged_proxies, killed_processes, swapped_files),
]


def _attack(siege: Siege, number: int, parent: int) -> None:
    """Attack until the end; at a lower priority, since attackers have machines of their own."""
    end_with(parent)
    os.nice(10)
    attacker = ATTACKERS[number]
    chance = random.Random(f"{siege.seed} attacker {number}")
    for _ in attacker(siege, chance, f"127.0.0.{11 + number}"):
        if siege.stop.is_set():
            break
    siege.results.put((siege.answers, siege.problems))
    siege.leave.wait(4 * END)


def _watch(siege: Siege, memory: list[int], health: list[float]) -> None:
    """Note the memory of the server's processes, and how long /health takes, each second."""
    while not siege.stop.wait(1):
        memory.append(siege.server.memory())
        asked = time.monotonic()
        try:
            answer = siege.server.insist(request("/health"), "127.0.0.3")
            health.append(
                time.monotonic() - asked
                if answer and answer.status == 200
                else math.inf
            )
        except OSError:
            health.append(math.inf)


def attack(
    material: Material,
    folder: Path,
    minutes: float,
    seed: int,
    without: Sequence[str] = (),
) -> list[str]:
    """Attack a server for some minutes and print what was seen; return what should not have been.

    `without`: names of attackers that stay away, to see what is due to them.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8_192)), hard))
    folder.mkdir(parents=True, exist_ok=True)
    (keys := folder / "keys.json").unlink(missing_ok=True)
    key = add_key(keys, "client")
    server = Served(
        folder / "attacked",
        material,
        [f"--keys={keys}", f"--requests-per-minute={REQUESTS}"],
        DESCRIPTORS,
    )
    siege = Siege(server, seed)
    memory = list[int]()
    health = list[float]()
    workers = dict[int, str]()
    attackers = [
        PROCESSES.Process(target=_attack, args=(siege, number, os.getpid()))
        for number, attacker in enumerate(ATTACKERS)
        if attacker.__name__ not in without
    ]
    try:
        server.start()
        quiet = Client()
        client = Client()
        end = time.monotonic() + min(60.0, 20 * minutes)
        quiet.use(server, key, lambda: time.monotonic() > end)
        for attacker in attackers:
            attacker.start()
        threading.Thread(
            target=_watch, args=(siege, memory, health), daemon=True
        ).start()
        end = time.monotonic() + 60 * minutes
        client.use(server, key, lambda: time.monotonic() > end)
        siege.stop.set()
        is_alive = server.process is not None and server.process.poll() is None
        # While unread answers are held.
        workers, seconds = server.workers(), server.stop()
        left = [number for number in workers if worker(number)]
    finally:
        siege.stop.set()
        server.kill(workers)
        for attacker in attackers:
            if attacker.pid is not None:
                answers, problems = siege.results.get()
                siege.answers.update(answers)
                siege.problems += problems
        siege.leave.set()
    problems = [*siege.problems, *_problems(quiet, client, siege, minutes)]
    if not is_alive:
        problems.append("the server had ended")
    if left:
        problems.append(f"processes outlive the server: {left}")
    if seconds > END:
        problems.append(f"it took {seconds:.0f} s to end after SIGTERM")
    # Half minutes, whatever was just killed: after the first minute, and the last one.
    first = median(memory[60:90] or memory)
    last = median(memory[-30:])
    if minutes >= 2 and last > GROWTH * first:
        problems.append(f"memory grew {last / first:.2f} times after the first minute")
    print(f"client, quiet: {quiet}")
    print(f"client, attacked: {client}: {client.p99 / quiet.p99:.1f} times")
    counts = (
        f"wrong {len(client.wrong)}, lost {client.lost}, refused {dict(client.refused)}"
    )
    print(f"  {counts}; /health at most {max(health):.2f} s")
    print(
        "attackers:",
        *(f"{name} {count}," for name, count in sorted(siege.answers.items())),
    )
    first, last, most = (size / 1e6 for size in (first, last, max(memory)))
    print(
        f"memory {first:.0f} MB after a minute, {last:.0f} MB at the end, at most {most:.0f} MB"
    )
    print(f"SIGTERM took {seconds:.1f} s")
    return problems


def _problems(quiet: Client, client: Client, siege: Siege, minutes: float) -> list[str]:
    """Say what should not have been of the answers, and in the log."""
    problems = [f"wrong: {wrong}" for wrong in client.wrong[:5]]
    ratio = client.p99 / quiet.p99
    if ratio > RATIO:
        problems.append(
            f"the client's p99 grew {ratio:.1f} times ({dict(client.refused)})"
        )
    # A process does not know what was asked before it.
    starts = 1 + siege.answers[f"{SERVING} killed"]
    answered = siege.answers["forged 200"]
    allowed = REQUESTS * (minutes + starts)
    if answered > allowed:
        problems.append(
            f"forged addresses: {answered} answers where {allowed:.0f} are allowed"
        )
    return problems + siege.server.tracebacks()
