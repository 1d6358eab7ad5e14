"""The models of a server: opened, reloaded when their files change, and called in threads."""

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
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from regard.common.errors import ModelFolderError, RegardError, UsageError, WorkerError
from regard.common.stopping import Stopped, check_stop, stopped_by
from regard.data.language_id import LanguageId
from regard.documents.document_translation import DocumentTranslation
from regard.pipeline.runtime_translator import RuntimeTranslator
from regard.pipeline.translator import CHUNK
from regard.requests.server_settings import ServerSettings
from regard.runtime.model import available_cores
from regard.serving.backlog import Backlog
from regard.serving.description import check_languages, known_languages, served_model
from regard.serving.model_files import files_state, is_kept, model_names, prepare
from regard.serving.pytorch_process import Folder
from regard.serving.served_translator import ServedFile
from regard.serving.service import (
    Continuation,
    DeadlineExceeded,
    DocumentFile,
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
"""Characters above which a text counts as long; long texts have a thread pool of their own."""
_IMAGE = (1, 200)
"""Size of an image in the backlog: lines and characters of text."""
_DOCUMENT = (CHUNK, 100 * CHUNK)
"""Size of a document in the backlog, where only its chunk waits."""
_SHORT_CALLS = 128
"""Threads of a model for short calls; further calls wait."""
_LONG_CALLS = 4
"""Threads of a model for calls with long texts or large answers; further calls wait."""
_PATIENCE = 5.0
"""Seconds that a check of a model, or a call for one that is still being opened, may wait."""
_LONGEST_PAUSE = 60.0
"""Maximum number of seconds between two attempts to open a model after a temporary error."""
Log = Callable[[str], None]
R = TypeVar("R")


@dataclass
class _Host:
    """One model with its state: its file or folder, its backlog and threads, and whether it is
    open.
    """

    path: Path
    languages: Pair | None
    backlog: Backlog
    served: ServedModel
    language_id: LanguageId = field(default_factory=lambda: LanguageId({}))
    model: Any = None
    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    is_whole: bool = False
    # State of the files when they were opened or found unusable (see `files_state`).
    state: tuple[Any, ...] | None = None
    export: Path | None = None  # cached export that is open in the place of a folder
    problem: str = ""  # cause if the last attempt to open it failed
    reloading: asyncio.Lock = field(default_factory=asyncio.Lock)
    short_calls: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_SHORT_CALLS, "call")
    )
    long_calls: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_LONG_CALLS, "long-call")
    )


class Models:
    """The models of a server; each call names one, and runs in one of its threads.

    `open_pytorch`: opens the model folders that need PyTorch; `descriptions`: a file that keeps the
    descriptions of all models for the next process, so that it can accept requests for models that
    it is still opening.

    The `deadline` of a call is in seconds from now, and a call that is cancelled stops its thread.
    Calls raise UsageError for options that the model does not support, LineError with the numbers
    of lines that it cannot translate, Overloaded, DeadlineExceeded, and RegardError if the model is
    not open.
    """

    def __init__(
        self,
        settings: ServerSettings,
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
        """Open all models.

        If `strict`, raises ModelFolderError, with all causes, if a model cannot be opened. If not
        `strict`, such a model is not ready, and folders, which take longer, are opened while the
        other models serve.
        """
        for name, path, pair in zip_longest(model_names(paths), paths, languages):
            served = ServedModel(
                name, "translation", (pair or ("", ""),), is_ready=False
            )
            backlog = Backlog(self._settings.most_lines)
            self._hosts[name] = _Host(path, pair, backlog, served)

        hosts = list(self._hosts.values())
        if strict:
            causes_by_host = await asyncio.gather(*map(self._open, hosts))
            ModelFolderError.raise_all(chain.from_iterable(causes_by_host))
        else:
            self._restore_descriptions()
            files = [host for host in hosts if not host.path.is_dir()]
            await asyncio.gather(*map(self._reload, files))
        self._watchers = [asyncio.create_task(self._watch(host)) for host in hosts]

    async def close(self) -> None:
        """Stop watching files, and cancel the calls that have not begun."""
        for watcher in self._watchers:
            watcher.cancel()
        for host in self._hosts.values():
            host.short_calls.shutdown(wait=False, cancel_futures=True)
            host.long_calls.shutdown(wait=False, cancel_futures=True)

    def drain(self) -> None:
        """Refuse further calls and report not to be ready; open calls go on."""
        self._is_draining = True

    async def check(self) -> None:
        """Check the files of all models, so that `models` and `is_ready` are up to date."""
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
        models = {}
        for name, host in self._hosts.items():
            models[name] = host.served
            if not host.is_whole:
                models[name] = replace(host.served, is_ready=False)
        return models

    @property
    def is_ready(self) -> bool:
        """True if all models are open and whole, and calls are accepted."""
        return not self._is_draining and all(
            host.is_whole for host in self._hosts.values()
        )

    @property
    def backlog(self) -> Mapping[str, tuple[int, int]]:
        """Lines and characters of open calls, by model."""
        return {
            name: (host.backlog.lines, host.backlog.characters)
            for name, host in self._hosts.items()
        }

    async def translate(
        self, model: str, texts: Sequence[str], request: TextRequest, deadline: float
    ) -> list[ServedText]:
        """Translate texts. A LineError has the indices of texts in the place of lines."""
        is_large = request.search.nbest > 1 or request.search.attention != "none"
        ends = time.monotonic() + deadline
        return await self._call(
            await self._opened(model, deadline),
            lambda served: served.translate(texts, request, ends - time.monotonic()),
            _size(texts),
            deadline,
            is_large,
        )

    async def translate_document(
        self, model: str, file: DocumentFile, request: TextRequest, deadline: float
    ) -> DocumentTranslation:
        """Translate a document. Raises DataError and UsageError for a file that cannot be read."""
        return await self._call(
            await self._opened(model, deadline),
            lambda served: served.translate_document(file, request),
            _DOCUMENT,
            deadline,
            is_large=True,
        )

    async def caption(
        self, model: str, image: bytes, search: SearchRequest, deadline: float
    ) -> list[ServedHypothesis]:
        """Caption an image, the bytes of a PNG, JPEG or WebP file.

        Raises DataError if the bytes are no such image.
        """
        return await self._call(
            await self._opened(model, deadline),
            lambda served: served.caption(image, search),
            _IMAGE,
            deadline,
        )

    async def explain(
        self, model: str, text: str, options: ExplanationRequest, deadline: float
    ) -> msgspec.Raw:
        """Return a translation with attention, alignments, log-probabilities and search trace, in
        the format of js/regard.d.ts.
        """
        return await self._call(
            await self._opened_file(model, deadline),
            lambda served: served.explain(text, options),
            _size([text]),
            deadline,
            is_large=True,
        )

    async def continuations(
        self,
        model: str,
        text: str,
        prefix: str | Sequence[int],
        count: int,
        deadline: float,
    ) -> list[Continuation]:
        """Return the likeliest next tokens after a prefix of the translation, best first, each with
        the translation that it leads to.
        """
        return await self._call(
            await self._opened_file(model, deadline),
            lambda served: served.continuations(text, prefix, count),
            (1 + count, len(text) * (1 + count)),
            deadline,
            is_large=True,
        )

    async def explain_image(
        self, model: str, image: bytes, deadline: float
    ) -> msgspec.Raw:
        """Return a caption as data for figures: the image as the model sees it, and the cells that
        each word attends to.
        """
        return await self._call(
            await self._opened(model, deadline),
            lambda served: served.explain_image(image),
            _IMAGE,
            deadline,
            is_large=True,
        )

    async def _call(
        self,
        host: _Host,
        work: Callable[[Any], R],
        size: tuple[int, int],
        deadline: float,
        is_large: bool = False,
    ) -> R:
        """Call a model in a thread.

        `work`: takes the model; `size`: size of the call in the backlog, as lines and characters;
        `is_large`: whether its answer is large.
        """
        host.backlog.admit(*size, deadline)
        pool = host.long_calls if is_large or size[1] > LONG_TEXT else host.short_calls
        with host.backlog.holding(*size), _stopping_threads(deadline) as stop:
            return await _in_thread(pool, deadline, stop, work, host.model)

    async def stream(
        self, model: str, text: str, request: TextRequest, deadline: float
    ) -> AsyncGenerator[tuple[int, str] | ServedText, None]:
        """Yield increments of a greedy translation with the index of their line, and finally the
        whole text.
        """
        host = await self._opened(model, deadline)
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
        """Return the languages of the models with their probabilities, likeliest first."""
        return self._language_id.detect(text)

    async def _opened(self, name: str, deadline: float) -> _Host:
        """Wait until the model for a call is open, and return it.

        Raises Overloaded and RegardError.
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
        return host

    async def _opened_file(self, name: str, deadline: float) -> _Host:
        """Return a model like `_opened`. Raises UsageError too, if it runs on PyTorch."""
        host = await self._opened(name, deadline)
        if not isinstance(host.model, ServedFile):
            raise UsageError(
                "this model runs on PyTorch, which this server has no explanations of; use `regard "
                "show`"
            )
        return host

    async def reload(self) -> None:
        """Reload the models whose files have changed; the old model stays if the new one cannot be
        opened.
        """
        await asyncio.gather(*map(self._reload, self._hosts.values()))

    async def _watch(self, host: _Host) -> None:
        """Reload a model whenever its files change, and retry after temporary errors."""
        pause = 0.0
        while True:
            needs_retry = await self._reload(host)
            if needs_retry:
                pause = min(_LONGEST_PAUSE, 2 * pause + 1)
            else:
                pause = self._settings.reload_seconds
            if not pause:
                return
            await asyncio.sleep(pause)

    async def _reload(self, host: _Host) -> bool:
        """Open a model if its files have changed, and return True if that failed for a temporary
        reason.

        The lock prevents concurrent reloads, by a signal and by the regular check.
        """
        async with host.reloading:
            # If its export was removed, a new process could not start: export the folder again.
            if host.export is not None and not is_kept(host.export):
                host.export = None
                host.state = None

            state = files_state(host.path)
            if state == host.state or (host.model is not None and not state):
                return False
            if host.state is not None:
                await asyncio.sleep(min(1.0, self._settings.reload_seconds))
                if files_state(host.path) != state:
                    return False  # the files are still being written

            was_open = host.model is not None
            problem = "; ".join(await self._open(host))
            if problem and problem != host.problem:
                await self._check(host)
                consequence = "stays as it was" if host.is_whole else "is away"
                self._log(
                    f"{host.served.name}: cannot be opened, so the model {consequence}: {problem}"
                )
            if not problem and (was_open or host.problem):
                self._log(f"{host.served.name}: loaded again")
            host.problem = problem
            return problem != "" and host.state != state

    async def _open(self, host: _Host) -> list[str]:
        """Open a model, or replace the open one, and return the causes if that fails.

        A replaced model is released after its last call. The state of the files is stored, unless
        the error is temporary.
        """
        state = files_state(host.path)
        try:
            model, description = await self._load(host)
            check_languages(description, host.languages)
            self._describe(host, description)
        except Exception as problem:
            causes: Sequence[str] = [f"{type(problem).__name__}: {problem}"]
            if isinstance(problem, RegardError):
                causes = problem.causes
                if not isinstance(problem, WorkerError):
                    host.state = state
            return [
                cause if str(host.path) in cause else f"{host.path}: {cause}"
                for cause in causes
            ]

        host.model = model
        host.state = state
        host.is_whole = True
        host.is_open.set()
        # If the file cannot be written, the next process waits for the models' own descriptions.
        with contextlib.suppress(OSError):
            self._descriptions.write_bytes(msgspec.json.encode(self._described))
        return []

    async def _load(self, host: _Host) -> tuple[Any, Mapping[str, Any]]:
        """Load the model of a file or folder; return it with its description.

        Raises RegardError if the files are unusable, and WorkerError or OSError for other causes.
        """
        settings = self._settings
        path = host.path
        if not path.exists():
            raise ModelFolderError("there is no such file or folder")
        opened = path if path.is_file() else await prepare(path, settings.precision)
        loop = asyncio.get_running_loop()
        in_thread = partial(loop.run_in_executor, host.short_calls)
        if opened.is_dir():
            folder = Folder(
                opened,
                settings.precision,
                settings.threads or available_cores(),
                settings.answer_limit,
                host.languages or (),
                version=time.time_ns(),
            )
            model = await in_thread(self._open_pytorch, folder)
        else:
            model = await in_thread(_open_file, opened, settings, host.languages)
        host.export = opened if opened != path and opened.is_file() else None
        return model, await in_thread(model.about)

    def _describe(self, host: _Host, description: Mapping[str, Any]) -> None:
        """Store the description that a model gives of itself."""
        name = host.served.name
        self._described[name] = description
        host.served = served_model(name, description, host.languages)
        host.language_id = known_languages(description, host.languages)
        self._language_id = LanguageId.merge(
            other.language_id for other in self._hosts.values()
        )

    def _restore_descriptions(self) -> None:
        """Read the descriptions of the models that the process before this one has written."""
        # That process may have died before it had written the file, or while it wrote it.
        with contextlib.suppress(OSError, msgspec.DecodeError):
            described = msgspec.json.decode(self._descriptions.read_bytes())
            for name in self._hosts.keys() & described.keys():
                self._describe(self._hosts[name], described[name])


@contextlib.contextmanager
def _stopping_threads(deadline: float) -> Iterator[threading.Event]:
    """Yield a stop event for the threads of a block, and set it when the block ends.

    Raises DeadlineExceeded instead of TimeoutError.
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
    work: Callable[..., R],
    *arguments: Any,
) -> R:
    """Run `work` in a thread of a pool, until `stop` is set. Raises TimeoutError after
    `seconds`.
    """

    def run() -> Any:
        # After `stop` is set, nobody waits for the result.
        with stopped_by(stop), contextlib.suppress(Stopped):
            check_stop(stop)
            return work(*arguments)

    return await asyncio.wait_for(
        asyncio.get_running_loop().run_in_executor(pool, run), seconds
    )


def _open_file(
    path: Path, settings: ServerSettings, languages: Pair | None
) -> ServedFile:
    # This raises OSError for errors of the system, which do not make the file unusable.
    path.open("rb").close()
    translator = RuntimeTranslator(path, settings.threads)
    return ServedFile(translator, settings.answer_limit, languages or ())


def _open_here(folder: Folder) -> Any:
    """Open a folder in this process, if there is no PyTorch process."""
    from regard.serving.pytorch_models import open_folder

    return open_folder(*folder[:-1])


def _size(texts: Sequence[str]) -> tuple[int, int]:
    """Return the size of texts in the backlog: their lines and characters."""
    lines = sum(text.count("\n") + 1 for text in texts)
    characters = sum(map(len, texts))
    return lines, characters
