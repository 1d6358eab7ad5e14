"""The way of a document through the server: it is read, charged, translated, and sent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import PurePath
from typing import TypeVar
from urllib.parse import quote

from starlette.background import BackgroundTask
from starlette.responses import Response

from regard.documents import FORMATS, Document, DocumentOptions
from regard.documents.document_translation import DocumentTranslation
from regard.documents.formats import check_filled, read_document
from regard.serving.calls import REQUEST_ID, Call
from regard.serving.documents import KeptDocument, Work
from regard.serving.http_errors import HttpError, http_error
from regard.serving.language_pairs import Choice
from regard.serving.pytorch_process import ProcessDied
from regard.serving.request_bodies import DocumentParameters
from regard.serving.security import log_exception
from regard.serving.service import DocumentFile, TextRequest

D = TypeVar("D", bound=DocumentParameters)
_DETECTED = 10_000
"""Characters of a document by which its language is detected."""
_MOST_NAME_CHARACTERS = 200
_UNPACKED = 4
"""Size of the text of a package, in limits of a document."""
_SUFFIXES: dict[str, Sequence[str]] = {
    "html": (".html", ".htm", ".xhtml"),
    "po": (".po", ".pot"),
    "xliff": (".xlf", ".xliff"),
    "android": (),
    "json": (".json", ".arb"),
    "yaml": (".yaml", ".yml"),
    "fluent": (".ftl",),
    "resx": (".resx", ".resw"),
    "docx": (".docx", ".docm"),
    "markdown": (".md", ".markdown", ".mdx"),
    "table": (".csv", ".tsv"),
}
"""Endings of the names of formats, if they are not the name of the format."""


def suffixes() -> list[str]:
    """Return the endings of the names of documents that are translated."""
    kinds = ("txt", *FORMATS)
    return [suffix for kind in kinds for suffix in _SUFFIXES.get(kind, (f".{kind}",))]


async def begin_document(
    call: Call[D], languages: tuple[str, str], name: str = ""
) -> tuple[KeptDocument, Work]:
    """Read and charge the document of a call; return it with its translation, yet to be begun.

    `languages`: codes of source and target; `name`: that of the file, unless the form has it.
    Raises HttpError, and DataError and UsageError for a file that cannot be read.
    """
    server = call.server
    data = call.parameters.file
    server.documents.check_room(call.client, 2 * len(data))
    name = re.split(r"[\\/]", name or data.name)[-1][-_MOST_NAME_CHARACTERS:]
    name = re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "", name) or "document"
    check_filled(data, name)
    file = DocumentFile(data, name, call.parameters.column)
    # A small file may unpack to a large one, which takes time and memory to read.
    unpacked_bytes = _UNPACKED * server.settings.document_limit
    options = DocumentOptions(column=file.column, unpacked_bytes=unpacked_bytes)
    document = await server.documents.read(
        partial(read_document, file.data, file.name, options=options)
    )
    characters = sum(map(len, document.lines))
    sample = "\n".join(document.lines[:_DETECTED])[:_DETECTED]
    choice = server.pairs().choose(server.service, sample, *languages)
    server.limits.take_characters(call.client, characters)

    path = PurePath(name)
    # Android reads its strings by the name of their file alone.
    has_language = document.format != "android"
    kept = KeptDocument(
        call.client,
        f"{path.stem}.{choice.target}{path.suffix}" if has_language else name,
        2 * len(data),
        characters,
    )
    server.documents.add(kept)
    return kept, _work(call, file, document, choice)


def _work(
    call: Call[D],
    file: DocumentFile,
    document: Document,
    choice: Choice,
) -> Work:
    """Return the function that translates a document; of which no more is kept than its file."""
    unchanged = DocumentTranslation(
        file.data, document.media_type, 0, 0, document.notes, (), (), None
    )
    server = call.server
    settings = server.settings
    model = choice.model

    async def translate() -> DocumentTranslation:
        if model is None:  # both languages are the same
            return unchanged
        request = TextRequest(keep=tuple(settings.keep), code=choice.prefix)
        result = await server.service.translate_document(
            model.name, file, request, settings.document_seconds
        )
        if server.metrics is not None:
            server.metrics.count_document(choice.source, choice.target, result)
        return result

    return translate


def start_document(call: Call[D], document: KeptDocument, work: Work) -> None:
    """Translate a document after its call has been answered; an error becomes its status."""
    server = call.server
    # The call itself is answered, so the table of open calls has the document under another name.
    digest = call.digest[::-1]
    calls = server.calls

    async def registered() -> DocumentTranslation:
        if calls is None:
            return await work()
        is_done = False
        async with AsyncExitStack() as stack:
            if calls.is_suspect(digest):
                await stack.enter_async_context(server.suspects)
            calls.begin(digest)
            stack.callback(lambda: calls.end(digest, is_done))
            try:
                result = await work()
            except ProcessDied:
                calls.blame(digest)
                raise
            is_done = True
        return result

    async def run() -> None:
        try:
            await server.documents.translate(document, registered)
        except Exception as problem:
            document.status = "error"
            error = http_error(problem)
            document.problem = "; ".join(error.causes)
            if error.status == 500:
                request_id = call.request.scope[REQUEST_ID]
                log_exception(request_id, problem, server.settings.log_texts)

    document.task = asyncio.create_task(run())


def document_response(
    document: KeptDocument, end: BackgroundTask | None = None
) -> Response:
    """Return the answer that is a translated file; `end` is called once it has been sent.

    Raises HttpError: 503 if it is not done, 404 if it failed.
    """
    if document.status == "error":
        raise HttpError(404, f"there is no translation: {document.problem}")
    if document.result is None:
        raise HttpError(
            503,
            "the document is not translated yet; ask for its status",
            headers={"Retry-After": "5"},
        )
    disposition = f"attachment; filename*=UTF-8''{quote(document.name)}"
    return Response(
        document.result.data,
        # Without a charset, which Starlette would add: the file has its own.
        headers={
            "Content-Type": document.result.media_type,
            "Content-Disposition": disposition,
        },
        background=end,
    )
