"""Texts of a request: each goes to the model of its languages, those of one model together."""

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
_MANY = 32
"""Texts from which on their models are chosen in a thread."""
_NAMED = 20
"""Most refused lines that an error lists."""


async def translate_texts(
    service: Models,
    texts: Sequence[str],
    pairs: LanguagePairs,
    languages: tuple[str, str],
    request: TextRequest,
    deadline: float,
) -> list[ServedText]:
    """Translate texts, each as it would be alone; those of different models run at the same time.

    `languages`: codes of source ("auto": detected for each text) and target. Raises HttpError for
    unknown languages and lines that a model refuses, and the service's own errors.
    """

    def choose() -> list[Choice]:
        return [pairs.choose(service, text, *languages, request.form) for text in texts]

    is_large = len(texts) > _MANY or sum(map(len, texts)) > LONG_TEXT
    choices = await asyncio.to_thread(choose) if is_large else choose()
    results = [
        choice.unchanged(text) for choice, text in zip(choices, texts, strict=True)
    ]
    groups: dict[tuple[str, str], list[int]] = {}
    for number, choice in enumerate(choices):
        if choice.model is not None:
            groups.setdefault((choice.model.name, choice.prefix), []).append(number)

    async def translate(model: str, code: str, numbers: Sequence[int]) -> None:
        try:
            chosen = [texts[number] for number in numbers]
            translated = await service.translate(
                model, chosen, replace(request, code=code), deadline
            )
        except LineError as problem:
            raise refused(problem, numbers) from None
        for number, text in zip(numbers, translated, strict=True):
            results[number] = choices[number].answer(text)

    await gather(*(translate(*key, numbers) for key, numbers in groups.items()))
    return results


def refused(problem: LineError, numbers: Sequence[int]) -> HttpError:
    """Return the error of lines that a model refuses; `numbers`: of the texts that it was given."""
    places = ((numbers[index], why) for index, why in problem.problems[:_NAMED])
    return bad_request(*(f"text {number + 1}, {why}" for number, why in places))


async def gather(*calls: Awaitable[R]) -> list[R]:
    """Await several calls at once; if one fails, the others are cancelled."""
    if len(calls) == 1:
        return [await calls[0]]  # as most requests have it: a task costs time
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
