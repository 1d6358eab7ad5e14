"""Stream translations as server-sent events: increments, then the whole result, or an error."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from regard.common.errors import LineError, RegardError
from regard.serving.calls import LOG, REQUEST_ID, Call
from regard.serving.http_errors import bad_request, http_error, problem_details
from regard.serving.language_pairs import LanguagePairs
from regard.serving.schemas import TranslateRequest
from regard.serving.service import OWN_SEARCH, DeadlineExceeded, ServedText, TextRequest
from regard.serving.texts import refused

EVENTS = "text/event-stream"


def event(name: str, data: Any) -> str:
    """Format an event; its JSON has no line breaks, so it fits into one field."""
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n"


async def stream_translations(
    call: Call[TranslateRequest], texts: Sequence[str], pairs: LanguagePairs
) -> StreamingResponse:
    """Return the response that streams translations.

    It is returned once the first event is known, so that an earlier error still has its HTTP
    status. Raises HttpError, and the errors of the service.
    """
    parameters = call.parameters
    is_greedy = parameters.search == OWN_SEARCH and not parameters.scores
    if parameters.format != "text" or not is_greedy:
        raise bad_request(
            "`stream` translates plain text greedily; leave out format, beam, nbest, scores, "
            "alignments, attention and the other options of a search"
        )
    call.charge(texts)
    events = _events(call, texts, pairs)
    first = await anext(events)
    return StreamingResponse(
        _with_error_event(first, events, call),
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        media_type=f"{EVENTS}; charset=utf-8",
    )


async def _with_error_event(
    first: str, events: AsyncGenerator[str, None], call: Call[TranslateRequest]
) -> AsyncGenerator[str, None]:
    """Yield the first and all following events, and an exception as the last event."""
    request_id = call.request.scope.get(REQUEST_ID, "-")
    async with contextlib.aclosing(events):
        try:
            yield first
            async for following in events:
                yield following
        except Exception as problem:
            call.fail(problem)
            if not isinstance(problem, RegardError):
                LOG.log(
                    logging.ERROR, "%s stream: %s", request_id, type(problem).__name__
                )
            yield event("error", problem_details(http_error(problem), request_id))


async def _events(
    call: Call[TranslateRequest], texts: Sequence[str], pairs: LanguagePairs
) -> AsyncGenerator[str, None]:
    """Yield an event `delta` for each increment of a line, and finally one event `result`."""
    parameters = call.parameters
    service = call.server.service
    results = list[ServedText]()
    for number, text in enumerate(texts):
        choice = pairs.choose(service, text, parameters.source, parameters.target)
        if choice.model is None:
            results.append(choice.unchanged(text))
            continue
        request = TextRequest(
            keep=tuple(call.server.settings.keep), code=choice.prefix, sentences=True
        )
        parts = service.stream(choice.model.name, text, request, call.remaining())
        async with contextlib.aclosing(parts):
            try:
                async for part in parts:
                    if isinstance(part, ServedText):
                        results.append(choice.answer(part))
                    else:
                        line, increment = part
                        delta = {"text": number, "line": line, "delta": increment}
                        yield event("delta", delta)
            except LineError as problem:
                raise refused(problem, [number]) from None
            except DeadlineExceeded:
                raise DeadlineExceeded(call.seconds) from None
    if call.server.metrics is not None:
        call.server.metrics.count_texts(texts, results)
    yield event("result", parameters.answer(results))
