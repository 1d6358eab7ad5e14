"""Data and still of the figure `dictionary`: the dictionary of note 001, its keys as vectors."""

from __future__ import annotations

import math
from typing import Any

import torch

from regard.common.bilingual import Language, Text
from regard.learn import Answer, SoftDictionary
from regard.visualisation.figure import Box, Figure, Group, Mark, Polyline, make_figure
from regard.visualisation.figure import Text as Label
from regard.visualisation.player import moved_down
from regard.visualisation.screen import screen_width

ENTRIES = {"computer": 9.0, "dog": 2.0, "cat": 3.0}
SIMILARITY = {"computer": 0.1, "dog": 0.9, "cat": 0.7}
"""The similarities of the note."""
BELOW = "dog"
"""The key that lies below the query."""
QUERY = "puppy", (1.0, 0.0)
CORNER = (-1.2, -0.85)
"""The left lower corner of the plane."""
SPAN = 3.2
HINTS = Text("the query, and the keys with their values", "쿼리와 키(괄호 안은 값)")
WEIGHTS = Text("similarity · weight", "유사도 · 가중치")
ANSWER = Text("answer", "답")
RULES = {
    "equal": Text("looked up by equality", "같은 키만 찾음"),
    "shares": Text("{likeness}; shares of the sum", "{likeness}, 합에서 차지하는 비율"),
    "softmax": Text("{likeness}; softmax", "{likeness}, softmax"),
}
LIKENESSES = {
    "distance": Text("similarity by distance", "거리로 잰 유사도"),
    "cosine": Text("similarity by cosine", "코사인 유사도"),
}
HEATED = Text(", temperature {temperature}", ", 온도 {temperature}")
UNANSWERED = Text(
    "No key equals {query}: no answer, and no gradient by which to learn",
    "{query}와 같은 키가 없어 답이 없고, 배울 기울기도 없습니다",
)
LOW, BESIDE = 296.0, 312.0
"""Pixels that the weights are moved on a phone: down, and to the left."""
UNIT = 92.0
"""Pixels of a length of 1."""


def _key(similarity: float, is_below: bool) -> tuple[float, float]:
    """Return the vector whose cosine with the query, and whose e^(−distance² / 2), both are the
    similarity: of the two in this direction the farther one.
    """
    across = math.sqrt(1 - similarity**2)
    length = similarity + math.sqrt(-2 * math.log(similarity) - across**2)
    height = -across if is_below else across
    return round(length * similarity, 6), round(length * height, 6)


KEYS = {name: _key(number, name == BELOW) for name, number in SIMILARITY.items()}


def distance_similarity(key: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Compare by the distance: 1 in the same place, nearer 0 the farther away."""
    return torch.exp(-(key - query).square().sum() / 2)


def cosine_similarity(key: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Compare by the direction; a query of length 0 has none, and is like no key."""
    return torch.nn.functional.cosine_similarity(key, query, dim=0)


LIKENESS = {"distance": distance_similarity, "cosine": cosine_similarity}


def look_up(
    query: torch.Tensor,
    rule: str,
    temperature: float = 1.0,
    likeness: str = "distance",
) -> Answer:
    """Look a vector up: by "equal", by "shares" of the sum, or by "softmax"."""
    keys = torch.tensor(list(KEYS.values()), dtype=torch.float64)
    alike = LIKENESS[likeness]
    values = torch.tensor(list(ENTRIES.values()), dtype=torch.float64)
    dictionary = SoftDictionary(keys, values, names=list(ENTRIES))
    if rule == "equal":
        return dictionary.look_up(
            query, lambda key, query: torch.equal(key, query), softmax=False
        )
    if rule == "shares":
        return dictionary.look_up(query, alike)
    return dictionary.look_up(
        query, lambda key, query: alike(key, query) / temperature, softmax=True
    )


def make() -> dict[str, Any]:
    """Return the dictionary, the query, and the answer of the note."""
    name, vector = QUERY
    answer = look_up(torch.tensor(vector, dtype=torch.float64), "shares")
    return {
        "names": list(ENTRIES),
        "keys": [list(key) for key in KEYS.values()],
        "values": list(ENTRIES.values()),
        "query": {"name": name, "vector": list(vector)},
        "scores": [round(float(score), 6) for score in answer.scores],
        "weights": [round(float(weight), 6) for weight in answer.weights],
        "answer": round(float(answer.value), 6),
    }


def still(data: dict[str, Any], language: Language, state: dict[str, str]) -> Figure:
    """Draw the plane with the query and the keys, and beside it the weights of a state."""
    rule = state.get("rule", "shares")
    likeness = state.get("likeness", "distance")
    temperature = float(state.get("temperature", 1))
    query = torch.tensor(data["query"]["vector"], dtype=torch.float64)
    result = look_up(query, rule, temperature, likeness)
    scores = (result.scores * temperature).tolist()
    weights = result.weights.tolist()
    is_answered = any(weights)
    plane: list[Mark] = []
    left, low = CORNER
    centre = (-left * UNIT, (low + SPAN) * UNIT)
    right, high = left + SPAN, low + SPAN
    for end in ((left, 0.0), (right, 0.0), (0.0, low), (0.0, high)):
        plane.append(Polyline((centre, _pixel(end, centre)), "grid", 1))
    rows: list[Mark] = [
        Label(330, 22, _method(rule, likeness, temperature).by(language), 13),
        Label(330, 44, WEIGHTS.by(language), 13, "muted"),
    ]
    start = _pixel(data["query"]["vector"], centre)
    is_angle = rule != "equal" and likeness == "cosine"
    end = centre if is_angle else start
    plane.append(Polyline((start, end), "link", 1.5))
    entries = zip(data["names"], data["keys"], data["values"], strict=True)
    for number, (name, key, value) in enumerate(entries):
        x, y = _pixel(key, centre)
        paint = f"s{(0, 2, 3)[number]}"
        plane += [
            Polyline((end, (x, y)), paint, 1.5),
            Polyline(_disc((x, y), 6), paint),
            Label(
                x + 10, y + (20 if key[1] < 0 else 5), f"{name} ({value:g})", 13, paint
            ),
        ]
        weight = weights[number]
        top = 62.0 + 52 * number
        share = f"{scores[number]:.3g} · {weight:.3f}" if is_answered else "0 · –"
        rows += [
            Label(330, top + 12, f"{name}  {share}", 13),
            Box(330, top + 20, 200, 12, "grid"),
            Box(330, top + 20, 200 * weight, 12, paint),
        ]
    plane += [
        Polyline(_disc(start, 8), "link"),
        Label(start[0] + 14, start[1] - 4, data["query"]["name"], 13, "ink"),
    ]
    terms = zip(weights, data["values"], strict=True)
    mean = " + ".join(f"{weight:.3f}·{value:g}" for weight, value in terms)
    total = f"{ANSWER.by(language)} = {mean} = {float(result.value):.4f}"
    if not is_answered:
        total = UNANSWERED.fill(query=data["query"]["name"]).by(language)
    height = 336
    if screen_width():
        rows = [moved_down(mark, LOW, -BESIDE) for mark in rows]
        height += 204
    rows.append(Label(18, height - 18, total, 14))
    title = HINTS.by(language)
    groups = (Group("plane", tuple(plane)), Group("weights", tuple(rows)))
    width = screen_width() or 580.0
    return make_figure(width, height, groups, title, total)


def _method(rule: str, likeness: str, temperature: float) -> Text:
    name = LIKENESSES[likeness]
    method = RULES[rule]
    heated = HEATED.fill(temperature=f"{temperature:g}")
    has_heat = temperature != 1
    return Text(
        method.en.format(likeness=name.en) + heated.en * has_heat,
        method.ko.format(likeness=name.ko) + heated.ko * has_heat,
    )


def _pixel(point: Any, centre: tuple[float, float]) -> tuple[float, float]:
    return centre[0] + UNIT * point[0], centre[1] - UNIT * point[1]


def _disc(
    centre: tuple[float, float], radius: float
) -> tuple[tuple[float, float], ...]:
    turns = (math.tau * step / 24 for step in range(24))
    return tuple(
        (centre[0] + radius * math.cos(turn), centre[1] + radius * math.sin(turn))
        for turn in turns
    )
