"""Data and still of the figure `numbers-to-loss`: a small decoder from its tokens to the loss."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch

from regard.common.bilingual import Language, Text, words_by
from regard.data.vocabulary import BOS, EOS
from regard.learn import BlockWalkthrough, walkthrough_block
from regard.learn.lessons.random_weights import (
    WordVocabulary,
    random_tenths,
    small_model,
)
from regard.models import Batch
from regard.requests.walkthrough_request import SmallSettings
from regard.visualisation.figure import (
    Box,
    Figure,
    Group,
    Mark,
    Polyline,
    arrow,
    make_figure,
)
from regard.visualisation.figure import Text as Label
from regard.visualisation.number_boxes import equations
from regard.visualisation.player import moved_down
from regard.visualisation.screen import screen_width
from regard.visualisation.steps_page import render_steps_body

SOURCE = "나는 집에 간다"
TARGET = "I go home"
SIZE = 4
NORMS = ("post", "pre")
LABELS = {
    "source": Text("encoder", "인코더"),
    "input": Text("embedding + position", "임베딩 + 위치"),
    "self": Text("masked self-attention", "마스크 셀프 어텐션"),
    "cross": Text("cross-attention", "크로스 어텐션"),
    "feedforward": Text("feed-forward", "피드포워드"),
    "add": Text("add", "더하기"),
    "add & norm": Text("add & norm", "더하고 정규화"),
    "norm": Text("layer norm", "층 정규화"),
    "logits": Text("linear", "출력층"),
    "probabilities": Text("softmax", "softmax"),
    "loss": Text("loss", "손실"),
}
SUBLAYERS = {"self", "cross", "feedforward"}
TITLE = Text("A decoder, from its tokens to the loss", "토큰에서 손실까지, 디코더")
COLUMNS = (
    (Text("token read → right token", "읽는 토큰 → 정답"), 310, "start"),
    (Text("p", "p"), 500, "end"),
    (Text("−ln p", "−ln p"), 570, "end"),
)
BESIDE = 296
"""Pixels that numbers are moved to the left on a phone, below the diagram."""
TOTAL = Text("mean", "평균")
UNFORCED = Text("Without teacher forcing", "교사 강요가 없을 때")


def block(norm: str) -> BlockWalkthrough:
    """Walk through the decoder with the layer norm after the sublayers (post) or before (pre)."""
    return walkthrough_block(SOURCE, TARGET, size=SIZE, heads=1, norm=norm)


def stage_of(key: str) -> str:
    """Return the part of the diagram that a step belongs to."""
    part, _, step = key.rpartition(".")
    if step in ("add", "norm"):
        return step
    if part == "prediction":
        return step
    return part or ("source" if step == "source" else "input")


def stages(keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return the parts of the diagram from the bottom up: a label, the keys of the steps, and the
    number of parts that a residual connection goes around.
    """
    parts: list[dict[str, Any]] = []
    is_post = keys[keys.index("self.add") + 1] == "self.norm"
    for name, group in groupby(keys, stage_of):
        if is_post and name == "norm" and parts[-1]["name"] == "add":
            parts[-1]["keys"] += group
            parts[-1] |= _label("add & norm")
            continue
        around = 0
        if name == "add":
            around = 1 if is_post else 2
        parts.append({"keys": list(group), "around": around} | _label(name))
    return parts


def _label(name: str) -> dict[str, str]:
    label = LABELS[name]
    return {"name": name, "en": label.en, "ko": label.ko}


def make() -> dict[str, Any]:
    """Return the diagrams of both decoders, the loss, and the embeddings of all tokens."""
    norms = {}
    for norm in NORMS:
        keys = [step.key for step in block(norm).steps]
        norms[norm] = {"stages": stages(keys)}
    term = block("post")["prediction.probabilities"].terms[-1]
    losses = block("post")["prediction.loss"]
    rows = losses.terms[0].values[0].tolist()
    embeddings = {
        name: [round(x, 1) for x in random_tenths((SIZE,), 0, name).tolist()]
        for name in term.columns[0]
    }
    return {
        "read": ["<s>", *TARGET.split()],
        "right": [*TARGET.split(), "</s>"],
        "own": own_tokens(),
        "embeddings": embeddings,
        "losses": [[round(x, 6) for x in row] for row in rows],
        "mean": round(float(losses.terms[-1].values[0, 0, 2]), 6),
        "norms": norms,
    }


@torch.no_grad()
def own_tokens() -> list[str]:
    """Return what the decoder reads without teacher forcing: the most likely token so far."""
    source = WordVocabulary([SOURCE])
    target = WordVocabulary([TARGET])
    model = small_model(SmallSettings(size=SIZE, heads=1), source, target)
    batch = Batch.of([source.encode(SOURCE)])
    words = [EOS, *target.encode(TARGET)]
    read = [BOS]
    for _ in TARGET.split():
        logits = model.project(model(batch, torch.tensor([read])))[0, -1]
        read.append(max(words, key=lambda word: float(logits[word])))
    return list(target.tokens(read))


def fill(data: dict[str, Any], language: Language) -> dict[str, Any]:
    """Add the steps of both decoders as HTML, which follow the templates of `regard`."""
    for norm, parts in data["norms"].items():
        parts["html"] = render_steps_body(block(norm).steps, False, language)
    return data


def still(data: dict[str, Any], language: Language, state: dict[str, str]) -> Figure:
    """Draw the diagram, and beside it the step of a state: by default the loss of each token."""
    key = state.get("step", "prediction.loss")
    diagram, height = _diagram(data, stage_of(key), language)
    if key == "prediction.loss":
        rows, summary = _losses(data, language)
    else:
        is_forced = state.get("forced") != "no"
        rows, summary = _step(data, key, is_forced, language)
    if screen_width():
        rows = [moved_down(mark, height - 40, -BESIDE) for mark in rows]
        height += 26 * 5 + 62
    groups = (Group("diagram", tuple(diagram)), Group("loss", tuple(rows)))
    return make_figure(
        screen_width() or 620, height, groups, TITLE.by(language), summary
    )


def _diagram(
    data: dict[str, Any], stage: str, language: Language
) -> tuple[list[Mark], float]:
    """Return the diagram with a marked stage, and its height."""
    diagram: list[Mark] = []
    parts = [
        part for part in data["norms"]["post"]["stages"] if part["name"] != "source"
    ]
    height = 40.0 + 38 * len(parts)
    tops = [height - 48 - 38 * number for number in range(len(parts))]
    for number, (part, top) in enumerate(zip(parts, tops, strict=True)):
        diagram += [
            Box(80, top, 180, 28, "w30" if part["name"] in SUBLAYERS else "grid"),
            Label(170, top + 19, part[language], 13, "ink", "middle"),
        ]
        if part["name"] == stage != "loss":
            diagram.append(Box(78, top - 2, 184, 32, "link", outline=2.5))
        if number:
            diagram += arrow((170, tops[number - 1]), (170, top + 28), "ink")
        if part["name"] == "cross":
            diagram += [
                Box(10, top, 54, 28, "w8"),
                Label(37, top + 19, LABELS["source"].by(language), 12, "ink", "middle"),
                *arrow((64, top + 14), (80, top + 14), "ink"),
            ]
        if part["around"]:
            below = tops[number - part["around"] - 1]
            corner = ((260, below + 8), (276, below + 8), (276, top + 18))
            diagram.append(Polyline(corner, "muted", 1))
            diagram += arrow((276, top + 18), (260, top + 18), "muted")
    return diagram, height


def _losses(data: dict[str, Any], language: Language) -> tuple[list[Mark], str]:
    """Return the loss of each token, and the mean."""
    rows: list[Mark] = [
        Label(x, 60, text.by(language), 13, "muted", anchor)
        for text, x, anchor in COLUMNS
    ]
    tokens = zip(data["read"], data["right"], data["losses"], strict=True)
    for number, (read, right, (probability, loss)) in enumerate(tokens):
        y = 90.0 + 26 * number
        rows.append(Label(310, y, f"{read} → {right}", 14))
        for x, value in ((500, probability), (570, loss)):
            rows.append(Label(x, y, f"{value:.3f}", 14, "ink", "end"))
    total = f"{TOTAL.by(language)}: {data['mean']:.3f}"
    y = 100.0 + 26 * len(data["read"])
    rows += [
        Label(310, y, TOTAL.by(language), 14),
        Label(570, y, f"{data['mean']:.3f}", 14, "ink", "end"),
    ]
    return rows, total


def _step(
    data: dict[str, Any], key: str, is_forced: bool, language: Language
) -> tuple[list[Mark], str]:
    """Return the last matrix of a step; without teacher forcing the tokens that are read."""
    step = block("post")[key]
    _, matrix = equations(step.terms)[-1].sides[-1]
    cells = [list(row) for row in matrix.cells]
    title = step.title.by(language)
    if not is_forced:
        title = UNFORCED.by(language)
        cells[1] = data["own"]
    rows: list[Mark] = [Label(310, 60, title, 14)]
    for column, name in enumerate(matrix.columns):
        text = words_by(name, language)
        rows.append(Label(420 + 50 * column, 90, text, 13, "muted", "middle"))
    for row, name in enumerate(matrix.rows):
        y = 116.0 + 26 * row
        text = words_by(name, language)
        rows.append(Label(310, y, text, 13, "muted"))
        for column, cell in enumerate(cells[row]):
            rows.append(Label(420 + 50 * column, y, cell, 13, "ink", "middle"))
    return rows, title
