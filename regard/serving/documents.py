"""Documents of clients: each waits for its turn, is translated, and is kept in memory until it is
fetched or too old. Nothing of it is written to the disk.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, TypeVar
from weakref import WeakValueDictionary

import anyio

from regard.common.counting import counted
from regard.documents.document_translation import DocumentTranslation
from regard.requests.server_settings import ServerSettings
from regard.serving.http_errors import HttpError
from regard.serving.limits import KEY
from regard.serving.service import DeadlineExceeded, Overloaded

_AT_ONCE = 2
"""Documents that are translated at the same time, each of another client."""
_RETRY_SECONDS = "60"
R = TypeVar("R")
Work = Callable[[], Awaitable[DocumentTranslation]]
"""Translates a document."""


@dataclass(eq=False)
class KeptDocument:
    """A document of a client.

    `name`: that of the translated file; `size`: bytes that it takes; `characters`: those that were
    charged; `problem`: the reason if it failed. Whoever knows `id` and `key` may fetch it, of a
    client with an API key only this client.
    """

    client: str
    name: str
    size: int
    characters: int
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    status: Literal["queued", "translating", "done", "error"] = "queued"
    problem: str = ""
    result: DocumentTranslation | None = None
    task: asyncio.Task[None] | None = None


class Documents:
    """The documents of all clients, within limits on their number and size.

    Each client has one document translated at a time, and clients take turns.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._documents = dict[str, KeptDocument]()
        self._turns = WeakValueDictionary[str, asyncio.Lock]()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._reader = ThreadPoolExecutor(1, "read-document")

    async def read(self, work: Callable[[], R]) -> R:
        """Read a document in a thread, one at a time, since reading takes memory."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    def check_room(self, client: str, size: int) -> None:
        """Raise HttpError if there is no room for another document: 429 if the client has too many,
        503 if all together are too large.
        """
        settings = self._settings
        retry = {"Retry-After": _RETRY_SECONDS}
        own = [
            document
            for document in self._documents.values()
            if document.client == client
        ]
        if len(own) >= settings.document_count:
            most = counted(settings.document_count, "document")
            sentence = (
                f"this client has {most} waiting or kept, and no more are taken; fetch them, or "
                "try again later"
            )
            raise HttpError(429, sentence, headers=retry)
        sizes = sum(document.size for document in self._documents.values())
        if sizes + size > settings.document_space:
            sentence = "the server keeps as many documents as it may; try again later"
            raise HttpError(503, sentence, headers=retry)

    def add(self, document: KeptDocument) -> None:
        """Add a document. Raises HttpError if there is no room for it."""
        self.check_room(document.client, document.size)
        self._documents[document.id] = document

    def get(
        self, number: str, client: str = "", key: str | None = None
    ) -> KeptDocument:
        """Return the document of an id; `key`: that of the document, unless the id is enough.

        Raises HttpError (404) if there is none of this client.
        """
        document = self._documents.get(number)
        if document is not None and (
            key is None or self._may_fetch(document, client, key)
        ):
            return document
        raise HttpError(
            404,
            "there is no such document; it was fetched, or is kept no longer, or is another's",
        )

    @staticmethod
    def _may_fetch(document: KeptDocument, client: str, key: str) -> bool:
        is_owner = client == document.client or not document.client.startswith(KEY)
        return is_owner and secrets.compare_digest(document.key.encode(), key.encode())

    async def remove(self, number: str) -> None:
        """Remove a document, if it is still there."""
        # As a coroutine it runs at once after an answer; Starlette calls functions in threads.
        self._documents.pop(number, None)

    async def translate(self, document: KeptDocument, work: Work) -> None:
        """Translate a document in its turn, and keep it for as long as the settings say.

        Raises the errors of `work`, and DeadlineExceeded.
        """
        seconds = self._settings.document_seconds
        turn = self._turns.setdefault(document.client, asyncio.Lock())
        try:
            async with turn, self._slots:
                document.status = "translating"
                with anyio.fail_after(seconds):
                    document.result = await _patiently(work)
            document.status = "done"
            document.size = len(document.result.data)
        except TimeoutError:
            raise DeadlineExceeded(seconds) from None
        finally:
            loop = asyncio.get_running_loop()
            loop.call_later(seconds, self._documents.pop, document.id, None)


async def _patiently(work: Work) -> DocumentTranslation:
    """Translate a document as soon as the model has room for it."""
    while True:
        try:
            return await work()
        except Overloaded as problem:
            await asyncio.sleep(problem.retry_after)
