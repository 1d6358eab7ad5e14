"""Regard's own endpoints, under /v1: translations with scores and attention, captions, explanations
and models.
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
from regard.serving.openapi import ERRORS, Problem, answers, path_parameter
from regard.serving.request_bodies import JSON, MULTIPART, excerpt, listed
from regard.serving.server_sent_events import EVENTS, stream_translations


def own_endpoints(server: Server) -> APIRouter:
    """Return the endpoints under /v1."""
    router = APIRouter(prefix="/v1", tags=["Regard"])
    add = CallRoutes(server, router).add
    errors = answers(Problem, *ERRORS)
    translations = answers(schemas.TranslateAnswer)
    translations[200]["description"] = (
        "The translations; with `stream`, events `delta`, then `result` or `error`"
    )
    translations[200]["content"][EVENTS] = {}
    add("/translate", translate, schemas.TranslateRequest, translations | errors, JSON)
    add(
        "/caption",
        caption,
        schemas.CaptionRequest,
        answers(schemas.CaptionAnswer) | errors,
        JSON,
        MULTIPART,
    )
    add(
        "/explain",
        explain,
        schemas.ExplainRequest,
        answers(schemas.ExplainAnswer) | errors,
        JSON,
    )
    add(
        "/continuations",
        continuations,
        schemas.ContinuationsRequest,
        answers(schemas.ContinuationsAnswer) | errors,
        JSON,
    )
    add(
        "/explain_image",
        explain_image,
        schemas.ExplainImageRequest,
        answers(schemas.ExplainImageAnswer) | errors,
        JSON,
        MULTIPART,
    )
    _add_models(router, server)
    return router


async def translate(call: Call[schemas.TranslateRequest]) -> Any:
    """Translate a text or several; if asked, with scores, alternatives, alignments and attention,
    or streamed.
    """
    parameters = call.parameters
    texts = listed(parameters.text)
    models = call.server.service.models
    pairs = LanguagePairs(select_models(models, parameters.model, "translation"))
    if parameters.stream:
        return await stream_translations(call, texts, pairs)

    results = await call.translate(
        texts,
        (parameters.source, parameters.target),
        parameters.search,
        parameters.form,
        pairs,
        parameters.with_lines,
    )
    return parameters.answer(results)


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
    explanation = await service.explain_image(name, image, call.remaining())
    return schemas.ExplainImageAnswer(name, explanation)


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
    parameters = call.parameters
    choice, model, line = _line_call(call)
    results = await call.server.service.continuations(
        model, line, parameters.prefix, parameters.count, call.remaining()
    )
    return schemas.ContinuationsAnswer(choice.source, choice.target, model, results)


def _add_models(router: APIRouter, server: Server) -> None:
    """Add the endpoints that describe the models."""
    errors = answers(Problem, 403, 408, 413)

    @router.get("/models", responses=answers(schemas.ModelsAnswer) | errors)
    async def models(request: Request) -> Response:
        """List the models that are ready."""
        server.client(request, {})
        await server.service.check()
        served = server.service.models.values()
        infos = [schemas.model_info(model) for model in served]
        return json_response(schemas.ModelsAnswer(infos))

    responses = answers(schemas.ModelInfo) | answers(Problem, 404, 403, 408, 413)

    @router.get(
        "/models/{name}", responses=responses, openapi_extra=path_parameter("name")
    )
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

    The model is the named one, or else the first captioner. The image is sent as a file, as Base64,
    or as a `data:` URL. Raises HttpError (400).
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
    """Charge a request about one line; return the chosen languages, the name of the model, and the
    line with its language code, if the model needs one.

    Raises HttpError (400).
    """
    parameters = call.parameters
    service = call.server.service
    call.charge([parameters.text], len(parameters.prefix))

    models = select_models(service.models, parameters.model, "translation")
    choice = LanguagePairs(models).choose(
        service, parameters.text, parameters.source, parameters.target
    )
    if choice.model is None:
        raise bad_request(
            f"source and target are both {choice.target}; there is nothing to explain"
        )
    line = parameters.text
    if choice.prefix:
        line = f"{choice.prefix} {line}"
    return choice, choice.model.name, line
