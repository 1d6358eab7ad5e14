"""A server that is attacked: started with models of its own copies, probed, looked at from outside,
and ended.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from fuzz.exchanges import Answer, BrokenAnswer, ask, connect, request
from fuzz.material import PLANTED, SECRET, Material, plant_modules

STEADY, FOLDER, CAPTIONS, SWAPPED = "steady", "folder", "captions", "swapped"
"""Names of the models: a runtime file, a run folder, a captioner, and a runtime file that others
take the place of.
"""
SENTENCES = [
    "나는 빵을 먹고 있었다",
    "선생님은 사과를 보고 있다",
    "그는 왔다",
    "나는 3 개를 샀다",
    "그는 학교에 간다",
]
MODELS = (STEADY, FOLDER, CAPTIONS, SWAPPED)
DEADLINE = 8.0
OPTIONS = (
    f"--port=0 --threads=1 --deadline={DEADLINE:g} --reload-seconds=0.3 --metrics "
    "--document-seconds=2"
).split()
NO_ANSWER = "no answer"
PATIENCE = 60.0  # seconds until a server that does not answer is believed to hang
PAUSE = 0.02  # seconds until a client whose connection was lost asks again
SERVING, PYTORCH = "serving_process", "pytorch_process"
"""Modules of the processes that the server starts: the one that answers, and the one that runs
PyTorch.
"""
RUN = """import resource, sys
sys.path.insert(0, {tests!r})
from fuzz.process import end_with
end_with({parent})
sys.path.pop(0)
resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))
from regard.translate_stdin import main
sys.exit(main())
"""
"""Program of a server that ends with the thread that started it; its processes have so many
descriptors each.
"""


class Served:
    """A server over copies of the models in `folder`, which it may not leave, and what it has to
    answer.
    """

    def __init__(
        self,
        folder: Path,
        material: Material,
        options: Sequence[str] = (),
        descriptors: int = 1024,
        models: Sequence[str] = MODELS,
    ) -> None:
        self.folder = folder
        self.material = material
        self.options = options
        self.models = models
        self.process: subprocess.Popen[bytes] | None = None
        self.address = ("127.0.0.1", 0)
        self.expected = dict[str, dict[str, str]]()  # by model, then by sentence
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "current").mkdir(parents=True)
        (folder / "secret").write_text(SECRET)
        tests = str(Path(__file__).parents[1])
        program = RUN.format(tests=tests, parent=os.getpid(), descriptors=descriptors)
        (folder / "regard").write_text(program)
        plant_modules(folder / "current", folder / PLANTED)
        self.refresh()

    @property
    def log(self) -> Path:
        """What the server and its processes write."""
        return self.folder / "log"

    @property
    def executed(self) -> Path:
        """The file that planted code makes."""
        return self.folder / PLANTED

    def path(self, model: str) -> Path:
        """The file or folder of a model."""
        ending = "" if model in (FOLDER, CAPTIONS) else ".regard"
        return self.folder / f"{model}{ending}"

    def refresh(self) -> None:
        """Put undamaged copies of all models into their places."""
        for model, origin in ((FOLDER, "translator"), (CAPTIONS, "captioner")):
            shutil.rmtree(self.path(model), ignore_errors=True)
            shutil.copytree(self.material.root / origin, self.path(model))
        self.put(STEADY, "translator")
        self.put(SWAPPED, "recurrent")

    def put(self, model: str, origin: str, in_place: bool = False) -> None:
        """Give a model another file: renamed over the old one, which is safe, or copied over it,
        which is not.
        """
        new = self.material.runtime_file(origin)
        if in_place:
            self.path(model).write_bytes(new.read_bytes())
            return
        shutil.copyfile(new, self.folder / "new")
        os.replace(self.folder / "new", self.path(model))

    def __enter__(self) -> Served:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Served:
        """Start the server, and wait until it listens; ask once what it translates while nobody
        attacks it.

        One that does not come so far is ended.
        """
        self._launch()
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def _launch(self) -> None:
        command = [sys.executable, "-u", str(self.folder / "regard"), "serve"]
        for model in self.models:
            source = "" if model == CAPTIONS else "ko"
            command += [str(self.path(model)), f"--languages={source},en"]
        root = Path(__file__).resolve().parents[2]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        # A process that is started again is to find its modules compiled.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *OPTIONS, *self.options],
                cwd=self.folder / "current",
                env=environment,
                stdout=log,
                stderr=log,
            )

    def _wait_until_ready(self) -> None:
        assert self.process is not None
        end = time.monotonic() + PATIENCE
        listens = re.compile(rb"listening at http://127.0.0.1:(\d+)")
        while not (match := listens.search(self.log.read_bytes())):
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.05)
        self.address = ("127.0.0.1", int(match[1]))
        assert self.workers(), "no process is known as one that serves"
        for model in {*self.models} - {CAPTIONS, *self.expected}:
            translated = {text: self.translate(text, model) for text in SENTENCES}
            self.expected[model] = translated

    def translate(
        self,
        text: str,
        model: str = STEADY,
        source: str = "127.0.0.1",
        key: str = "",
        insists: bool = False,
    ) -> str:
        """Return the translation of a text; of another answer its status and beginning.

        `insists`: ask again as `insist` does.
        """
        ask = self.insist if insists else self.ask
        answer = ask(translation(text, model, key), source)
        if answer is None:
            return NO_ANSWER
        if answer.status != 200:
            return refusal(answer)
        translated: str = json.loads(answer.body)["translations"][0]["text"]
        return translated

    def ask(self, data: bytes, source: str = "127.0.0.1") -> Answer | None:
        """Send a request and return its answer; None if there is none."""
        return ask(self.address, data, source, PATIENCE)

    def connect(self, source: str = "127.0.0.1"):
        return connect(self.address, source, PATIENCE)

    def insist(self, data: bytes, source: str = "127.0.0.1") -> Answer | None:
        """Send a request, as clients do, again if its connection was lost, and as late as an
        overloaded server says.

        Return its answer, or the last one if it is refused for longer than a server that does not
        answer may be silent.
        """
        end = time.monotonic() + PATIENCE
        while True:
            try:
                answer = self.ask(data, source)
            except (BrokenAnswer, ConnectionError):
                answer = None
            wait = PAUSE
            if answer is not None:
                wait = float(answer.headers.get("retry-after", PATIENCE))
            if time.monotonic() + wait >= end:
                return answer
            time.sleep(wait)

    def processes(self) -> list[int]:
        """The process that was started and all its descendants, whichever of their threads started
        them.
        """
        assert self.process is not None
        numbers = [self.process.pid]
        for number in numbers:
            for children in Path(f"/proc/{number}/task").glob("*/children"):
                with suppress(OSError):
                    numbers += map(int, children.read_text().split())
        return numbers

    def workers(self) -> dict[int, str]:
        """The processes that serve models: the name of each one's module, by its number."""
        return {number: name for number in self.processes() if (name := worker(number))}

    def kill_worker(self, *names: str) -> list[int]:
        """Kill the processes of these modules; return their numbers."""
        numbers = [number for number, name in self.workers().items() if name in names]
        for number in numbers:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return numbers

    def memory(self) -> int:
        """Bytes in the memory of all processes of the server."""
        return sum(map(_resident, self.processes()))

    def tracebacks(self) -> list[str]:
        """Say how many tracebacks are in the log, if there are any."""
        count = self.log.read_bytes().count(b"Traceback (most")
        return [f"{count} tracebacks in {self.log}"] if count else []

    def stop(self) -> float:
        """Send SIGTERM; return the seconds until the server has ended. One that does not end is
        killed.
        """
        assert self.process is not None
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        workers = self.workers()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill(workers)
        finally:
            self.kill()
        return time.monotonic() - start

    def kill(self, workers: Iterable[int] = ()) -> None:
        """End the server and these processes that serve at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        for number in filter(worker, workers):
            os.kill(number, signal.SIGKILL)


def translation(text: str, model: str = STEADY, key: str = "", **more: object) -> bytes:
    """A request for the translation of a text."""
    headers = [f"Authorization: Bearer {key}"] if key else []
    return request(
        "/v1/translate", {"text": text, "target": "en", "model": model, **more}, headers
    )


def refusal(answer: Answer) -> str:
    """Return the status of an answer, and the sentence in it or its beginning."""
    with suppress(ValueError, LookupError, TypeError):
        return f"{answer.status} {answer.values['detail']}"
    return f"{answer.status} {answer.body[:300].decode(errors='replace')}"


def worker(process: int) -> str:
    """Return the name of the module of a process that serves models; empty if the process is none,
    or has ended.
    """
    try:
        command = Path(f"/proc/{process}/cmdline").read_text("utf-8", "replace")
    except OSError:
        return ""
    match = re.search(rf"from regard\.serving\.({SERVING}|{PYTORCH}) import", command)
    return match[1] if match else ""


def is_unavailable(translated: str) -> bool:
    """Whether `translate` got no translation for lack of a process that answers or of time."""
    return translated.startswith((NO_ANSWER, "500 ", "503 ", "504 "))


def _resident(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(match[1]) * 1024 if match else 0
