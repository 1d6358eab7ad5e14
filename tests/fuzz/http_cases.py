"""Cases of the server's fuzzer: what is sent, how its answer is judged, and the verdicts that are
counted.
"""

from __future__ import annotations

import random
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from fuzz.exchanges import Answer, BrokenAnswer, read, send
from fuzz.material import SECRET
from fuzz.served import DEADLINE, SENTENCES, SWAPPED, Served

VERDICTS = (
    "done",
    "refused",
    "closed",
    "internal",
    "wrong",
    "slow",
    "hung",
    "down",
    "leaked",
    "executed",
)
BAD = VERDICTS[3:]
SLOW, NOISE = 10.0, 2.0  # seconds; below NOISE growth is not judged
LONGEST_LINE = 2_000  # bytes of a line of the log, for a request
TOO_MUCH = ("more to do than", "not done within")
FORMS = {"/v1": "detail", "/v2": "message"}


@dataclass(frozen=True)
class Report:
    """What became of a case; the messages say why."""

    verdict: str
    messages: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Exchange:
    """Bytes sent on one connection.

    `is_right` judges answers with status 200. `most`: answers that may come, as of pipelined
    requests. `is_broken`: the framing is damaged, so that the connection may be closed. `leaves`:
    the client goes after so many seconds, unread. `is_large`: it may take longer than its deadline.
    `double`: the same with twice the input.
    """

    data: bytes
    path: str
    is_right: Callable[[Answer, Served], bool] = lambda *_: True
    most: int = 1
    is_broken: bool = False
    leaves: float | None = None
    is_large: bool = False
    double: Exchange | None = None

    def __call__(self, server: Served) -> Report:
        """Send the bytes and judge what comes; then the same with twice the input."""
        report = self._send(server)
        if self.double is None or report.verdict in BAD:
            return report
        twice = self.double._send(server)
        if twice.verdict not in BAD and twice.seconds > max(NOISE, 4 * report.seconds):
            return Report(
                "slow",
                (
                    f"{report.seconds:.2f} s, with twice the input {twice.seconds:.2f} s",
                ),
                twice.seconds,
            )
        return twice if twice.verdict in BAD else report

    def _send(self, server: Served) -> Report:
        start = time.monotonic()
        try:
            with server.connect() as connection, connection.makefile("rb") as stream:
                send(connection, self.data)
                if self.leaves is not None:
                    time.sleep(self.leaves)
                    return Report("closed")
                answers = self._answers(connection, stream)
        except TimeoutError:
            return Report("hung", ("no answer",), time.monotonic() - start)
        except (BrokenAnswer, ValueError) as problem:
            return Report("wrong", (str(problem),), time.monotonic() - start)
        except ConnectionError as problem:
            return Report("down", (str(problem),))
        seconds = time.monotonic() - start
        report = self._judged(answers, server)
        if report.verdict not in BAD and seconds > max(SLOW, DEADLINE + 2):
            return Report("slow", report.messages, seconds)
        return Report(report.verdict, report.messages, seconds)

    def _answers(self, connection: socket.socket, stream: IO[bytes]) -> list[Answer]:
        """Read the answers; after damaged framing the server may wait for more of the request, and
        one more is read.
        """
        answers = list[Answer]()
        while len(answers) < self.most + self.is_broken:
            if self.is_broken:
                connection.settimeout(0.2 if answers else 1.0)
            try:
                answer = read(stream)
            except TimeoutError:
                if self.is_broken:
                    break
                raise
            if answer is None:
                break
            answers.append(answer)
        return answers

    def _judged(self, answers: list[Answer], server: Served) -> Report:
        if not answers and self.is_broken:
            return Report("closed")
        if not answers:
            return Report("wrong", ("closed without an answer",))
        taken = [answer for answer in answers if answer.status < 400]
        if len(taken) > self.most:
            return Report(
                "wrong", (f"{len(answers)} answers where {self.most} may come",)
            )
        for answer in answers:
            if problem := self._problem(answer, server):
                return Report(
                    problem[0],
                    (f"{problem[1]}: {answer.status} {answer.body[:200]!r}",),
                )
        seen = f"{answers[-1].status} {answers[-1].body[:200]!r}"
        if answers[-1].status < 400:
            return Report("done", (seen,))
        return Report("refused", (seen,))

    def _problem(self, answer: Answer, server: Served) -> tuple[str, str] | None:
        if SECRET.encode() in answer.body:
            return "leaked", "the content of a file that nobody named"
        if answer.status < 400:
            with suppress(ValueError, LookupError, TypeError):
                if self.is_right(answer, server):
                    return None
                return "wrong", "another answer than expected"
            return "wrong", "an answer that cannot be read"
        plain = self.is_broken and answer.headers.get("content-type", "").startswith(
            "text/plain"
        )
        sentence = "closed" if plain else self._sentence(answer)
        if not sentence:
            return "internal", "no sentence in the form of the endpoint"
        if answer.status == 500 or (
            answer.status > 500
            and not (self.is_large and any(t in sentence for t in TOO_MUCH))
        ):
            return "internal", "an error of the server, not of the request"
        return None

    def _sentence(self, answer: Answer) -> str:
        """The sentence of an error in the form of its endpoint; empty if it has another form."""
        with suppress(ValueError, AttributeError):
            values = answer.values
            own = next(
                (
                    form
                    for prefix, form in FORMS.items()
                    if self.path.startswith(prefix)
                ),
                "error",
            )
            sentence = values.get(own, values.get("error") if self.is_broken else None)
            return (
                sentence
                if isinstance(sentence, str) and 10 < len(sentence) < 3_000
                else ""
            )
        return ""


@dataclass(frozen=True)
class HttpCase:
    """A case by its name: `attack` does it to a server and says what became of it."""

    name: str
    attack: Callable[[Served], Report]


Generator = Callable[[random.Random], HttpCase]
KINDS: dict[str, Generator] = {}
SHARES: dict[str, float] = {}


def kind(share: float) -> Callable[[Generator], Generator]:
    """Register a generator of cases; `share` says how many of its cases are drawn for each one of
    the others.
    """

    def register(generator: Generator) -> Generator:
        KINDS[generator.__name__] = generator
        SHARES[generator.__name__] = share
        return generator

    return register


def draw(number: int, seed: int) -> HttpCase:
    """Return case `number`; it depends on the seed and the number alone."""
    chance = random.Random(f"{seed} http {number}")
    (name,) = chance.choices(list(KINDS), list(SHARES.values()))
    return KINDS[name](chance)


@dataclass
class HttpJudge:
    """Do cases to one server, and look after each whether it still does what it did before."""

    server: Served
    read: int = field(default=0)  # bytes of its log

    def __call__(self, number: int, case: HttpCase) -> Report:
        report = case.attack(self.server)
        if report.verdict not in BAD:
            for problem in self._problems(number):
                return Report(
                    problem.verdict,
                    (*problem.messages, *report.messages),
                    report.seconds,
                )
        else:
            self._new_log()
        return report

    def recover(self) -> None:
        """Start the server again, with undamaged models."""
        self.server.kill(self.server.workers())
        self.server.executed.unlink(missing_ok=True)
        self.server.refresh()
        self.server.start()
        self.read = 0

    def _problems(self, number: int) -> list[Report]:
        """What is wrong with the server itself: `number` chooses what it is asked to translate."""
        problems = list[Report]()
        if self.server.executed.exists():
            modules = self.server.executed.read_text()
            problems.append(
                Report("executed", (f"planted modules were run: {modules}",))
            )
        log = self._new_log()
        failure = rb"(?:Traceback \(most|\w+ failed with [A-Z]).*(?:\n[ \x1b].*)*\n?.*"
        if match := re.search(failure, log):
            lines = match[0].decode(errors="replace").splitlines()
            shown = [line[:200] for line in lines[-8:]]
            problems.append(Report("internal", ("in the log:", *shown)))
        longest = max(len(line) for line in log.split(b"\n"))
        if longest > LONGEST_LINE:
            problems.append(
                Report("internal", (f"a line of {longest:,} bytes in the log",))
            )
        return problems or self._probe(number)

    def _probe(self, number: int) -> list[Report]:
        start = time.monotonic()
        models = [model for model in self.server.expected if model != SWAPPED]
        text = SENTENCES[number % len(SENTENCES)]
        model = models[number % len(models)]
        try:
            health = self.server.ask(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            translated = self.server.translate(text, model, insists=True)
        except (OSError, BrokenAnswer) as problem:
            return [Report("down", (f"afterwards: {problem!r}",))]
        if health is None or health.status != 200:
            return [Report("down", (f"/health afterwards: {health}",))]
        if time.monotonic() - start > SLOW:
            return [
                Report(
                    "slow",
                    ("/health and a translation afterwards",),
                    time.monotonic() - start,
                )
            ]
        if translated[:4] in ("no a", "503 ", "504 ", "500 "):
            return [
                Report("down", (f"a translation by {model} afterwards: {translated}",))
            ]
        if translated != self.server.expected[model][text]:
            return [Report("wrong", (f"{text!r} afterwards: {translated!r}",))]
        return []

    def _new_log(self) -> bytes:
        with self.server.log.open("rb") as file:
            file.seek(self.read)
            new = file.read()
        self.read += len(new)
        return new
