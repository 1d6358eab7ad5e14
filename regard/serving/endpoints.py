"""The endpoints under /v1: translation with all that Regard knows of it, captions, explanations,
models.
"""

from __future__ import annotations

import base64
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from regard.serving import schemas
from regard.serving.calls import Call, CallRoutes, Server
from regard.serving.http_errors import HttpError, bad_request, json_response
from regard.serving.language_pairs import Choice, LanguagePairs, select_models
from regard.serving.models import Models
from regard.serving.openapi import ERRORS, Problem, answers
from regard.serving.requests import JSON, MULTIPART, excerpt, listed
from regard.serving.server_sent_events import EVENTS, stream_translations

_NAME = {
    "parameters": [
        {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    ]
}


def own_endpoints(server: Server) -> APIRouter:
    """Return the endpoints under /v1."""
    router = APIRouter(prefix="/v1", tags=["Regard"])
    add = CallRoutes(server, router).add
    known = answers(Problem, *ERRORS)
    translations = answers(schemas.TranslateAnswer)
    translations[200]["description"] = (
        "The translations; with `stream`, events `delta`, then `result` or `error`"
    )
    translations[200]["content"][EVENTS] = {}
    add("/translate", translate, schemas.TranslateRequest, translations | known, JSON)
    add(
        "/caption",
        caption,
        schemas.CaptionRequest,
        answers(schemas.CaptionAnswer) | known,
        JSON,
        MULTIPART,
    )
    add(
        "/explain",
        explain,
        schemas.ExplainRequest,
        answers(schemas.ExplainAnswer) | known,
        JSON,
    )
    add(
        "/continuations",
        continuations,
        schemas.ContinuationsRequest,
        answers(schemas.ContinuationsAnswer) | known,
        JSON,
    )
    add(
        "/explain_image",
        explain_image,
        schemas.ExplainImageRequest,
        answers(schemas.ExplainImageAnswer) | known,
        JSON,
        MULTIPART,
    )
    _add_models(router, server)
    return router


async def translate(call: Call[schemas.TranslateRequest]) -> Any:
    """Translate a text or several; if asked, with scores, alternatives, alignments and attention,
    or streamed.
    """
    asked = call.parameters
    texts = listed(call.parameters.text)
    pairs = LanguagePairs(
        select_models(call.server.service.models, asked.model, "translation")
    )
    if asked.stream:
        return await stream_translations(call, texts, pairs)
    languages = (asked.source, asked.target)
    return asked.answer(
        await call.translate(
            texts, languages, asked.search, asked.form, pairs, asked.with_lines
        )
    )


async def caption(call: Call[schemas.CaptionRequest]) -> Any:
    """Describe an image, sent as a file of a form or as Base64 in JSON."""
    service, name, image = _image_call(call)
    hypotheses = await service.caption(
        name, image, call.parameters.search, call.remaining()
    )
    return schemas.CaptionAnswer(hypotheses[0].text, name, hypotheses, warnings=())


async def explain_image(call: Call[schemas.ExplainImageRequest]) -> Any:
    """Describe an image and return what figures show of it: the cells that each word attends to."""
    service, name, image = _image_call(call)
    return schemas.ExplainImageAnswer(
        name, await service.explain_image(name, image, call.remaining())
    )


async def explain(call: Call[schemas.ExplainRequest]) -> Any:
    """Translate a line and return what figures show of it: attention of every layer, alignments,
    search.
    """
    choice, model, line = _line_call(call)
    explanation = await call.server.service.explain(
        model, line, call.parameters, call.remaining()
    )
    return schemas.ExplainAnswer(choice.source, choice.target, model, explanation)


async def continuations(call: Call[schemas.ContinuationsRequest]) -> Any:
    """List the tokens that may follow the beginning of a translation, and the translation that each
    leads to.
    """
    asked = call.parameters
    choice, model, line = _line_call(call)
    work = call.server.service.continuations(
        model, line, asked.prefix, asked.count, call.remaining()
    )
    return schemas.ContinuationsAnswer(choice.source, choice.target, model, await work)


def _add_models(router: APIRouter, server: Server) -> None:
    """Add the endpoints that tell of the models."""
    few = (403, 408, 413)

    @router.get(
        "/models", responses=answers(schemas.ModelsAnswer) | answers(Problem, *few)
    )
    async def models(request: Request) -> Response:
        """List the models that are ready."""
        server.client(request, {})
        await server.service.check()
        return json_response(
            schemas.ModelsAnswer(
                [*map(schemas.model_info, server.service.models.values())]
            )
        )

    known = answers(schemas.ModelInfo) | answers(Problem, 404, *few)

    @router.get("/models/{name}", responses=known, openapi_extra=_NAME)
    async def model(request: Request) -> Response:
        """Return one model, with its model card."""
        server.client(request, {})
        await server.service.check()
        name = request.path_params["name"]
        served = server.service.models
        if name not in served:
            names = ", ".join(served) or "none"
            raise HttpError(
                404, f"there is no model named {excerpt(name)}; there are: {names}"
            )
        return json_response(schemas.model_info(served[name], served[name].readme))


def _image_call(
    call: Call[schemas.CaptionRequest] | Call[schemas.ExplainImageRequest],
) -> tuple[Models, str, bytes]:
    """Charge a request about an image; return the service, the name of the model, and the image.

    The model is the first one of captions, or the one that is wanted; the image came as a file, or
    as Base64, also as an address `data:`. Raises HttpError (400).
    """
    service = call.server.service
    image = call.parameters.image
    models = select_models(service.models, call.parameters.model, "captions")
    if not models:
        raise bad_request("this server has no model for captions")
    if isinstance(image, str):
        encoded = image.partition(",")[2] if image.startswith("data:") else image
        try:
            image = base64.b64decode(encoded, validate=True)
        except ValueError:
            raise bad_request(
                "`image` is not Base64; send the bytes of a PNG, JPEG or WebP file so encoded"
            ) from None
    call.charge([])
    return service, models[0].name, image


def _line_call(
    call: Call[schemas.ExplainRequest] | Call[schemas.ContinuationsRequest],
) -> tuple[Choice, str, str]:
    """Charge a request about one line; return the choice of languages, the name of the model, and
    the line it reads.

    Raises HttpError (400).
    """
    asked = call.parameters
    service = call.server.service
    call.charge([asked.text], len(asked.prefix))
    pairs = LanguagePairs(select_models(service.models, asked.model, "translation"))
    choice = pairs.choose(service, asked.text, asked.source, asked.target)
    if choice.model is None:
        raise bad_request(
            f"source and target are both {choice.target}; there is nothing to explain"
        )
    return (
        choice,
        choice.model.name,
        f"{choice.prefix} {asked.text}" if choice.prefix else asked.text,
    )
