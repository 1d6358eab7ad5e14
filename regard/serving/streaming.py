"""Translations as server-sent events: words as they are decoded, then the whole, or an error."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from regard.common.errors import LineError, RegardError
from regard.serving.calls import LOG, REQUEST_ID, Call
from regard.serving.http_errors import bad_request, http_error, problem_details
from regard.serving.pairs import LanguagePairs
from regard.serving.schemas import TranslateRequest, translation_data
from regard.serving.service import DeadlineExceeded, SearchRequest, ServedText, TextRequest
from regard.serving.texts import TranslatedText, choose, refused
from regard.text.text_format import PLAIN

_CLOSING = set[asyncio.Task[None]]()
"""Tasks that close events, which would be collected else."""


class EventStream(StreamingResponse):
    """Server-sent events; when the client is gone, whatever makes them is closed."""

    def __init__(self, events: AsyncGenerator[str, None]) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream; charset=utf-8")
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()


def event(name: str, data: Any) -> str:
    """Return one event. JSON without line breaks keeps it in one field."""
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n"


async def stream_translations(call: Call[TranslateRequest], texts: Sequence[str], pairs: LanguagePairs) -> EventStream:
    """Return the stream of a request whose first words are there; whatever is wrong before them has a status.

    Raises HttpError, DeadlineExceeded, ClientGone, and the service's errors.
    """
    asked = call.parameters
    if asked.format != "text" or asked.search != SearchRequest() or asked.scores:
        raise bad_request(
            "`stream` translates plain text greedily; leave out format, beam, nbest, scores, alignments, attention and "
            "the other options of a search"
        )
    call.charge(texts)
    events = _events(call, texts, pairs)
    try:
        first = await call.attend(anext(events))
    except BaseException:
        await events.aclose()
        raise
    return EventStream(_chained(first, events, call))


async def _chained(
    first: str, events: AsyncGenerator[str, None], call: Call[TranslateRequest]
) -> AsyncGenerator[str, None]:
    """Yield events; an error becomes the last one."""
    request_id, next_event = call.request.scope.get(REQUEST_ID, "-"), None
    try:
        yield first
        with contextlib.suppress(StopAsyncIteration):
            while True:
                next_event = asyncio.ensure_future(anext(events))
                await asyncio.wait({next_event}, timeout=call.remaining())
                if not next_event.done():
                    raise DeadlineExceeded(call.seconds)
                yield next_event.result()
    except Exception as problem:
        if not isinstance(problem, RegardError):
            LOG.log(logging.ERROR, "%s stream: %s", request_id, type(problem).__name__)
        yield event("error", problem_details(http_error(problem), request_id))
    finally:
        closing = asyncio.ensure_future(_close(events, next_event))
        _CLOSING.add(closing)
        closing.add_done_callback(_CLOSING.discard)


async def _close(events: AsyncGenerator[str, None], next_event: asyncio.Future[str] | None) -> None:
    """Close events once nothing waits for the next; in a task of its own: clients that leave cancel more than once."""
    if next_event is not None:
        next_event.cancel()
        await asyncio.wait({next_event})
    with contextlib.suppress(RegardError):
        await events.aclose()


async def _events(
    call: Call[TranslateRequest], texts: Sequence[str], pairs: LanguagePairs
) -> AsyncGenerator[str, None]:
    """Yield a `delta` for whatever a line grows by, and the whole as `result`."""
    asked, service = call.parameters, call.server.service
    results = []
    for number, text in enumerate(texts):
        choice = choose(service, pairs, text, (asked.source, asked.target), PLAIN)
        if choice.model is None:
            results.append(TranslatedText(text, choice=choice))
            continue
        request = TextRequest(keep=tuple(call.server.settings.keep), code=choice.prefix, sentences=True)
        parts = service.stream(choice.model.name, text, request, call.remaining())
        async with contextlib.aclosing(parts):
            try:
                async for part in parts:
                    if isinstance(part, ServedText):
                        results.append(TranslatedText(**vars(part), choice=choice))
                    else:
                        line, increment = part
                        yield event("delta", {"text": number, "line": line, "delta": increment})
            except LineError as problem:
                raise refused(problem, [number]) from None
    if call.server.metrics is not None:
        call.server.metrics.count_texts(texts, results)
    yield event("result", {"translations": [translation_data(result, asked) for result in results]})
