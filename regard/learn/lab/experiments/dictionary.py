"""Dictionary: a query can be learnt by gradient for a soft look-up, but not for a hard one.

A second table shows nearest neighbours among the word embeddings of a trained model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
SIMILARITY = {"computer": 0.1, "dog": 0.9, "cat": 0.7}
"""The dictionary of note 001, and the similarity of each key to "puppy" that the note gives."""
STEPS = 60
TARGET = 2.0
RATE = 0.5
WORDS = ("나는", "집에", "빵을", "책을", "먹는다")
NEAR = 3
PLAN = Plan(updates=900, rates=(4e-3,), extra=0, seeds=1)


def run(bench: Bench) -> Findings:
    """Learn a query for a hard and for a soft dictionary; then look up words of a trained model."""
    answer = SoftDictionary(ANIMALS).look_up("puppy", lambda key, _: SIMILARITY[key])
    weighted = sum(SIMILARITY[key] * ANIMALS[key] for key in ANIMALS)
    value = weighted / sum(SIMILARITY.values())
    learnt = {name: learn(hard=name == "hard") for name in NAMES}
    (hard, gradient), (soft, _) = learnt.values()

    # With 3000 tokens in the vocabulary, common words are single tokens.
    recipe = {**transformer(), "tokenizer": {"size": 3000}}
    names = {"transformer": "Transformer"}
    bench.sweep({"transformer": recipe}, names, PLAN, lambda _: {})
    near = bench.record("neighbours", lambda: neighbours(bench.own("transformer")[0]))
    tables = (_learning_table(learnt), _neighbour_table(near))

    text = TEXTS["verdict"].fill(
        gradient=gradient, hard=hard[-1], first=soft[0], last=soft[-1], value=value
    )
    parts = (
        beyond(_error_left("hard", hard), 0.99, TEXTS["parts.hard"], change="computed"),
        beyond(
            _error_left("soft", soft),
            0.1,
            TEXTS["parts.soft"],
            is_above=False,
            change="computed",
        ),
    )
    curves = []
    for name, (errors, _) in learnt.items():
        points = tuple((float(step), error) for step, error in enumerate(errors))
        curves.append(Curve(NAMES[name], points))
    plot = Plot(TEXTS["error"], TEXTS["steps"], tuple(curves))
    graph = Graph((plot,), TEXTS["caption"])
    remark = TEXTS["remark"].fill(value=value, read=answer.value)
    return Findings(Verdict(parts, text), tables, graph, (remark,))


def _error_left(name: str, errors: Sequence[float]) -> Dots:
    """Return the last error as a share of the first."""
    label = TEXTS["parts.left"].fill(name=NAMES[name])
    return Dots(label, (errors[-1] / errors[0],))


def _learning_table(learnt: Mapping[str, tuple[list[float], float]]) -> Table:
    """Return the table of the first and last error and the first gradient of each dictionary."""
    columns = tuple(
        TEXTS[f"columns.{name}"] for name in ("dictionary", "first", "last", "gradient")
    )
    rows = tuple(
        (NAMES[name], f"{errors[0]:.3f}", f"{errors[-1]:.3f}", f"{gradient:.4f}")
        for name, (errors, gradient) in learnt.items()
    )
    return Table(TEXTS["tables.learning"], columns, rows)


def _neighbour_table(rows: Sequence[Sequence[str]]) -> Table:
    """Return the table of the nearest words of each word."""
    ranks = (TEXTS["nearest"].fill(number=number) for number in range(1, NEAR + 1))
    columns = (TEXTS["columns.word"], *ranks)
    return Table(TEXTS["tables.near"], columns, tuple(map(tuple, rows)))


def learn(hard: bool) -> tuple[list[float], float]:
    """Learn a query by gradient descent; return the error at each step, and the norm of the first
    gradient.

    A hard look-up returns the value of the key with the highest score, a soft one the mean of all
    values, weighted by the softmax of the scores.
    """
    generator = torch.Generator().manual_seed(1)
    keys = torch.randn(len(ANIMALS), 8, generator=generator)
    values = torch.tensor(list(ANIMALS.values()))
    query = (0.2 * torch.randn(8, generator=generator) + keys[0]).requires_grad_()

    errors = list[float]()
    gradient_norms = list[float]()
    for _ in range(STEPS + 1):
        scores = keys @ query
        one_hot = F.one_hot(scores.argmax(), len(keys)).float()
        weights = one_hot if hard else scores.softmax(0)
        error = (weights @ values - TARGET) ** 2
        errors.append(float(error.detach()))

        # The error of a hard look-up does not depend on the query in a differentiable way.
        gradient = torch.zeros_like(query)
        if error.requires_grad:
            (gradient,) = torch.autograd.grad(error, query)
        gradient_norms.append(float(gradient.norm()))

        clipped = gradient / max(1.0, gradient_norms[-1])
        query = (query - RATE * clipped).detach().requires_grad_()
    return errors, gradient_norms[0]


def neighbours(folder: Path) -> tuple[tuple[str, ...], ...]:
    """Return a row for each word: the word, and the nearest tokens that are words, by cosine.

    A word of several tokens has the mean of their embeddings.
    """
    vocabulary, model = load_run(folder)
    embeddings = model.encoder.embedding.weight.detach()
    vectors = F.normalize(embeddings, dim=-1)
    texts = [vocabulary.decode([token]) for token in range(len(vocabulary))]
    candidates = [token for token, text in enumerate(texts) if _is_word(text)]

    rows = []
    for word in WORDS:
        ids = vocabulary.encode(word)
        cosines = (vectors @ F.normalize(embeddings[ids].mean(0), dim=0)).tolist()
        others = [token for token in candidates if texts[token] != word]
        nearest = sorted(others, key=lambda token: -cosines[token])[:NEAR]
        cells = [f"{texts[token]} {cosines[token]:.2f}" for token in nearest]
        # A small vocabulary may have fewer than NEAR tokens that are words.
        empty_cells = [""] * (NEAR - len(cells))
        rows.append((word, *cells, *empty_cells))
    return tuple(rows)


def _is_word(text: str) -> bool:
    return len(text) > 1 and all("가" <= letter <= "힣" for letter in text)
