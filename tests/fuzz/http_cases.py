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
from dataclasses import dataclass, replace
from typing import IO

from fuzz.exchanges import Answer, BrokenAnswer, read, request, send
from fuzz.kinds import SLOW, Kinds, grows
from fuzz.material import SECRET
from fuzz.served import DEADLINE, SENTENCES, SWAPPED, Served, is_unavailable
from helpers.text_table import items

VERDICTS = items("""
    done refused closed internal wrong slow hung down leaked executed
""")
BAD = VERDICTS[3:]
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
        if twice.verdict in BAD:
            return twice
        if grows(report.seconds, twice.seconds):
            times = f"{report.seconds:.2f} s, with twice the input {twice.seconds:.2f}"
            return Report("slow", (times,), twice.seconds)
        return report

    def _send(self, server: Served) -> Report:
        start = time.monotonic()
        try:
            with server.connect() as connection, connection.makefile("rb") as stream:
                send(connection, self.data)
                if self.leaves is not None:
                    time.sleep(self.leaves)
                    return Report("closed")
                answers = self._answers(connection, stream)
            report = self._judged(answers, server)
        except TimeoutError:
            report = Report("hung", ("no answer",))
        except (BrokenAnswer, ValueError) as problem:
            report = Report("wrong", (str(problem),))
        except ConnectionError as problem:
            report = Report("down", (str(problem),))
        seconds = time.monotonic() - start
        if report.verdict not in BAD and seconds > max(SLOW, DEADLINE + 2):
            return Report("slow", report.messages, seconds)
        return replace(report, seconds=seconds)

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
        taken = sum(answer.status < 400 for answer in answers)
        if taken > self.most:
            return Report("wrong", (f"{taken} answers where {self.most} may come",))
        for answer in answers:
            verdict, problem = self._problem(answer, server)
            if verdict:
                return Report(verdict, (problem, _shown(answer)))
        verdict = "done" if answers[-1].status < 400 else "refused"
        return Report(verdict, (_shown(answers[-1]),))

    def _problem(self, answer: Answer, server: Served) -> tuple[str, str]:
        """Return a verdict and what is wrong with an answer; empty if nothing is."""
        if SECRET.encode() in answer.body:
            return "leaked", "the content of a file that nobody named"
        if answer.status < 400:
            with suppress(ValueError, LookupError, TypeError):
                if self.is_right(answer, server):
                    return "", ""
                return "wrong", "another answer than expected"
            return "wrong", "an answer that cannot be read"
        sentence = self._sentence(answer)
        if not sentence:
            return "internal", "no sentence in the form of the endpoint"
        is_too_much = self.is_large and any(part in sentence for part in TOO_MUCH)
        if answer.status == 500 or (answer.status > 500 and not is_too_much):
            return "internal", "an error of the server, not of the request"
        return "", ""

    def _sentence(self, answer: Answer) -> str:
        """Return the sentence of an error in the form of its endpoint; empty if it has another form.

        A request that cannot be told apart is answered in plain text or in the form of no endpoint.
        """
        kind_of_text = answer.headers.get("content-type", "")
        if self.is_broken and kind_of_text.startswith("text/plain"):
            return "closed"
        own = FORMS.get(self.path[:3], "error")
        with suppress(ValueError, AttributeError):
            sentence = answer.values.get(own)
            if sentence is None and self.is_broken:
                sentence = answer.values.get("error")
            if isinstance(sentence, str) and 10 < len(sentence) < 3_000:
                return sentence
        return ""


def _shown(answer: Answer) -> str:
    return f"{answer.status} {answer.body[:200]!r}"


@dataclass(frozen=True)
class HttpCase:
    """A case by its name: `attack` does it to a server and says what became of it."""

    name: str
    attack: Callable[[Served], Report]


KINDS = Kinds[Callable[[random.Random], HttpCase]]()
kind = KINDS.kind


@dataclass
class HttpJudge:
    """Do cases to one server, and look after each whether it still does what it did before."""

    server: Served
    read: int = 0  # bytes of its log

    def __call__(self, number: int, case: HttpCase) -> Report:
        report = case.attack(self.server)
        log = self._new_log()
        if report.verdict in BAD:
            return report
        problem = self._trace(log) or self._probe(number)
        return replace(problem, seconds=report.seconds) if problem else report

    def recover(self) -> None:
        """Start the server again, with undamaged models."""
        self.server.kill(self.server.workers())
        self.server.executed.unlink(missing_ok=True)
        self.server.refresh()
        self.server.start()
        self.read = 0

    def _trace(self, log: bytes) -> Report | None:
        """Return what is wrong with what the server wrote, if anything is."""
        if self.server.executed.exists():
            return Report("executed", (self.server.executed.read_text(),))
        failure = rb"(?:Traceback \(most|\w+ failed with [A-Z]).*(?:\n[ \x1b].*)*\n?.*"
        if match := re.search(failure, log):
            lines = match[0].decode(errors="replace").splitlines()
            shown = [line[:200] for line in lines[-8:]]
            return Report("internal", ("in the log:", *shown))
        longest = max(len(line) for line in log.split(b"\n"))
        if longest > LONGEST_LINE:
            return Report("internal", (f"a line of {longest:,} bytes in the log",))
        return None

    def _probe(self, number: int) -> Report | None:
        """Ask for the state and a translation, which `number` chooses; return what is wrong."""
        start = time.monotonic()
        models = [model for model in self.server.expected if model != SWAPPED]
        text = SENTENCES[number % len(SENTENCES)]
        model = models[number % len(models)]
        try:
            health = self.server.ask(request("/health"))
            translated = self.server.translate(text, model, insists=True)
        except (OSError, BrokenAnswer) as problem:
            return Report("down", (f"afterwards: {problem!r}",))
        if health is None or health.status != 200:
            return Report("down", (f"/health afterwards: {health}",))
        if time.monotonic() - start > SLOW:
            return Report("slow", ("/health and a translation afterwards",))
        if translated == self.server.expected[model][text]:
            return None
        verdict = "down" if is_unavailable(translated) else "wrong"
        return Report(verdict, (f"{text!r} by {model} afterwards: {translated!r}",))

    def _new_log(self) -> bytes:
        with self.server.log.open("rb") as file:
            file.seek(self.read)
            new = file.read()
        self.read += len(new)
        return new
