"""The models that are served: opened, watched, replaced when their files change, and called in
threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from regard.common.errors import ModelFolderError, RegardError, UsageError, WorkerError
from regard.common.stopping import Stopped, check_stop, stopped_by
from regard.data.language_id import LanguageId
from regard.pipeline.runtime_translator import RuntimeTranslator
from regard.serving.backlog import Backlog
from regard.serving.description import check_languages, known_languages, served_model
from regard.serving.model_files import files_state, is_kept, model_names, prepare
from regard.serving.pytorch_process import Folder
from regard.serving.served_translator import ServedFile
from regard.serving.service import (
    Continuation,
    DeadlineExceeded,
    ExplanationRequest,
    Overloaded,
    Pair,
    SearchRequest,
    ServedHypothesis,
    ServedModel,
    ServedText,
    TextRequest,
)

LONG_TEXT = 10_000
"""Characters from which on a text is long: then it may not take the threads of others."""
_IMAGE = (1, 200)
"""Lines and characters of text that an image counts as, in the backlog."""
_SHORT_CALLS, _LONG_CALLS = 128, 4
"""Calls of a model that are open in threads at the same time; further ones wait."""
_PATIENCE = 5.0
"""Seconds after which a model that says nothing is believed to be as it was."""
_LONGEST_PAUSE = 60.0
"""Most seconds between two attempts to open a model that is away for a reason that may pass by
itself.
"""
Log = Callable[[str], None]


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of the models: `threads` that translate, `most_lines` that wait for a model."""

    precision: str = "int8"
    threads: int = 1
    most_lines: int = 4096
    reload_seconds: float = 2.0
    answer_limit: int = 32_000_000


@dataclass
class _Host:
    """One model: the file or folder it was named by, the model itself if it is open, and what is
    known of it.
    """

    path: Path
    languages: Pair | None
    backlog: Backlog
    about: ServedModel
    language_id: LanguageId = field(default_factory=lambda: LanguageId({}))
    model: Any = None
    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    is_whole: bool = False
    # Of its files, as they were opened or found unusable.
    state: tuple[Any, ...] | None = None
    export: Path | None = None  # that is open in the place of a folder
    problem: str = ""  # why it could not be opened the last time
    reloading: asyncio.Lock = field(default_factory=asyncio.Lock)
    short_calls: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_SHORT_CALLS, "call")
    )
    long_calls: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_LONG_CALLS, "long-call")
    )


class Models:
    """The models of a server: each call names one, and runs in a thread of it.

    What needs PyTorch is opened by `open_pytorch`.

    `descriptions`: a file in which those of all models are kept for the next process, if this one
    dies: requests for a model that is still being opened can wait for it then.

    Requests raise UsageError for options that the model cannot do, LineError for lines that it
    cannot translate (with their numbers), Overloaded, DeadlineExceeded, and RegardError if the
    model is away. `deadline`: seconds from now. A call that is cancelled is given up.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        log: Log = print,
        open_pytorch: Callable[[Folder], Any] | None = None,
        descriptions: Path = Path(os.devnull),
    ) -> None:
        self._settings = settings
        self._log = log
        self._open_pytorch = open_pytorch or _open_here
        self._hosts: dict[str, _Host] = {}
        self._watchers = list[asyncio.Task[None]]()
        self._is_draining = False
        self._language_id = LanguageId({})
        self._descriptions = descriptions
        self._described = dict[str, Mapping[str, Any]]()

    async def start(
        self, paths: Sequence[Path], languages: Sequence[Pair] = (), strict: bool = True
    ) -> None:
        """Open all models. Raises ModelFolderError, with all causes, if one cannot be.

        Not `strict`: such a model is away, and folders are opened beside, while the others serve:
        they take longer.
        """
        for name, path, pair in zip_longest(model_names(paths), paths, languages):
            away = ServedModel(name, "translation", (pair or ("", ""),), is_ready=False)
            self._hosts[name] = _Host(
                path, pair, Backlog(self._settings.most_lines), away
            )
        hosts = list(self._hosts.values())
        if strict:
            causes = await asyncio.gather(*map(self._open, hosts))
            ModelFolderError.raise_all(cause for of_host in causes for cause in of_host)
        else:
            self._recall()
            await asyncio.gather(
                *(self._reload(host) for host in hosts if not host.path.is_dir())
            )
        self._watchers = [asyncio.create_task(self._watch(host)) for host in hosts]

    async def close(self) -> None:
        """Give up what is open; files are no longer watched."""
        for watcher in self._watchers:
            watcher.cancel()
        for host in self._hosts.values():
            host.short_calls.shutdown(wait=False, cancel_futures=True)
            host.long_calls.shutdown(wait=False, cancel_futures=True)

    def drain(self) -> None:
        """Tell readiness checks that the server is about to end; open calls go on."""
        self._is_draining = True

    async def check(self) -> None:
        """Check that the files of all models are whole, so that `models` and `is_ready` are up to
        date.
        """
        await asyncio.gather(*map(self._check, self._hosts.values()))

    async def _check(self, host: _Host) -> None:
        if host.model is None:
            return
        try:
            with _stopping_threads(_PATIENCE) as stop:
                await _in_thread(host.short_calls, _PATIENCE, stop, host.model.check)
            host.is_whole = True
        except DeadlineExceeded:
            pass
        except RegardError:
            host.is_whole = False

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """The models, by name."""
        return {
            name: host.about if host.is_whole else replace(host.about, is_ready=False)
            for name, host in self._hosts.items()
        }

    @property
    def is_ready(self) -> bool:
        """True if all models are open and whole, and requests are taken."""
        return not self._is_draining and all(
            host.is_whole for host in self._hosts.values()
        )

    @property
    def backlog(self) -> Mapping[str, tuple[int, int]]:
        """Lines and characters that are not done, by model."""
        return {
            name: (host.backlog.lines, host.backlog.characters)
            for name, host in self._hosts.items()
        }

    async def translate(
        self, model: str, texts: Sequence[str], request: TextRequest, deadline: float
    ) -> list[ServedText]:
        """Translate texts. LineErrors have the numbers of these."""
        is_large = request.search.nbest > 1 or request.search.attention != "none"
        size = _size(texts)
        result: list[ServedText] = await self._call(
            model,
            "translate",
            size,
            deadline,
            texts,
            request,
            deadline,
            is_large=is_large,
        )
        return result

    async def caption(
        self, model: str, image: bytes, search: SearchRequest, deadline: float
    ) -> list[ServedHypothesis]:
        """Describe an image: the bytes of a PNG, JPEG or WebP file. Raises DataError if they are
        none.
        """
        result: list[ServedHypothesis] = await self._call(
            model, "caption", _IMAGE, deadline, image, search
        )
        return result

    async def explain(
        self, model: str, text: str, options: ExplanationRequest, deadline: float
    ) -> msgspec.Raw:
        """Return a translation with attention, alignments, log-probabilities and search, as
        js/regard.d.ts has it.
        """
        result: msgspec.Raw = await self._call(
            model, "explain", _size([text]), deadline, text, options, is_large=True
        )
        return result

    async def continuations(
        self,
        model: str,
        text: str,
        prefix: str | Sequence[int],
        count: int,
        deadline: float,
    ) -> list[Continuation]:
        """Return the tokens that may follow a prefix of the translation, likeliest first, and what
        each leads to.
        """
        size = (1 + count, len(text) * (1 + count))
        result: list[Continuation] = await self._call(
            model, "continuations", size, deadline, text, prefix, count, is_large=True
        )
        return result

    async def explain_image(
        self, model: str, image: bytes, deadline: float
    ) -> msgspec.Raw:
        """Return a caption as data for figures: the image as the model sees it, and the cells of
        each word.
        """
        result: msgspec.Raw = await self._call(
            model, "explain_image", _IMAGE, deadline, image, is_large=True
        )
        return result

    async def _call(
        self,
        name: str,
        method: str,
        size: tuple[int, int],
        deadline: float,
        *arguments: Any,
        is_large: bool = False,
    ) -> Any:
        """Call a method of a model in a thread; `size`: lines and characters that it counts as in
        the backlog.
        """
        host = await self._opened(name, method, deadline)
        host.backlog.admit(*size, deadline)
        pool = host.long_calls if is_large or size[1] > LONG_TEXT else host.short_calls
        with host.backlog.holding(*size), _stopping_threads(deadline) as stop:
            return await _in_thread(
                pool, deadline, stop, getattr(host.model, method), *arguments
            )

    async def stream(
        self, model: str, text: str, request: TextRequest, deadline: float
    ) -> AsyncGenerator[tuple[int, str] | ServedText, None]:
        """Yield what the translation of a text grows by, with the number of the line, greedily; at
        last the whole.
        """
        host = await self._opened(model, "stream", deadline)
        size = _size([text])
        host.backlog.admit(*size, deadline)
        ends = time.monotonic() + deadline
        with host.backlog.holding(*size), _stopping_threads(deadline) as stop:
            parts = host.model.stream(text, request)
            while part := await _in_thread(
                host.long_calls, ends - time.monotonic(), stop, next, parts, None
            ):
                yield part

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return the languages of the models with the probability that the text is of each,
        likeliest first.
        """
        return self._language_id.detect(text)

    async def _opened(self, name: str, method: str, deadline: float) -> _Host:
        """Return the model of a name for a call, once it is open. Raises UsageError, Overloaded,
        RegardError.
        """
        host = self._hosts[name]
        if self._is_draining:
            raise Overloaded(5)
        try:
            if not host.is_open.is_set():
                await asyncio.wait_for(host.is_open.wait(), min(_PATIENCE, deadline))
        except asyncio.TimeoutError:
            raise RegardError(
                f"the model {name} is away, or still being opened; /ready says which are"
            ) from None
        if method in ("explain", "continuations") and not isinstance(
            host.model, ServedFile
        ):
            raise UsageError(
                "this model runs on PyTorch, which this server has no explanations of; use `regard "
                "show`"
            )
        return host

    async def reload(self) -> None:
        """Open again the models whose files have changed; one that cannot be opened stays as it
        was.
        """
        await asyncio.gather(*map(self._reload, self._hosts.values()))

    async def _watch(self, host: _Host) -> None:
        """Open a model that is away, and again whenever its files change."""
        pause = 0.0
        while True:
            is_again = await self._reload(host)
            pause = (
                min(_LONGEST_PAUSE, 2 * pause + 1)
                if is_again
                else self._settings.reload_seconds
            )
            if not pause:
                return
            await asyncio.sleep(pause)

    async def _reload(self, host: _Host) -> bool:
        """Open a model if its files have changed. Return True if that failed for a reason that may
        pass by itself.

        At most one reload of a model runs at a time: a signal may come while files are looked at
        anyway.
        """
        async with host.reloading:
            # Without which no process could start again.
            if host.export is not None and not is_kept(host.export):
                host.export = host.state = None
            state = files_state(host.path)
            if state == host.state or (host.model is not None and not state):
                return False
            if host.state is not None:
                await asyncio.sleep(min(1.0, self._settings.reload_seconds))
                if files_state(host.path) != state:
                    return False  # is still being written
            was_open = host.model is not None
            problem = "; ".join(await self._open(host))
            if problem and problem != host.problem:
                await self._check(host)
                rest = "stays as it was" if host.is_whole else "is away"
                self._log(
                    f"{host.about.name}: cannot be opened, so the model {rest}: {problem}"
                )
            if not problem and (was_open or host.problem):
                self._log(f"{host.about.name}: loaded again")
            host.problem = problem
            return problem != "" and host.state != state

    async def _open(self, host: _Host) -> list[str]:
        """Open a model, in the place of the one before, which ends with its last call. Return why
        it cannot be opened.

        The state of its files is noted, unless it fails for a reason that may pass by itself.
        """
        state = files_state(host.path)
        try:
            model, about = await self._load(host)
            check_languages(about, host.languages)
            self._describe(host, about)
        except Exception as problem:
            causes = (
                problem.causes
                if isinstance(problem, RegardError)
                else (f"{type(problem).__name__}: {problem}",)
            )
            if isinstance(problem, RegardError) and not isinstance(
                problem, WorkerError
            ):
                host.state = state
            return [
                cause if str(host.path) in cause else f"{host.path}: {cause}"
                for cause in causes
            ]
        host.model = model
        host.state = state
        host.is_whole = True
        host.is_open.set()
        # Then the next process has to wait for what the model says.
        with contextlib.suppress(OSError):
            self._descriptions.write_bytes(msgspec.json.encode(self._described))
        return []

    async def _load(self, host: _Host) -> tuple[Any, Mapping[str, Any]]:
        """Return the model of a file or folder as it is now, and what it says of itself.

        Raises WorkerError or OSError if it is not the files that are to blame, else RegardError.
        """
        settings = self._settings
        path = host.path
        if not path.exists():
            raise ModelFolderError("there is no such file or folder")
        opened = path if path.is_file() else await prepare(path, settings.precision)
        in_thread = partial(
            asyncio.get_running_loop().run_in_executor, host.short_calls
        )
        if opened.is_dir():
            options = (
                settings.precision,
                settings.threads,
                settings.answer_limit,
                host.languages or (),
            )
            model = await in_thread(
                self._open_pytorch, Folder(opened, *options, time.time_ns())
            )
        else:
            model = await in_thread(_open_file, opened, settings, host.languages)
        host.export = opened if opened != path and opened.is_file() else None
        return model, await in_thread(model.about)

    def _describe(self, host: _Host, about: Mapping[str, Any]) -> None:
        """Take what a model says of itself."""
        name = host.about.name
        self._described[name] = about
        host.about = served_model(name, about, host.languages)
        host.language_id = known_languages(about, host.languages)
        self._language_id = LanguageId.merge(
            each.language_id for each in self._hosts.values()
        )

    def _recall(self) -> None:
        """Take what models said of themselves in a process that has died."""
        # It died before it wrote, or meanwhile.
        with contextlib.suppress(OSError, msgspec.DecodeError):
            described = msgspec.json.decode(self._descriptions.read_bytes())
            for name in self._hosts.keys() & described.keys():
                self._describe(self._hosts[name], described[name])


@contextlib.contextmanager
def _stopping_threads(deadline: float) -> Iterator[threading.Event]:
    """Yield a stop event for the threads that work for the block, and set it when the block ends.

    Raises DeadlineExceeded in the place of a timeout.
    """
    stop = threading.Event()
    try:
        yield stop
    except asyncio.TimeoutError:
        raise DeadlineExceeded(deadline) from None
    finally:
        stop.set()


async def _in_thread(
    pool: ThreadPoolExecutor,
    seconds: float,
    stop: threading.Event,
    work: Callable[..., Any],
    *arguments: Any,
) -> Any:
    """Run `work` in a thread of a pool, until `stop` is set. Raises TimeoutError after
    `seconds`.
    """

    def run() -> Any:
        # Then nobody waits for the result.
        with stopped_by(stop), contextlib.suppress(Stopped):
            check_stop(stop)
            return work(*arguments)

    return await asyncio.wait_for(
        asyncio.get_running_loop().run_in_executor(pool, run), seconds
    )


def _open_file(
    path: Path, settings: ServiceSettings, languages: Pair | None
) -> ServedFile:
    path.open("rb").close()  # an error of the system is none of the file
    return ServedFile(
        RuntimeTranslator(path, settings.threads),
        settings.answer_limit,
        languages or (),
    )


def _open_here(folder: Folder) -> Any:
    """Open a folder in this process, where there is no other for PyTorch."""
    from regard.serving.pytorch_models import open_folder

    return open_folder(*folder[:-1])


def _size(texts: Sequence[str]) -> tuple[int, int]:
    """Return the lines and characters that texts count as, in the backlog."""
    return sum(text.count("\n") + 1 for text in texts), sum(map(len, texts))
