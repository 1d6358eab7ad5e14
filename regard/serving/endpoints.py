"""The endpoints under /v1: translation with all that Regard knows of it, captions, explanations, models."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from regard.serving.calls import Call, Server
from regard.serving.http_errors import HttpError, bad_request, json_response
from regard.serving.openapi import Problem, body, errors
from regard.serving.pairs import LanguagePairs, select_models
from regard.serving.requests import JSON, MULTIPART, excerpt, listed
from regard.serving.schemas import (
    CaptionAnswer,
    CaptionRequest,
    ContinuationsAnswer,
    ContinuationsRequest,
    ExplainAnswer,
    ExplainImageAnswer,
    ExplainImageRequest,
    ExplainRequest,
    Model,
    ModelsAnswer,
    TranslateAnswer,
    TranslateRequest,
    continuation_data,
    hypotheses_data,
    model_data,
    prefix_ids,
    translation_data,
)
from regard.serving.streaming import stream_translations
from regard.serving.texts import with_prefix

_STREAM = {"description": "The translations; with `stream`, events `delta`, then `result` or `error`"}
_NAME = {"parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]}


def own_endpoints(server: Server) -> APIRouter:
    """Return the endpoints under /v1."""
    router = APIRouter(prefix="/v1", tags=["Regard"])
    known = errors(Problem)

    @router.post(
        "/translate",
        response_model=TranslateAnswer,
        responses={200: {**_STREAM, "content": {"text/event-stream": {}}}, **known},
        openapi_extra=body(TranslateRequest, JSON),
    )
    async def translate(request: Request) -> Response:
        """Translate a text or several; if asked, with scores, alternatives, alignments and attention, or streamed."""
        call = await server.admit(request, TranslateRequest)
        asked, texts = call.parameters, listed(call.parameters.text)
        pairs = LanguagePairs(select_models(server.service.models, asked.model, "translation"))
        if asked.stream:
            return await stream_translations(call, texts, pairs)
        results = await call.translate(texts, (asked.source, asked.target), asked.search, asked.layout, pairs)
        return json_response({"translations": [translation_data(result, asked) for result in results]})

    @router.post(
        "/caption", response_model=CaptionAnswer, responses=known, openapi_extra=body(CaptionRequest, JSON, MULTIPART)
    )
    async def caption(request: Request) -> Response:
        """Describe an image, sent as a file of a form or as Base64 in JSON."""
        call = await server.admit(request, CaptionRequest)
        return json_response(await _caption(call))

    _add_figures(router, server)
    _add_models(router, server)
    return router


def _add_figures(router: APIRouter, server: Server) -> None:
    """Add the endpoints of explanations, which the page draws."""
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


def _add_models(router: APIRouter, server: Server) -> None:
    """Add the endpoints that tell of the models."""
    few = errors(Problem, 403, 408, 413)

    @router.get("/models", response_model=ModelsAnswer, responses=few)
    async def models(request: Request) -> Response:
        """List the models that are ready."""
        server.client(request, {})
        return json_response({"models": [model_data(model) for model in server.service.models.values()]})

    @router.get("/models/{name}", response_model=Model, responses={**few, **errors(Problem, 404)}, openapi_extra=_NAME)
    async def model(request: Request) -> Response:
        """Return one model, with its model card."""
        server.client(request, {})
        name = request.path_params["name"]
        if name not in server.service.models:
            names = ", ".join(server.service.models) or "none"
            raise HttpError(404, f"there is no model named {excerpt(name)}; there are: {names}")
        return json_response(model_data(server.service.models[name], readme=True))


async def _caption(call: Call[CaptionRequest]) -> dict[str, object]:
    asked, service = call.parameters, call.server.service
    name = _captioner(call, asked.model)
    image = _image_bytes(asked.image)
    call.charge([])
    line = await call.attend(service.caption(name, image, asked.search, call.remaining()))
    return {
        "caption": line.hypotheses[0].text,
        "model": name,
        "hypotheses": hypotheses_data(line, alignments=False),
        "warnings": list(line.warnings),
    }


async def _explain_image(call: Call[ExplainImageRequest]) -> dict[str, object]:
    asked, service = call.parameters, call.server.service
    name = _captioner(call, asked.model)
    image = _image_bytes(asked.image)
    call.charge([])
    explanation = await call.attend(service.explain_image(name, image, call.remaining()))
    return {"model": name, "explanation": explanation}


def _captioner(call: Call[Any], model: str) -> str:
    """Return the name of the first model of captions, or of the one that is wanted. Raises HttpError (400)."""
    models = select_models(call.server.service.models, model, "captions")
    if not models:
        raise bad_request("this server has no model for captions")
    return models[0].name


def _image_bytes(image: str | bytes) -> bytes:
    """Return the bytes of an image that came as a file, or as Base64, also as an address `data:`."""
    if isinstance(image, bytes):
        return image
    encoded = image.partition(",")[2] if image.startswith("data:") else image
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("`image` is not Base64; send the bytes of a PNG, JPEG or WebP file so encoded") from None


async def _explain(call: Call[ExplainRequest]) -> dict[str, object]:
    asked, service = call.parameters, call.server.service
    call.charge([asked.text], len(asked.prefix))
    languages, model, line = _line(call)
    explanation = await call.attend(service.explain(model, line, asked.options, call.remaining()))
    return {**languages, "model": model, "explanation": explanation}


async def _continuations(call: Call[ContinuationsRequest]) -> dict[str, object]:
    asked, service = call.parameters, call.server.service
    call.charge([asked.text], len(asked.prefix))
    languages, model, line = _line(call)
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
