"""The service itself: models in engine processes, started, watched, replaced when their files change, and ended."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regard.common.errors import ModelFolderError, RegardError, UsageError
from regard.common.processes import module_command
from regard.data.language_codes import canonical_code, code_exists
from regard.data.language_id import LanguageId
from regard.pipeline.export_cache import export_files, mark_used
from regard.serving.engine_pool import EnginePool, Log
from regard.serving.frames import Message, error_of
from regard.serving.raw_json import RawJson
from regard.serving.service import (
    Continuation,
    ExplanationRequest,
    Overloaded,
    Pair,
    SearchRequest,
    ServedHypothesis,
    ServedLine,
    ServedModel,
    ServedText,
    TextRequest,
)

_NEEDED = {"config.json", "model.safetensors"}
"""Files without which a folder is no model folder."""
_IMAGE = (1, 200)
"""Lines and characters of text that an image counts as, in the backlog."""
_exports = dict[Path, Path]()
"""The export that is served of each model folder."""
_removals = Counter[Path]()
"""How often the export of a folder was found to be removed."""


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of the processes: `threads` of each, `processes` of each model, `most_lines` that wait for a model."""

    precision: str = "int8"
    threads: int = 1
    processes: int = 1
    most_lines: int = 4096
    reload_seconds: float = 2.0
    answer_limit: int = 32_000_000


@dataclass
class _Host:
    """One model: the file or folder it was named by, its processes, and what is known of it."""

    path: Path
    languages: Pair | None
    pool: EnginePool
    state: tuple[Any, ...]  # of its files, as it was loaded
    model: ServedModel
    language_id: LanguageId


class ProcessService:
    """Models in processes of their own, which take calls together (continuous batching).

    Requests raise UsageError for options that the model cannot do, LineError for lines that it cannot translate (with
    their numbers), Overloaded, DeadlineExceeded, and RegardError if the model is gone. `deadline`: seconds from now. A
    call that is cancelled gives up its place.
    """

    def __init__(self, settings: ServiceSettings, log: Log = print) -> None:
        self._settings, self._log = settings, log
        self._hosts: dict[str, _Host] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._is_draining = False
        self._reloading = asyncio.Lock()
        self._language_id = LanguageId({})

    async def start(self, paths: Sequence[Path], languages: Sequence[Pair] = ()) -> None:
        """Open all models. Raises RegardError, with all causes, if one cannot be; nothing is left running then."""
        named = zip(_names(paths), paths, [*languages, *[None] * len(paths)], strict=False)
        try:
            outcomes = await asyncio.gather(*(self._open(*model) for model in named), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, _Host):
                    self._hosts[outcome.model.name] = outcome
            problems = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
            self._merge_languages()
            if other := [problem for problem in problems if not isinstance(problem, RegardError)]:
                raise other[0]
            ModelFolderError.raise_all(str(cause) for problem in problems for cause in problem.args[0].split("\n"))
        except BaseException:
            await self.close()
            raise
        if self._settings.reload_seconds:
            self._watcher = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """End all processes."""
        if self._watcher:
            self._watcher.cancel()
        await asyncio.gather(*(host.pool.close() for host in self._hosts.values()))

    def drain(self) -> None:
        """Tell readiness checks that the server is about to end; open calls go on."""
        self._is_draining = True

    async def check(self) -> None:
        """Ask all models whether they are whole, so that `models` and `is_ready` say how it is now."""
        await asyncio.gather(*(host.pool.check() for host in self._hosts.values()))

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """The models, by name."""
        return {
            name: host.model if host.pool.is_ready else replace(host.model, is_ready=False)
            for name, host in self._hosts.items()
        }

    @property
    def is_ready(self) -> bool:
        """True if all models are loaded and requests are taken."""
        return not self._is_draining and all(host.pool.is_ready for host in self._hosts.values())

    @property
    def backlog(self) -> Mapping[str, tuple[int, int]]:
        """Lines and characters that are not done, by model."""
        return {name: (host.pool.backlog.lines, host.pool.backlog.characters) for name, host in self._hosts.items()}

    @property
    def deaths(self) -> int:
        """Engine processes that died."""
        return sum(host.pool.deaths for host in self._hosts.values())

    @property
    def pids(self) -> list[int]:
        """Numbers of the engine processes."""
        return [pid for host in self._hosts.values() for pid in host.pool.pids]

    async def translate(
        self, model: str, texts: Sequence[str], request: TextRequest, deadline: float
    ) -> list[ServedText]:
        """Translate texts. LineErrors have the numbers of these."""
        if not texts:
            return []
        rest = {"request": request.to_message(), "seconds": deadline}
        reply = await self._call(model, "translate", _size(texts), deadline, texts=list(texts), **rest)
        return [_served_text(text, reply) for text in reply["texts"]]

    async def stream(
        self, model: str, text: str, request: TextRequest, deadline: float
    ) -> AsyncGenerator[tuple[int, str] | ServedText, None]:
        """Yield what the translation of a text grows by, with the number of the line, greedily; at last the whole."""
        call = {"call": "stream", "texts": [text], "request": request.to_message()}
        replies = self._pool(model).stream(call, *_size([text]), deadline)
        async with contextlib.aclosing(replies):
            async for reply in replies:
                if "words" in reply:
                    yield reply["line"], reply["words"]
                else:
                    yield _served_text(reply["texts"][0], reply)

    async def caption(self, model: str, image: bytes, search: SearchRequest, deadline: float) -> ServedLine:
        """Describe an image: the bytes of a PNG, JPEG or WebP file. Raises UsageError if they are none."""
        reply = await self._call(model, "caption", _IMAGE, deadline, image=_encoded(image), search=asdict(search))
        return _served_line(reply["lines"][0], reply)

    async def explain(self, model: str, text: str, options: ExplanationRequest, deadline: float) -> RawJson:
        """Return a translation with attention, alignments, log-probabilities and search, as js/regard.d.ts has it."""
        reply = await self._call(model, "explain", (1, len(text)), deadline, lines=[text], options=asdict(options))
        return _explanation(reply)

    async def continuations(
        self, model: str, text: str, prefix: str | tuple[int, ...], count: int, deadline: float
    ) -> list[Continuation]:
        """Return the tokens that may follow a prefix of the translation, likeliest first, and what each leads to."""
        size, options = (1 + count, len(text) * (1 + count)), {"prefix": prefix, "count": count}
        reply = await self._call(model, "continuations", size, deadline, lines=[text], options=options)
        return [
            Continuation(tuple(item["prefix"]), item["log_prob"], _served_hypothesis(item["hypothesis"], reply))
            for item in reply["continuations"]
        ]

    async def explain_image(self, model: str, image: bytes, deadline: float) -> RawJson:
        """Return a caption as data for figures: the image as the model sees it, and the cells of each word."""
        return _explanation(await self._call(model, "explain_image", _IMAGE, deadline, image=_encoded(image)))

    async def _call(self, model: str, kind: str, size: tuple[int, int], deadline: float, **content: Any) -> Message:
        """Make a call of a kind; `size`: lines and characters that it counts as in the backlog."""
        return await self._pool(model).call({"call": kind, **content}, *size, deadline)

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return the languages of the models with the probability that the text is of each, likeliest first."""
        return self._language_id.detect(text)

    async def reload(self) -> None:
        """Load again the models whose files have changed; one that cannot be opened stays as it was."""
        async with self._reloading:  # a signal may come while files are looked at anyway
            await self._reload()

    async def _reload(self) -> None:
        for name, host in list(self._hosts.items()):
            if (state := _state_of(host.path)) == host.state or not state:
                continue
            await asyncio.sleep(min(1.0, self._settings.reload_seconds))
            if _state_of(host.path) != state:
                continue  # is still being written
            host.state = state
            try:
                about = await host.pool.replace(await _prepared(host.path, self._settings.precision))
                model = _served_model(name, about, host.languages)
                host.model, host.language_id = model, _language_id(about, host.languages)
                self._merge_languages()
                self._log(f"{name}: loaded again, its files have changed")
            except (RegardError, OSError) as problem:
                await host.pool.check()
                rest = "so the model stays as it was"
                if not host.pool.is_ready:
                    rest = "and were written into while they were open: the model is away until a whole file is there"
                self._log(f"{name}: its files have changed, but cannot be used, {rest}: {problem}")

    def _merge_languages(self) -> None:
        self._language_id = LanguageId.merge(host.language_id for host in self._hosts.values())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._settings.reload_seconds)
            try:
                await self.reload()
            except Exception as problem:  # the next look may succeed
                self._log(f"models could not be loaded again: {type(problem).__name__}: {problem}")

    def _pool(self, model: str) -> EnginePool:
        if model not in self._hosts:
            raise UsageError(f"model {model!r}: there is none of this name; there are {', '.join(self._hosts)}")
        if self._is_draining and not self._hosts[model].pool.is_ready:
            raise Overloaded(5)
        return self._hosts[model].pool

    async def _open(self, name: str, path: Path, languages: Pair | None) -> _Host:
        settings, state = self._settings, _state_of(path)
        try:
            if not path.exists():
                raise ModelFolderError("there is no such file or folder")
            opened = await _prepared(path, settings.precision)
            names = ",".join(languages or ())
            options = (settings.precision, str(settings.answer_limit), names, str(settings.threads))
            pool = EnginePool(opened, options, settings.processes, settings.most_lines, self._log)
            about = await pool.start()
        except RegardError as problem:
            causes = (cause if str(path) in cause else f"{path}: {cause}" for cause in problem.causes)
            raise ModelFolderError(*causes) from None
        model = _served_model(name, about, languages)
        return _Host(path, languages, pool, state, model, _language_id(about, languages))


async def _prepared(path: Path, precision: str) -> Path:
    """Return what an engine opens; see `prepare`. Raises RegardError if the folder is damaged."""
    if path.is_file():
        return path
    pipe = asyncio.subprocess.PIPE
    command = module_command("regard.serving.prepare", str(path), precision)
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stdin=asyncio.subprocess.DEVNULL)
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode or not output.strip():
        raise ModelFolderError(f"its preparation ended with status {process.returncode}")
    answer = json.loads(output.splitlines()[-1])
    if "error" in answer:
        raise error_of(answer["error"])
    opened = Path(answer["path"])
    if opened != path:
        _exports[path] = opened
    return opened


def _state_of(path: Path) -> tuple[Any, ...]:
    """Return what changes when the files of a model do: inode, size and time of each; nothing while one is missing.

    It changes too when somebody has removed the export, without which no engine could start again; else this keeps the
    export from being removed as one that nobody uses.
    """
    try:
        if path in _exports:
            mark_used(_exports[path])
    except FileNotFoundError:
        del _exports[path]
        _removals[path] += 1
    except OSError:  # such as that of a file system which can only be read
        pass
    try:
        files = [path] if path.is_file() else export_files(path)
        status = {file.name: os.stat(file) for file in files}
    except (OSError, ModelFolderError):
        return ()
    if not path.is_file() and not status.keys() >= _NEEDED:
        return ()
    changes = ((name, item.st_ino, item.st_size, item.st_mtime_ns) for name, item in status.items())
    return (_removals[path], *changes)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each model: that of its file or folder; a number tells equal ones apart."""
    names: list[str] = []
    for path in paths:
        stem = re.sub(r"[^\w.-]", "-", path.resolve().stem if path.is_file() else path.resolve().name) or "model"
        name, number = stem, 2
        while name in names:
            name, number = f"{stem}-{number}", number + 1
        names.append(name)
    return names


def _served_model(name: str, about: Message, languages: Pair | None) -> ServedModel:
    card, codes = about["card"], dict[str, str]()
    source, target = languages or card.get("languages") or ("", "")
    for code in card.get("language_codes", ()) if languages is None else ():
        name = code.strip("<>")
        codes.setdefault(canonical_code(name) if code_exists(name) else name, code)
    pairs = tuple((source, code) for code in codes) or ((source, target),)
    facts = {"engine": about["engine"], "precision": card["precision"], "parameters": f"{card['parameters']:,}"}
    facts |= {key: card[key] for key in ("fingerprint", "regard") if key in card}
    has_attention = any(role == "cross" for _, role, _ in about["layers"]) or about["engine"] == "pytorch"
    readme, alignment = card["readme"], card.get("alignment")
    model = ServedModel(name, about["kind"], pairs, has_attention, codes, facts, readme, alignment)
    return replace(model, pairs=(("", target),)) if about["kind"] == "captions" else model


def _language_id(about: Message, languages: Pair | None) -> LanguageId:
    """Return how the languages of a model are told apart, by the names that it is served under."""
    try:
        language_id = LanguageId.parse(about["language_id"].encode()) if about["language_id"] else LanguageId({})
    except ValueError:
        return LanguageId({})
    own = about["card"].get("languages") or ("", "")
    return language_id.renamed(dict(zip(own, languages, strict=True))) if languages else language_id


def _encoded(image: bytes) -> str:
    return base64.b64encode(image).decode("ascii")


def _explanation(reply: Message) -> RawJson:
    explanation: RawJson = reply["raw"][reply["explanation"]]
    return explanation


def _size(texts: Sequence[str]) -> tuple[int, int]:
    """Return the lines and characters that texts count as, in the backlog."""
    return sum(text.count("\n") + 1 for text in texts), sum(map(len, texts))


def _served_text(text: Message, reply: Message) -> ServedText:
    return ServedText(**{**text, "lines": [_served_line(line, reply) for line in text["lines"]]})


def _served_line(line: Message, reply: Message) -> ServedLine:
    return ServedLine(**{**line, "hypotheses": [_served_hypothesis(item, reply) for item in line["hypotheses"]]})


def _served_hypothesis(item: Message, reply: Message) -> ServedHypothesis:
    attention, links = item["attention"], item["alignments"]
    attention = None if attention is None else reply["raw"][attention]
    return ServedHypothesis(**{**item, "attention": attention, "alignments": links and tuple(map(tuple, links))})
