"""Translate the texts of a request, in one call for each pair of a model and a target language."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TypeVar

from regard.common.errors import LineError
from regard.serving.http_errors import HttpError, bad_request
from regard.serving.language_pairs import Choice, LanguagePairs
from regard.serving.models import LONG_TEXT, Models
from regard.serving.service import ServedText, TextRequest

R = TypeVar("R")
_MANY_TEXTS = 32
"""Number of texts above which their models are chosen in a thread."""
_LISTED_LINES = 20
"""Maximum number of refused lines that an error lists."""


async def translate_texts(
    service: Models,
    texts: Sequence[str],
    pairs: LanguagePairs,
    languages: tuple[str, str],
    request: TextRequest,
    deadline: float,
) -> list[ServedText]:
    """Translate texts; the calls of different models run concurrently.

    `languages`: codes of source and target; the source "auto" is detected for each text. Raises
    HttpError for unknown languages and for lines that a model refuses, and the errors of the
    service.
    """

    def choose() -> list[Choice]:
        return [pairs.choose(service, text, *languages, request.form) for text in texts]

    is_large = len(texts) > _MANY_TEXTS or sum(map(len, texts)) > LONG_TEXT
    choices = await asyncio.to_thread(choose) if is_large else choose()
    results = [
        choice.unchanged(text) for choice, text in zip(choices, texts, strict=True)
    ]

    groups: dict[tuple[str, str], list[int]] = {}
    for index, choice in enumerate(choices):
        if choice.model is not None:
            groups.setdefault((choice.model.name, choice.prefix), []).append(index)

    async def translate(model: str, code: str, indices: Sequence[int]) -> None:
        group = [texts[index] for index in indices]
        try:
            translated = await service.translate(
                model, group, replace(request, code=code), deadline
            )
        except LineError as problem:
            raise refused(problem, indices) from None
        for index, text in zip(indices, translated, strict=True):
            results[index] = choices[index].answer(text)

    calls = [
        translate(model, code, indices) for (model, code), indices in groups.items()
    ]
    await gather(*calls)
    return results


def refused(problem: LineError, numbers: Sequence[int]) -> HttpError:
    """Return the HTTP error of lines that a model refuses.

    `numbers`: index in the request of each text that the model was given.
    """
    causes = [
        f"text {numbers[index] + 1}, {cause}"
        for index, cause in problem.problems[:_LISTED_LINES]
    ]
    return bad_request(*causes)


async def gather(*calls: Awaitable[R]) -> list[R]:
    """Await several calls at once; if one fails, the others are cancelled."""
    if len(calls) == 1:
        return [await calls[0]]  # the usual case, without the cost of a task
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
