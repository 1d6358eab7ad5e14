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
from itertools import cycle
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
    results: SimpleQueue[Counter[str]] = field(default_factory=PROCESSES.SimpleQueue)
    answers: Counter[str] = field(default_factory=Counter)
    held: list[socket.socket] = field(default_factory=list)  # open to the end

    def count(self, attacker: str, outcome: object) -> None:
        """Count what became of a request of an attacker."""
        self.answers[f"{attacker} {outcome}"] += 1


@dataclass
class Client:
    """A client that asks for one sentence after the other, and again if its connection is lost.

    Infinitely late is what was refused; an answer after a lost connection took the time of both
    requests.
    """

    server: Served
    key: str = ""
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    def use(self, is_over: Callable[[], bool], pause: float = PAUSE) -> None:
        """Ask until it is enough."""
        for text in cycle(SENTENCES):
            if is_over():
                return
            start = time.monotonic()
            got = self._ask(text, start + END)
            late = time.monotonic() - start
            if got[:3].isdigit() or got.startswith(NO_ANSWER):
                self.refused[got[:100]] += 1
                late = math.inf
            elif got != self.server.expected[STEADY][text]:
                self.wrong.append(f"wrong: {text!r}: {got!r}")
            self.seconds.append(late)
            time.sleep(pause)

    def _ask(self, text: str, end: float) -> str:
        """Ask until there is an answer, or it is too late."""
        while True:
            try:
                got = self.server.translate(text, STEADY, CLIENT, self.key)
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
        middle = 1000 * median(self.seconds)
        times = f"p50 {middle:.0f} ms, p99 {1000 * self.p99:.0f} ms"
        problems = f"wrong {len(self.wrong)}, lost {self.lost}, {dict(self.refused)}"
        return f"{len(self.seconds)} requests, {times}; {problems}"


Attacker = Callable[[Siege, random.Random, str], Iterator[None]]
"""Yields after each of its deeds, from an address of its own."""


def _exchange(
    siege: Siege, name: str, source: str, data: bytes, leaves: float | None = None
) -> None:
    """Send a request and count the status of its answer, or go without reading it."""
    outcome = "failed"
    # The server may close the connection, or answer what is no HTTP.
    with (
        contextlib.suppress(OSError, BrokenAnswer, ValueError),
        siege.server.connect(source) as connection,
        connection.makefile("rb") as stream,
    ):
        send(connection, data)
        if leaves is None:
            answer = read(stream)
            outcome = str(answer.status) if answer else "closed"
        else:
            time.sleep(leaves)
            outcome = "left"
    siege.count(name, outcome)


def requests_of(*names: str) -> Attacker:
    """Return an attacker that sends the cases of these kinds."""

    def send_cases(siege: Siege, chance: random.Random, source: str) -> Iterator[None]:
        while True:
            name = chance.choice(names)
            exchange = KINDS[name](chance).attack
            assert isinstance(exchange, Exchange)
            leaves = exchange.leaves
            if exchange.is_broken:
                leaves = 0.2
            _exchange(siege, name, source, exchange.data, leaves)
            yield

    return send_cases


def unread_answers(siege: Siege, chance: random.Random, source: str) -> Iterator[None]:
    """Ask for large answers and read none of them, with the connections left open."""
    held = deque[socket.socket]()
    while True:
        text = " ".join(chance.choices(SENTENCES, k=30))
        values = {"text": text, "target": "en", "model": STEADY, "nbest": 20}
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


ATTACKERS: dict[str, Attacker] = {
    "large_answers": requests_of("large_answers"),
    "cancelled_streams": requests_of("leaving_clients"),
    "hostile_requests": requests_of("damaged_json", "many_names", "odd_values"),
    "hostile_texts": requests_of("odd_markup", "broken_framing", "odd_images"),
    "unread_answers": unread_answers,
    "idle_connections": idle_connections,
    "forged_proxies": forged_proxies,
    "killed_processes": killed_processes,
}


def _attack(siege: Siege, name: str, parent: int) -> None:
    """Attack until the end; at a lower priority, since attackers have machines of their own."""
    end_with(parent)
    os.nice(10)
    chance = random.Random(f"{siege.seed} attacker {name}")
    source = f"127.0.0.{11 + [*ATTACKERS].index(name)}"
    for _ in ATTACKERS[name](siege, chance, source):
        if siege.stop.is_set():
            break
    siege.results.put(siege.answers)
    siege.leave.wait(4 * END)


def _watch(siege: Siege, memory: list[int], health: list[float]) -> None:
    """Note the memory of the server's processes, and how long /health takes, each second."""
    while not siege.stop.wait(1):
        memory.append(siege.server.memory())
        asked = time.monotonic()
        seconds = math.inf
        with contextlib.suppress(OSError):
            answer = siege.server.insist(request("/health"), "127.0.0.3")
            if answer and answer.status == 200:
                seconds = time.monotonic() - asked
        health.append(seconds)


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
    keys = folder / "keys.json"
    keys.unlink(missing_ok=True)
    key = add_key(keys, "client")
    options = [f"--keys={keys}", f"--requests-per-minute={REQUESTS}"]
    server = Served(folder / "attacked", material, options, DESCRIPTORS)
    siege = Siege(server, seed)
    quiet = Client(server, key)
    client = Client(server, key)
    memory = list[int]()
    health = list[float]()
    workers = dict[int, str]()
    attackers = [
        PROCESSES.Process(target=_attack, args=(siege, name, os.getpid()))
        for name in ATTACKERS
        if name not in without
    ]
    watch = threading.Thread(target=_watch, args=(siege, memory, health), daemon=True)
    try:
        server.start()
        quiet.use(_after(min(60.0, 20 * minutes)))
        for attacker in attackers:
            attacker.start()
        watch.start()
        client.use(_after(60 * minutes))
        siege.stop.set()
        is_alive = server.process is not None and server.process.poll() is None
        # While unread answers are held.
        workers = server.workers()
        seconds = server.stop()
        left = [number for number in workers if worker(number)]
    finally:
        siege.stop.set()
        server.kill(workers)
        for attacker in attackers:
            if attacker.pid is not None:
                siege.answers.update(siege.results.get())
        siege.leave.set()

    problems = _problems(quiet, client, siege, minutes)
    if not is_alive:
        problems.append("the server had ended")
    if left:
        problems.append(f"processes outlive the server: {left}")
    if seconds > END:
        problems.append(f"it took {seconds:.0f} s to end after SIGTERM")
    # Half minutes, whatever was just killed: after the first minute, and the last one.
    first = median(memory[60:90] or memory) / 1e6
    last = median(memory[-30:]) / 1e6
    if minutes >= 2 and last > GROWTH * first:
        problems.append(f"memory grew {last / first:.2f} times after the first minute")

    print(f"client, quiet: {quiet}")
    print(f"client, attacked: {client}; /health at most {max(health):.2f} s")
    counts = sorted(siege.answers.items())
    print("attackers:", *(f"{name} {count}," for name, count in counts))
    most = max(memory) / 1e6
    print(f"memory {first:.0f} MB at first, {last:.0f} at last, {most:.0f} at most")
    print(f"SIGTERM took {seconds:.1f} s")
    return problems


def _after(seconds: float) -> Callable[[], bool]:
    """Return whether so many seconds from now have passed, whenever that is asked."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def _problems(quiet: Client, client: Client, siege: Siege, minutes: float) -> list[str]:
    """Say what should not have been of the answers, and in the log."""
    problems = [*client.wrong[:5], *siege.server.tracebacks()]
    ratio = client.p99 / quiet.p99
    if ratio > RATIO:
        problems.append(f"the client's p99 grew {ratio:.1f} times")
    # A process does not know what was asked before it.
    starts = 1 + siege.answers[f"{SERVING} killed"]
    answered = siege.answers["forged 200"]
    allowed = REQUESTS * (minutes + starts)
    if answered > allowed:
        problems.append(f"{answered} answers at forged addresses, {allowed:.0f} may be")
    return problems
