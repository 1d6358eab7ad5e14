"""Dictionary: a hard look-up has no gradient and cannot be learnt, a soft one can; which words are
near.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F

from regard.learn import SoftDictionary
from regard.learn.lab.bench import Bench, Plan
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Curve, Findings, Graph, Plot, Table, Verdict
from regard.learn.lab.models import load_run, transformer
from regard.learn.lab.sweep import Dots
from regard.learn.lab.verdicts import beyond

TEXTS = experiment_texts(
    "dictionary",
    "caption",
    "names",
    "tables",
    "columns",
    "nearest",
    "error",
    "steps",
    "remark",
    "verdict",
    "parts",
)
NAMES = TEXTS.table("names")
ANIMALS = {"computer": 9.0, "dog": 2.0, "cat": 3.0}
ALIKE = {"computer": 0.1, "dog": 0.9, "cat": 0.7}
"""The dictionary of note 001, and how alike it calls its keys and "puppy"."""
STEPS = 60
TARGET = 2.0
RATE = 0.5
WORDS = ("나는", "집에", "빵을", "책을", "먹는다")
NEAR = 3
PLAN = Plan(900, (4e-3,), extra=0, seeds=1)


def run(bench: Bench) -> Findings:
    """Learn a query for a hard and for a soft dictionary; then look up words of a trained model."""
    read = SoftDictionary(ANIMALS).look_up("puppy", lambda key, _: ALIKE[key])
    value = sum(ALIKE[key] * ANIMALS[key] for key in ANIMALS) / sum(ALIKE.values())
    learnt = {name: learn(hard=name == "hard") for name in NAMES}
    # So many tokens that common words are whole.
    words = {
        **transformer(),
        "tokenizer": {"size": 3000},
    }
    bench.sweep(
        {"transformer": words}, {"transformer": "Transformer"}, PLAN, lambda _: {}
    )
    learning = Table(
        TEXTS["tables.learning"],
        tuple(
            TEXTS[f"columns.{name}"]
            for name in ("dictionary", "first", "last", "gradient")
        ),
        tuple(
            (NAMES[name], f"{errors[0]:.3f}", f"{errors[-1]:.3f}", f"{gradient:.4f}")
            for name, (errors, gradient) in learnt.items()
        ),
    )
    near = Table(
        TEXTS["tables.near"],
        (
            TEXTS["columns.word"],
            *(TEXTS["nearest"].fill(number=number) for number in range(1, NEAR + 1)),
        ),
        neighbours(bench.own("transformer")[0]),
    )
    (hard, gradient), (soft, _) = learnt.values()
    text = TEXTS["verdict"].fill(
        gradient=gradient, hard=hard[-1], first=soft[0], last=soft[-1], value=value
    )
    parts = (
        beyond(
            Dots(TEXTS["parts.left"].fill(name=NAMES["hard"]), (hard[-1] / hard[0],)),
            0.99,
            TEXTS["parts.hard"],
        ),
        beyond(
            Dots(TEXTS["parts.left"].fill(name=NAMES["soft"]), (soft[-1] / soft[0],)),
            0.1,
            TEXTS["parts.soft"],
            False,
        ),
    )
    curves = tuple(
        Curve(
            NAMES[name],
            tuple((float(step), error) for step, error in enumerate(errors)),
        )
        for name, (errors, _) in learnt.items()
    )
    graph = Graph((Plot(TEXTS["error"], TEXTS["steps"], curves),), TEXTS["caption"])
    remark = TEXTS["remark"].fill(value=value, read=read.value)
    return Findings(Verdict(parts, text), (learning, near), graph, (remark,))


def learn(hard: bool) -> tuple[list[float], float]:
    """Learn a query by gradient descent; return the errors of its answers, and the norm of the
    first gradient.

    A hard look-up answers with the value of the nearest key, a soft one with the average by
    softmax.
    """
    generator = torch.Generator().manual_seed(1)
    keys = torch.randn(len(ANIMALS), 8, generator=generator)
    values = torch.tensor(list(ANIMALS.values()))
    query = (0.2 * torch.randn(8, generator=generator) + keys[0]).requires_grad_()
    errors = list[float]()
    first = 0.0
    for step in range(STEPS + 1):
        scores = keys @ query
        weights = (
            F.one_hot(scores.argmax(), len(keys)).float() if hard else scores.softmax(0)
        )
        error = (weights @ values - TARGET) ** 2
        errors.append(float(error.detach()))
        gradient = (
            torch.autograd.grad(error, query)[0]
            if error.requires_grad
            else torch.zeros_like(query)
        )
        first = first if step else float(gradient.norm())
        query = (
            (query - RATE * gradient / max(1.0, float(gradient.norm())))
            .detach()
            .requires_grad_()
        )
    return errors, first


def neighbours(folder: Path) -> tuple[tuple[str, ...], ...]:
    """Return words with the nearest tokens that are words, by cosine; the vector of several tokens
    is their mean.
    """
    vocabulary, model = load_run(folder)
    embeddings = model.encoder.embedding.weight.detach()
    vectors = F.normalize(embeddings, dim=-1)
    whole = [i for i in range(len(vocabulary)) if _is_word(vocabulary.decode([i]))]
    rows = []
    for word in WORDS:
        ids = vocabulary.encode(word)
        cosines = vectors @ F.normalize(embeddings[ids].mean(0), dim=0)
        others = [token for token in whole if vocabulary.decode([token]) != word]
        nearest = sorted(others, key=lambda token: -float(cosines[token]))[:NEAR]
        cells = [
            f"{vocabulary.decode([token])} {float(cosines[token]):.2f}"
            for token in nearest
        ]
        # A small vocabulary has few whole words.
        rows.append((word, *cells, *[""] * (NEAR - len(cells))))
    return tuple(rows)


def _is_word(text: str) -> bool:
    return len(text) > 1 and all("가" <= letter <= "힣" for letter in text)
