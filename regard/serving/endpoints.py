"""The endpoints under /v1: translation with all that Regard knows of it, captions, explanations, models."""

from __future__ import annotations

import base64
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from regard.serving import schemas
from regard.serving.calls import Call, CallRoutes, Server
from regard.serving.http_errors import HttpError, bad_request, json_response
from regard.serving.models import Models
from regard.serving.openapi import Problem, errors
from regard.serving.pairs import LanguagePairs, select_models
from regard.serving.requests import JSON, MULTIPART, excerpt, listed
from regard.serving.streaming import stream_translations
from regard.serving.texts import with_prefix

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The translations; with `stream`, events `delta`, then `result` or `error`",
        "content": {"text/event-stream": {}},
    }
}
_NAME = {"parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]}


def own_endpoints(server: Server) -> APIRouter:
    """Return the endpoints under /v1."""
    router = APIRouter(prefix="/v1", tags=["Regard"])
    add, known = CallRoutes(server, router).add, errors(Problem)
    add("/translate", translate, schemas.TranslateRequest, schemas.TranslateAnswer, {**_EVENTS, **known}, JSON)
    add("/caption", caption, schemas.CaptionRequest, schemas.CaptionAnswer, known, JSON, MULTIPART)
    add("/explain", explain, schemas.ExplainRequest, schemas.ExplainAnswer, known, JSON)
    add("/continuations", continuations, schemas.ContinuationsRequest, schemas.ContinuationsAnswer, known, JSON)
    add(
        "/explain_image", explain_image, schemas.ExplainImageRequest, schemas.ExplainImageAnswer, known, JSON, MULTIPART
    )
    _add_models(router, server)
    return router


async def translate(call: Call[schemas.TranslateRequest]) -> Any:
    """Translate a text or several; if asked, with scores, alternatives, alignments and attention, or streamed."""
    asked, texts = call.parameters, listed(call.parameters.text)
    pairs = LanguagePairs(select_models(call.server.service.models, asked.model, "translation"))
    if asked.stream:
        return await stream_translations(call, texts, pairs)
    results = await call.translate(
        texts, (asked.source, asked.target), asked.search, asked.form, pairs, asked.with_lines
    )
    return {"translations": [schemas.translation_data(result, asked) for result in results]}


async def caption(call: Call[schemas.CaptionRequest]) -> Any:
    """Describe an image, sent as a file of a form or as Base64 in JSON."""
    service, name, image = _image_call(call)
    line = await call.attend(service.caption(name, image, call.parameters.search, call.remaining()))
    return {
        "caption": line.hypotheses[0].text,
        "model": name,
        "hypotheses": schemas.hypotheses_data(line, alignments=False),
        "warnings": list(line.warnings),
    }


async def explain_image(call: Call[schemas.ExplainImageRequest]) -> Any:
    """Describe an image and return what figures show of it: the cells that each word attends to."""
    service, name, image = _image_call(call)
    return {"model": name, "explanation": await call.attend(service.explain_image(name, image, call.remaining()))}


async def explain(call: Call[schemas.ExplainRequest]) -> Any:
    """Translate a line and return what figures show of it: attention of every layer, alignments, search."""
    service, answer, line = _line_call(call)
    work = service.explain(answer["model"], line, call.parameters.options, call.remaining())
    return {**answer, "explanation": await call.attend(work)}


async def continuations(call: Call[schemas.ContinuationsRequest]) -> Any:
    """List the tokens that may follow the beginning of a translation, and the translation that each leads to."""
    service, answer, line = _line_call(call)
    prefix, count = schemas.prefix_ids(call.parameters.prefix), call.parameters.count
    options = await call.attend(service.continuations(answer["model"], line, prefix, count, call.remaining()))
    return {**answer, "continuations": [schemas.continuation_data(option) for option in options]}


def _add_models(router: APIRouter, server: Server) -> None:
    """Add the endpoints that tell of the models."""
    few = errors(Problem, 403, 408, 413)
    few_of_one = few | errors(Problem, 404)

    @router.get("/models", response_model=schemas.ModelsAnswer, responses=few)
    async def models(request: Request) -> Response:
        """List the models that are ready."""
        server.client(request, {})
        await server.service.check()
        return json_response({"models": [schemas.model_data(model) for model in server.service.models.values()]})

    @router.get("/models/{name}", response_model=schemas.ModelInfo, responses=few_of_one, openapi_extra=_NAME)
    async def model(request: Request) -> Response:
        """Return one model, with its model card."""
        server.client(request, {})
        await server.service.check()
        name = request.path_params["name"]
        if name not in server.service.models:
            names = ", ".join(server.service.models) or "none"
            raise HttpError(404, f"there is no model named {excerpt(name)}; there are: {names}")
        return json_response(schemas.model_data(server.service.models[name], readme=True))


def _image_call(
    call: Call[schemas.CaptionRequest] | Call[schemas.ExplainImageRequest],
) -> tuple[Models, str, bytes]:
    """Charge a request about an image; return the service, the name of the model, and the image.

    The model is the first one of captions, or the one that is wanted; the image came as a file, or as Base64, also as
    an address `data:`. Raises HttpError (400).
    """
    service, image = call.server.service, call.parameters.image
    models = select_models(service.models, call.parameters.model, "captions")
    if not models:
        raise bad_request("this server has no model for captions")
    if isinstance(image, str):
        encoded = image.partition(",")[2] if image.startswith("data:") else image
        try:
            image = base64.b64decode(encoded, validate=True)
        except ValueError:
            raise bad_request("`image` is not Base64; send the bytes of a PNG, JPEG or WebP file so encoded") from None
    call.charge([])
    return service, models[0].name, image


def _line_call(
    call: Call[schemas.ExplainRequest] | Call[schemas.ContinuationsRequest],
) -> tuple[Models, dict[str, str], str]:
    """Charge a request about one line; return the service, languages and model of the answer, and the line it reads.

    Raises HttpError (400).
    """
    asked, service = call.parameters, call.server.service
    call.charge([asked.text], len(asked.prefix))
    pairs = LanguagePairs(select_models(service.models, asked.model, "translation"))
    choice = pairs.choose(service, asked.text, asked.source, asked.target)
    if choice.model is None:
        raise bad_request(f"source and target are both {choice.target}; there is nothing to explain")
    answer = {"source": choice.source, "target": choice.target, "model": choice.model.name}
    return service, answer, with_prefix(choice, asked.text)
