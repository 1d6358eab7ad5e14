"""Load the server of this version, and of another in turns with it; compare both with their offline
translation.

`python benchmarks/serve_load.py MODEL.regard --source FILE --languages en,de [--base FOLDER]
[--minutes 10]` starts `regard serve` from this checkout, and from the one at `--base`, over the
same runtime file. In each of `--turns` both are measured, one after the other, and the other one
first in the next turn:

- *offline*: all lines again and again, greedily, in a process of that version without a server
- *load*: 64 clients send requests of ten sentences to /v1/translate, each as soon as the last was
  answered. Each answer is compared with offline output; lines of several sentences, which a server
  divides, are left out. The share of offline throughput is that of sentences in a second of
  processor time.
- *short calls*: one client sends one sentence after the other to /translate on one connection
- *beside* (`--beside SECONDS`): four clients send short calls while two others send 1 MB of HTML,
  and two ask for ten hypotheses with attention

Before, each version is started `--starts` times, until /ready answers 200. Processor time and
memory are those of the server's process with all its descendants; shared pages count once for each
in resident memory, and once in all in the proportional one. The last line is JSON, and logs are
kept in .work/. A model that is hardly trained has to be given targets of a natural length by the
search settings in its file.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve()
WORK = HERE.parent / ".work"
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
OVERLOADED = (429, 503)
# Seconds in which buffers get their size, and the server learns its speed.
WARM_UP = 5.0
PATIENCE = 120.0
HTML_BYTES = 1_000_000
HTML_LINES = 2_000
SHORT_CLIENTS = 4
LARGE_CLIENTS = 2
PAUSE = 0.05
Values = dict[str, Any]


def main() -> None:
    """Measure, print a table, and end with one line of JSON."""
    options = _options()
    if options.offline:
        print(json.dumps(_offline(options)))
        return
    # The servers are to end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folders = {"new": HERE.parents[1]} | (
        {"base": options.base.resolve()} if options.base else {}
    )
    versions = [Version(name, folder, options) for name, folder in folders.items()]
    for version in versions:
        # Compiles modules, and reads the files for the first time.
        with version.started():
            pass
    for _ in range(options.starts):
        for version in versions:
            with version.started():
                version.starts.append(version.start_seconds)
    with contextlib.ExitStack() as stack:
        for version in versions:
            stack.enter_context(version.started())
        time.sleep(2)
        for version in versions:
            version.idle = version.memory()
        for turn in range(options.turns):
            for version in versions[:: -1 if turn % 2 else 1]:
                version.measure(options)
                print(f"turn {turn + 1}, {version.name}: {version.last}", flush=True)
    results = {version.name: version.results() for version in versions}
    print(f"{'':44}", *(f"{name:>12}" for name in results))
    for row in dict.fromkeys(row for values in results.values() for row in values):
        print(
            f"{row:44}", *(f"{values.get(row, 0):12g}" for values in results.values())
        )
    print(json.dumps(results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=lambda path: Path(path).resolve())
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--languages", default="ko,en", help="of the model")
    parser.add_argument("--base", type=Path, help="checkout of another version")
    parser.add_argument(
        "--minutes", type=float, default=10, help="of load, for each version"
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--sentences", type=int, default=10, help="of a request")
    parser.add_argument("--deadline", type=float, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--offline-seconds", type=float, default=10, help="in each turn"
    )
    parser.add_argument("--short-calls", type=int, default=500, help="in each turn")
    parser.add_argument(
        "--beside",
        type=float,
        default=0,
        help="seconds of short calls beside large ones, in each turn",
    )
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument(
        "--offline",
        action="store_true",
        help="only translate offline, and print what came of it",
    )
    return parser.parse_args()


def _offline(options: argparse.Namespace) -> Values:
    """Translate all lines again and again, in this process; return what lines became, and the
    speed.
    """
    import regard
    from regard.data.sentences import split_text

    warnings.simplefilter("ignore")  # a model that is hardly trained repeats words
    lines = [
        line
        for line in options.source.read_text("utf-8").split("\n")
        if len(split_text(line).lines) == 1
    ]
    lines = lines[: options.lines]
    translator = regard.load(options.model)
    translations = [
        translation.text for translation in translator.translate(lines, beam=1)
    ]
    done = 0
    started = time.perf_counter()
    used = time.process_time()
    while time.perf_counter() - started < options.offline_seconds:
        translator.translate(lines, beam=1)
        done += len(lines)
    seconds = time.perf_counter() - started
    processor = time.process_time() - used
    return {
        "translations": dict(zip(lines, translations, strict=True)),
        "sentences": done,
        "seconds": seconds,
        "processor": processor,
    }


@dataclass
class Speed:
    """Sentences, and the seconds and seconds of processor time that they took."""

    sentences: int = 0
    seconds: float = 0.0
    processor: float = 0.0

    def add(self, speed: Speed) -> Speed:
        """Count further sentences; return the speed of these."""
        self.sentences += speed.sentences
        self.seconds += speed.seconds
        self.processor += speed.processor
        return speed

    @property
    def per_processor_second(self) -> float:
        """Sentences in a second of processor time."""
        return self.sentences / self.processor


@dataclass
class Calls:
    """What clients saw of one kind of calls; several threads add to it."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    refused_without_retry_after: int = 0
    wrong: int = 0
    lost: int = 0
    sentences: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def quantile(self, share: float) -> float:
        """Return the seconds that this share of the calls did not exceed."""
        return sorted(self.seconds)[int(share * (len(self.seconds) - 1))]

    def results(self) -> dict[str, float]:
        """Return what clients saw, by name."""
        return {
            **{
                f"answers {status}": count
                for status, count in sorted(self.statuses.items())
            },
            "p50 s": self.quantile(0.5),
            "p99 s": self.quantile(0.99),
            "slowest s": max(self.seconds),
            "texts": self.sentences,
            "wrong": self.wrong,
            "lost": self.lost,
            "refused without Retry-After": self.refused_without_retry_after,
        }


class Client:
    """A client with one connection, which it opens again if it was closed."""

    def __init__(self, port: int, calls: Calls) -> None:
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=PATIENCE
        )
        self._calls = calls

    def post(
        self, path: str, values: Values, right: Callable[[Values], list[bool]]
    ) -> None:
        """Send a request, count what became of it, and wait as long as an overloaded server
        says.
        """
        calls = self._calls
        started = time.perf_counter()
        try:
            self._connection.request(
                "POST", path, json.dumps(values), {"Content-Type": "application/json"}
            )
            answer = self._connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as problem:
            print(
                f"connection lost after {time.perf_counter() - started:.3f} s: {problem!r}",
                file=sys.stderr,
                flush=True,
            )
            self._connection.close()
            with calls.lock:
                calls.lost += 1
            time.sleep(PAUSE)
            return
        seconds = time.perf_counter() - started
        are_right = right(json.loads(body)) if answer.status == 200 else []
        with calls.lock:
            calls.seconds.append(seconds)
            calls.statuses[answer.status] += 1
            calls.sentences += len(are_right)
            calls.wrong += are_right.count(False)
        if answer.status in OVERLOADED:
            after = answer.getheader("Retry-After")
            with calls.lock:
                calls.refused_without_retry_after += after is None
            time.sleep(float(after or 1))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Version:
    """A version of the server, and what was measured of it."""

    def __init__(self, name: str, folder: Path, options: argparse.Namespace) -> None:
        self.name = name
        self.folder = folder
        self.options = options
        self.source, self.target = options.languages.split(",")
        self.starts = list[float]()
        self.memories = list[float]()
        self.start_seconds = 0.0
        self.idle = (0.0, 0.0)
        self.last = ""
        self.offline = Speed()
        self.served = Speed()
        self.load = Calls()
        self.short = Calls()
        self.beside = Calls()
        self.large = Calls()
        self.calls = {
            "load": self.load,
            "short": self.short,
            "beside": self.beside,
            "large": self.large,
        }
        self.short_processor = list[float]()
        self.client_processor = list[float]()
        self.expected = dict[str, str]()
        self.short_expected = dict[str, str]()
        self.environment = {**os.environ, "PYTHONPATH": str(folder)}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    @contextlib.contextmanager
    def started(self) -> Iterator[None]:
        """Run the server, once it is ready, as long as the block runs."""
        WORK.mkdir(exist_ok=True)
        options = self.options
        log = WORK / f"serve_load_{self.name}.log"
        command = [
            sys.executable,
            "-m",
            "regard",
            "serve",
            str(options.model),
            "--port=0",
            "--char-limit=0",
        ]
        command += [
            f"--languages={options.languages}",
            f"--threads={options.threads}",
            f"--deadline={options.deadline:g}",
        ]
        with log.open("w", encoding="utf-8") as output:
            began = time.perf_counter()
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=output,
            )
        try:
            self.process = process.pid
            while not (
                match := re.search(
                    r"listening at http://127\.0\.0\.1:(\d+)", log.read_text("utf-8")
                )
            ):
                if process.poll() is not None or time.perf_counter() - began > PATIENCE:
                    sys.exit(f"{self.name} does not start:\n{log.read_text('utf-8')}")
                time.sleep(0.002)
            self.port = int(match[1])
            while _status(self.port, "/ready") != 200:
                time.sleep(0.002)
            self.start_seconds = time.perf_counter() - began
            yield
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(options.deadline + 10)
            process.kill()
            process.wait()

    def measure(self, options: argparse.Namespace) -> None:
        """Measure everything once."""
        offline = self._translate_offline()
        self._send_short_calls(options.short_calls)
        served = self._load(60 * options.minutes / options.turns)
        self.memories.append(self.memory()[0])
        if options.beside:
            self._send_beside(options.beside)
        self.last = (
            f"{served.per_processor_second / offline.per_processor_second:.3f} of offline, a short "
            f"call {self.short_processor[-1]:.2f} ms of processor time, {self.memories[-1]:.0f} MB"
        )

    def _translate_offline(self) -> Speed:
        options = self.options
        command = [
            sys.executable,
            str(HERE),
            str(options.model),
            "--offline",
            f"--source={options.source.resolve()}",
        ]
        command += [
            f"--lines={options.lines}",
            f"--offline-seconds={options.offline_seconds}",
        ]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            check=True,
        )
        values = json.loads(done.stdout)
        self.expected = values.pop("translations")
        return self.offline.add(Speed(**values))

    def _send_short_calls(self, count: int) -> None:
        """Send one sentence after the other on one connection; what they become is the measure of
        those beside.
        """
        client = Client(self.port, self.short)
        lines = list(self.expected)

        used = self.processor()
        own = time.process_time()
        for number in range(count):
            line = lines[number % len(lines)]
            client.post(
                "/translate",
                self._short_request(line),
                functools.partial(self._compare_short, line),
            )
        self.short_processor.append(1000 * (self.processor() - used) / count)
        self.client_processor.append(1000 * (time.process_time() - own) / count)
        client.close()

    def _load(self, seconds: float) -> Speed:
        """Let the clients send requests of several sentences; the times of the first seconds do not
        count.
        """
        stop = threading.Event()
        lines = list(self.expected)
        calls = self.load

        def use(seed: int) -> None:
            chance = random.Random(seed)
            client = Client(self.port, calls)
            while not stop.is_set():
                texts = chance.sample(lines, self.options.sentences)
                expected = [self.expected[text] for text in texts]
                client.post(
                    "/v1/translate",
                    self._request(texts, beam=1),
                    functools.partial(_compare, expected),
                )
            client.close()

        first = len(calls.seconds)
        with _running(
            [functools.partial(use, seed) for seed in range(self.options.clients)], stop
        ):
            time.sleep(WARM_UP)
            with calls.lock:
                del calls.seconds[first:]
            began = time.perf_counter()
            used = self.processor()
            sentences = calls.sentences
            time.sleep(seconds)
            speed = Speed(
                calls.sentences - sentences,
                time.perf_counter() - began,
                self.processor() - used,
            )
        return self.served.add(speed)

    def _send_beside(self, seconds: float) -> None:
        """Send short calls while others send a large page, and ask for many hypotheses with
        attention.
        """
        stop = threading.Event()
        lines = list(self.short_expected)
        page = self._request(_page(lines), format="html")
        many = self._request(" ".join(lines[:5]), nbest=10, beam=10, attention="all")

        def use_short(seed: int) -> None:
            chance = random.Random(seed)
            client = Client(self.port, self.beside)
            while not stop.wait(PAUSE):
                line = chance.choice(lines)
                client.post(
                    "/translate",
                    self._short_request(line),
                    functools.partial(self._compare_short, line),
                )
            client.close()

        def use_large(values: Values) -> None:
            client = Client(self.port, self.large)
            while not stop.is_set():
                client.post("/v1/translate", values, lambda _: [])
            client.close()

        short = [functools.partial(use_short, seed) for seed in range(SHORT_CLIENTS)]
        large = [
            functools.partial(use_large, values)
            for values in LARGE_CLIENTS * [page, many]
        ]
        with _running(short + large, stop):
            time.sleep(seconds)

    def _compare_short(self, line: str, answer: Values) -> list[bool]:
        """Compare an answer with the first one for this line."""
        return [
            self.short_expected.setdefault(line, answer["translatedText"])
            == answer["translatedText"]
        ]

    def _request(self, text: str | list[str], **more: object) -> Values:
        return {"model": self.options.model.stem, "text": text, **more}

    def _short_request(self, line: str) -> Values:
        return {"q": line, "source": self.source, "target": self.target}

    def processes(self) -> list[int]:
        """Return the server's process and its descendants, of whichever of their threads."""
        numbers = [self.process]
        for number in numbers:
            for children in Path(f"/proc/{number}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    numbers += map(int, children.read_text().split())
        return numbers

    def processor(self) -> float:
        """Return the seconds of processor time of all processes, with those that have ended."""
        ticks = 0
        for number in self.processes():
            with contextlib.suppress(OSError):
                ticks += sum(
                    map(
                        int,
                        Path(f"/proc/{number}/stat")
                        .read_text()
                        .rsplit(") ", 1)[1]
                        .split()[11:15],
                    )
                )
        return ticks / TICKS

    def memory(self) -> tuple[float, float]:
        """Return the resident and the proportional memory of all processes in MB."""
        texts = []
        for number in self.processes():
            with contextlib.suppress(OSError):
                texts.append(Path(f"/proc/{number}/smaps_rollup").read_text())
        resident, proportional = (
            sum(
                int(size)
                for text in texts
                for size in re.findall(rf"^{name}: +(\d+) kB", text, re.MULTILINE)
            )
            for name in ("Rss", "Pss")
        )
        return resident * 1024 / 1e6, proportional * 1024 / 1e6

    def results(self) -> dict[str, float]:
        """Return what was measured, by name."""
        values = {
            "offline sentences per processor second": self.offline.per_processor_second,
            "served sentences per processor second": self.served.per_processor_second,
            "share of offline throughput": self.served.per_processor_second
            / self.offline.per_processor_second,
            "served sentences per second": self.served.sentences / self.served.seconds,
            "seconds to ready": median(self.starts),
            "MB after the start": self.idle[0],
            "MB after the start, proportional": self.idle[1],
            "MB after load": self.memories[-1],
            "growth under load": self.memories[-1] / self.memories[0],
            "processor ms of a short call": median(self.short_processor),
            "processor ms of its client": median(self.client_processor),
        }
        for kind, calls in self.calls.items():
            if calls.seconds:
                values |= {
                    f"{kind}: {name}": value for name, value in calls.results().items()
                }
        return {name: round(value, 4) for name, value in values.items()}


def _status(port: int, path: str) -> int:
    """Return the status of an answer; 0 if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with (
        contextlib.closing(connection),
        contextlib.suppress(OSError, http.client.HTTPException),
    ):
        connection.request("GET", path)
        return connection.getresponse().status
    return 0


def _compare(expected: list[str], answer: Values) -> list[bool]:
    texts = [translation["text"] for translation in answer["translations"]]
    return [text == wanted for text, wanted in zip(texts, expected, strict=True)]


def _page(lines: list[str]) -> str:
    """Return HTML of so many bytes, every second word in bold."""
    parts = []
    size = HTML_BYTES // HTML_LINES
    for number in range(HTML_LINES):
        words = lines[number % len(lines)].split()
        text = " ".join(
            word if place % 2 else f"<b>{word}</b>" for place, word in enumerate(words)
        )
        parts.append(f'<p data-note="{"x" * (size - len(text) - 25)}">{text}</p>\n')
    return "".join(parts)


@contextlib.contextmanager
def _running(
    clients: Sequence[Callable[[], None]], stop: threading.Event
) -> Iterator[None]:
    """Let clients work, each in a thread, as long as the block runs."""
    with ThreadPoolExecutor(len(clients)) as pool:
        futures = [pool.submit(client) for client in clients]
        try:
            yield
        finally:
            stop.set()
        for future in futures:
            future.result()


if __name__ == "__main__":
    main()
