"""Path of a request through the server: it is read, authenticated, rate-limited, registered as open
and translated.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

import anyio
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from regard.requests.server_settings import ServerSettings
from regard.serving.crash_table import DIGEST_BYTES, CallTable
from regard.serving.documents import Documents
from regard.serving.http_errors import HttpError, bad_request, json_response
from regard.serving.keys import KeyFile
from regard.serving.language_pairs import LanguagePairs
from regard.serving.limits import KEY, Limits, address_group
from regard.serving.models import Models
from regard.serving.openapi import Responses, body
from regard.serving.prometheus_metrics import Metrics
from regard.serving.pytorch_process import ProcessDied
from regard.serving.request_bodies import (
    KEYS,
    P,
    excerpt,
    parse,
    read_body,
    request_values,
)
from regard.serving.service import (
    DeadlineExceeded,
    SearchRequest,
    ServedText,
    TextRequest,
)
from regard.serving.texts import translate_texts
from regard.text.text_format import PLAIN, TextFormat

LOG = logging.getLogger("regard.serving")
REQUEST_ID = "regard.request_id"
"""Key of the request's id in the ASGI scope."""
AT_END = "regard.at_end"
"""Key of a list of functions in the ASGI scope; each is called with the status once the request has
been answered.
"""
DEADLINE_HEADER = "x-deadline-ms"
_AUTHORIZATION = re.compile(r"(?:Bearer|DeepL-Auth-Key) +(?P<key>\S+) *", re.IGNORECASE)
_MILLISECONDS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Server:
    """The models and settings that all endpoints share."""

    service: Models
    settings: ServerSettings
    limits: Limits
    documents: Documents
    keys: KeyFile | None = None
    metrics: Metrics | None = None
    calls: CallTable | None = None
    suspects: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a suspect call while it runs: suspects run one at a time, so that the next crash
    shows which of them causes it.
    """

    def pairs(self) -> LanguagePairs:
        """Return the language pairs of all translation models, whether ready or not."""
        return LanguagePairs(self.service.models.values(), answers_probe=True)

    def client(self, request: Request, values: Mapping[str, Any]) -> str:
        """Return the name of the client: its key, or else its address.

        A key comes in the header Authorization (Bearer, or as DeepL's clients send it), or as the
        parameter `api_key` or `apiKey`. Some clients always send a key, so an unknown one is
        ignored unless keys are required. Raises HttpError (403) if the required key is unknown or
        missing.
        """
        match = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
        text = values.get("api_key") or values.get("apiKey") or ""
        if match:
            text = match["key"]
        key = self.keys.check(str(text)) if self.keys is not None else None
        if key is not None:
            return f"{KEY}{key.hash}"
        address = address_group(request.client.host if request.client else "")
        if self.settings.require_key:
            self.limits.take_request(address)  # guesses of keys are rate-limited too
            raise HttpError(
                403, "this API key is not known" if text else "an API key is needed"
            )
        return address

    async def read(
        self, request: Request, kind: type[P]
    ) -> tuple[str, dict[str, Any], bytes]:
        """Read a request; return its client, its parameters and its digest.

        Raises HttpError.
        """
        settings = self.settings
        scope = request.scope
        most_bytes = settings.body_limit
        if kind.IS_DOCUMENT:
            most_bytes = settings.document_limit
            if not most_bytes:
                raise HttpError(403, "this server takes no documents")
        body = await read_body(request, most_bytes, settings.deadline)
        values = await request_values(request, body, kind, settings.batch_limit)
        client = self.client(request, values)
        parameters = {name: value for name, value in values.items() if name not in KEYS}

        hashed = [scope["path"].encode(), scope["query_string"], body]
        files = [value for value in values.values() if isinstance(value, bytes)]
        if files:  # the boundary of a form is another each time
            hashed[-1:] = files
        content = b"\0".join(hashed)
        digest = hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
        return client, parameters, digest

    async def admit(self, request: Request, kind: type[P]) -> Call[P]:
        """Admit a request that a model is to answer. Raises HttpError."""
        started = time.monotonic()
        client, values, digest = await self.read(request, kind)
        self.limits.take_request(client)
        parameters = parse(kind, values)

        seconds = self.settings.deadline
        if kind.IS_DOCUMENT:
            seconds = self.settings.document_seconds
        deadline_ms = getattr(parameters, "deadline_ms", None) or _milliseconds(
            request.headers.get(DEADLINE_HEADER)
        )
        if deadline_ms:
            seconds = min(deadline_ms / 1000, seconds)
        return Call(self, request, client, parameters, started, seconds, digest)


def _milliseconds(text: str | None) -> int | None:
    """Parse the value of the header X-Deadline-Ms. Raises HttpError (400)."""
    if text is None:
        return None
    if not _MILLISECONDS.fullmatch(text) or int(text) == 0:
        raise bad_request(
            f"the header X-Deadline-Ms: wanted milliseconds, such as 5000, got {excerpt(text)}"
        )
    return int(text)


@dataclass(frozen=True)
class Call(Generic[P]):
    """An admitted request.

    `started`: when it arrived, on the clock of `time.monotonic`; `seconds`: the time that it may
    take; `digest`: a hash of path, query and body, the same for equal requests.
    """

    server: Server
    request: Request
    client: str
    parameters: P
    started: float
    seconds: float
    digest: bytes

    def remaining(self) -> float:
        """Return the seconds until the deadline. Raises DeadlineExceeded if it has passed."""
        left = self.started + self.seconds - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(self.seconds)
        return left

    def charge(self, texts: Sequence[str], prefix: int = 0) -> None:
        """Charge the characters of texts and of a prefix against all limits.

        `prefix`: length of the prefix. Raises HttpError: 400, 413, 429 or 456.
        """
        settings = self.server.settings
        count = sum(map(len, texts)) + prefix
        if len(texts) > settings.batch_limit:
            raise HttpError(
                413,
                f"{len(texts):,} texts; send at most {settings.batch_limit:,} at once",
            )
        if settings.char_limit and count > settings.char_limit:
            raise HttpError(
                413,
                f"{count:,} characters; send at most {settings.char_limit:,} at once",
            )
        self.server.limits.take_characters(self.client, count)
        if settings.log_texts:
            LOG.info(
                "%s texts %s",
                self.request.scope.get(REQUEST_ID, "-"),
                json.dumps(list(texts)),
            )

    @contextlib.contextmanager
    def deadline(self) -> Iterator[None]:
        """Cancel the block at the deadline of the call. Raises DeadlineExceeded."""
        try:
            with anyio.fail_after(self.remaining()):
                yield
        except (
            TimeoutError,
            DeadlineExceeded,
        ):  # a model knows the remaining time only
            raise DeadlineExceeded(self.seconds) from None

    async def register(self) -> None:
        """Register the call as open until its answer is sent; suspect calls wait for each other.

        Raises RegardError if the call was open at too many deaths of the process, and
        DeadlineExceeded.
        """
        calls = self.server.calls
        suspects = self.server.suspects
        at_end = self.request.scope[AT_END]
        if calls is None:
            return
        if calls.is_suspect(self.digest):
            with self.deadline():
                await suspects.acquire()
            at_end.append(lambda _: suspects.release())
        calls.begin(self.digest)
        state = self.request.state
        state.is_whole = True
        at_end.append(
            lambda status: calls.end(
                self.digest, completed=status < 400 and state.is_whole
            )
        )

    def fail(self, problem: Exception) -> None:
        """Mark the call as failed, even if its answer has begun; blame it if the process of its
        model has died.
        """
        self.request.state.is_whole = False
        if isinstance(problem, ProcessDied) and self.server.calls is not None:
            self.server.calls.blame(self.digest)

    async def translate(
        self,
        texts: Sequence[str],
        languages: tuple[str, str],
        search: SearchRequest,
        form: TextFormat = PLAIN,
        pairs: LanguagePairs | None = None,
        sentences: bool = False,
    ) -> list[ServedText]:
        """Translate texts within the limits and the deadline of the call.

        `languages`: codes of source and target; `sentences`: return the lines of the texts too,
        with each sentence as a line. Raises HttpError, and the errors of the service.
        """
        self.charge(texts)
        server = self.server
        request = TextRequest(
            search, form, tuple(server.settings.keep), sentences=sentences
        )
        pairs = pairs or server.pairs()
        results = await translate_texts(
            server.service, texts, pairs, languages, request, self.remaining()
        )
        if server.metrics is not None:
            server.metrics.count_texts(texts, results)
        return results


@dataclass(frozen=True)
class CallRoutes:
    """Registration of the endpoints that models answer."""

    server: Server
    router: APIRouter

    def add(
        self,
        path: str,
        work: Callable[[Call[P]], Awaitable[Any]],
        parameters: type[P],
        responses: Responses,
        *media: str,
    ) -> None:
        """Add an endpoint, which OpenAPI describes by the name and the docstring of `work`.

        `work`: takes a call, and returns JSON or a response; `responses`: answers and errors as
        OpenAPI shows them; `media`: accepted media types of the body, by default all.
        """

        async def endpoint(request: Request) -> Response:
            call = await self.server.admit(request, parameters)
            await call.register()
            try:
                with call.deadline():
                    content = await work(call)
            except ProcessDied as problem:
                call.fail(problem)
                raise
            return content if isinstance(content, Response) else json_response(content)

        self.router.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            name=work.__name__,
            description=inspect.getdoc(work),
            responses=responses,
            openapi_extra=body(parameters, *media),
        )
