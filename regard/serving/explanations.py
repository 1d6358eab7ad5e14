"""The endpoints under /v1 that explain: a translation, what could follow its beginning, a caption."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from regard.serving.calls import Call, Server
from regard.serving.endpoints import captioner_name, image_bytes
from regard.serving.http_errors import bad_request, json_response
from regard.serving.openapi import Problem, body, errors
from regard.serving.pairs import LanguagePairs, select_models
from regard.serving.requests import JSON, MULTIPART
from regard.serving.schemas import (
    ContinuationsAnswer,
    ContinuationsRequest,
    ExplainAnswer,
    ExplainImageAnswer,
    ExplainImageRequest,
    ExplainRequest,
    continuation_data,
    prefix_ids,
)
from regard.serving.texts import with_prefix


def explanations(server: Server) -> APIRouter:
    """Return the endpoints under /v1 that explain."""
    router = APIRouter(prefix="/v1", tags=["Regard"])
    known = errors(Problem)

    @router.post("/explain", response_model=ExplainAnswer, responses=known, openapi_extra=body(ExplainRequest, JSON))
    async def explain(request: Request) -> Response:
        """Translate a line and return what figures show of it: attention of every layer, alignments, search."""
        call = await server.admit(request, ExplainRequest)
        return json_response(await _explain(call))

    @router.post(
        "/continuations",
        response_model=ContinuationsAnswer,
        responses=known,
        openapi_extra=body(ContinuationsRequest, JSON),
    )
    async def continuations(request: Request) -> Response:
        """List the tokens that may follow the beginning of a translation, and the translation that each leads to."""
        call = await server.admit(request, ContinuationsRequest)
        return json_response(await _continuations(call))

    @router.post(
        "/explain_image",
        response_model=ExplainImageAnswer,
        responses=known,
        openapi_extra=body(ExplainImageRequest, JSON, MULTIPART),
    )
    async def explain_image(request: Request) -> Response:
        """Describe an image and return what figures show of it: the cells that each word attends to."""
        call = await server.admit(request, ExplainImageRequest)
        return json_response(await _explain_image(call))

    return router


async def _explain(call: Call[ExplainRequest]) -> dict[str, object]:
    asked, service = call.parameters, call.server.service
    languages, model, line = _line(call)
    call.charge([asked.text])
    explanation = await call.attend(service.explain(model, line, asked.options, call.remaining()))
    return {**languages, "model": model, "explanation": dict(explanation)}


async def _continuations(call: Call[ContinuationsRequest]) -> dict[str, object]:
    asked, service = call.parameters, call.server.service
    languages, model, line = _line(call)
    call.charge([asked.text])
    work = service.continuations(model, line, prefix_ids(asked.prefix), asked.count, call.remaining())
    options = await call.attend(work)
    return {**languages, "model": model, "continuations": [continuation_data(option) for option in options]}


def _line(call: Call[ExplainRequest] | Call[ContinuationsRequest]) -> tuple[dict[str, str], str, str]:
    """Return languages, model and the line that it reads of a request about one line. Raises HttpError (400)."""
    asked, service = call.parameters, call.server.service
    pairs = LanguagePairs(select_models(service.models, asked.model, "translation"))
    choice = pairs.choose(service, asked.text, asked.source, asked.target)
    if choice.model is None:
        raise bad_request(f"source and target are both {choice.target}; there is nothing to explain")
    languages = {"source": choice.source, "target": choice.target}
    return languages, choice.model.name, with_prefix(choice, asked.text)


async def _explain_image(call: Call[ExplainImageRequest]) -> dict[str, object]:
    asked, service = call.parameters, call.server.service
    name = captioner_name(call, asked.model)
    image = image_bytes(asked.image)
    call.charge([])
    explanation = await call.attend(service.explain_image(name, image, call.remaining()))
    return {"model": name, "explanation": dict(explanation)}
