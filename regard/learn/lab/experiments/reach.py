"""Reach: how much each earlier word still matters to what an encoder hands over, by distance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from regard.common.shapes import Tensor
from regard.data.text import read_lines
from regard.learn.lab.bench import RECURRENT, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Findings, Graph, Part, Plot, Verdict
from regard.learn.lab.models import load_run, recurrent, transformer
from regard.learn.lab.sweep import Dots, Sweep
from regard.learn.lab.verdicts import beyond
from regard.models import Batch, Model
from regard.models.transformer import TransformerEncoder

TEXTS = experiment_texts(
    "reach", "caption", "names", "measures", "table", "share", "distance", "parts"
)
NAMES = TEXTS.table("names")
MEASURES = TEXTS.table("measures")
TOKENS, SENTENCES, DRAWS = 40, 40, 8
"""Tokens of each sentence, which is cut to that length before its end, since then every distance is
one place.
"""
SHOWN = (1, 5, 10, 20, 30, 40)
NEAR, MIDDLE, FAR = range(1, 4), range(19, 23), range(34, 38)
"""Distances from the end; nearer to the beginning than 37, the first tokens are the end of the way
back.
"""
FADED, EVEN = 0.2, 0.5
"""Influence against that of the last tokens, below which a token is lost, and above which all are
reached alike.
"""


def run(bench: Bench) -> Findings:
    """Train four encoders, and measure gradient and erasure of each token by its distance from the
    end.
    """
    one_way = {"bidirectional": False, "size": 128}
    arms = {
        "rnn": recurrent("no_attention", {**one_way, "cell": "tanh"}),
        "lstm": recurrent("no_attention", {**one_way, "cell": "lstm"}),
        "two": recurrent("no_attention"),
        "transformer": transformer(),
    }
    lines = read_lines(str(bench.data("length-sample") / "train.ko"))
    sweep = bench.sweep(
        arms, NAMES, RECURRENT, lambda folder: _scores(folder, lines), "length-sample"
    )
    tables = tuple(
        sweep.table(
            TEXTS["table"].fill(measure=words),
            {str(d): f"{measure} {d}" for d in SHOWN},
            "2",
        )
        for measure, words in MEASURES.items()
    )
    plots = tuple(
        Plot(
            words,
            TEXTS["distance"],
            sweep.lines({f"{measure} {d}": float(d) for d in range(1, TOKENS + 1)}),
        )
        for measure, words in MEASURES.items()
    )
    return Findings(
        Verdict(_parts(sweep)), tables, Graph(plots, TEXTS["caption"], columns=2)
    )


def _scores(folder: Path, lines: list[str]) -> Mapping[str, float]:
    curves = zip(MEASURES, influence(folder, lines), strict=True)
    return {
        f"{measure} {d}": value
        for measure, values in curves
        for d, value in enumerate(values, 1)
    }


def _parts(sweep: Sweep) -> tuple[Part, ...]:
    """Judge by erasure the middle and the beginning of a sentence against its end."""

    def least(arm: str, choose: Any) -> Dots:
        values = []
        for scores in (run.scores for run in sweep.chosen(arm) if run.scores):
            near, *others = (
                sum(scores[f"erasure {d}"] for d in part) / len(part)
                for part in (NEAR, MIDDLE, FAR)
            )
            values.append(choose(others) / max(near, 1e-9))
        return Dots(TEXTS["share"].fill(name=NAMES[arm]), tuple(values) or (0.0,))

    return (
        beyond(least("rnn", max), FADED, TEXTS["parts.rnn"], is_above=False),
        beyond(least("lstm", max), FADED, TEXTS["parts.lstm"], is_above=False),
        beyond(least("transformer", min), EVEN, TEXTS["parts.attention"]),
    )


def influence(folder: Path, lines: list[str]) -> tuple[list[float], list[float]]:
    """Return the influence of 40 tokens by distance from the end, by gradient and by erasure; the
    largest is 1.
    """
    vocabulary, model = load_run(folder)
    encoded = [ids for ids in vocabulary.encode_all(lines) if len(ids) > TOKENS]
    gradients = []
    changes = []
    for ids in encoded[:SENTENCES]:
        batch = Batch(torch.tensor([[*ids[:TOKENS], ids[-1]]]))
        gradients.append(_gradients(model, batch))
        changes.append(_changes(model, batch))
    means = [torch.stack(rows).mean(0) for rows in (gradients, changes)]
    by_gradient, by_erasure = ((mean / mean.max()).tolist() for mean in means)
    return by_gradient, by_erasure


def _handed_over(model: Model, batch: Batch, edit: Any) -> Tensor:
    """Encode with the embeddings edited; return the last states, or the last output of a
    Transformer.
    """
    embedding: Any = model.encoder.embedding
    handle = embedding.register_forward_hook(lambda _, __, output: edit(output))
    try:
        encoded = model.encoder(batch)
    finally:
        handle.remove()
    state: Tensor = encoded.summary.flatten()
    if isinstance(model.encoder, TransformerEncoder):
        state = encoded.outputs[0, -1]
    return state


def _gradients(model: Model, batch: Batch) -> Tensor:
    """Norm of the gradient of random sums of the numbers that are handed over, by distance from the
    end.
    """
    kept: list[Tensor] = []

    def keep(output: Tensor) -> Tensor:
        kept.append(output.detach().requires_grad_())
        return kept[-1]

    state = _handed_over(model, batch, keep)
    generator = torch.Generator().manual_seed(1)
    norms = []
    for _ in range(DRAWS):
        direction = torch.randn(state.shape, generator=generator)
        (gradient,) = torch.autograd.grad(state, kept[0], direction, retain_graph=True)
        norms.append(gradient[0].norm(dim=-1))
    # Without the end of the sentence, whose own output it is.
    return torch.stack(norms).mean(0)[:-1].flip(0)


@torch.no_grad()
def _changes(model: Model, batch: Batch) -> Tensor:
    """Change of the decoder's input when the embedding of a token is zeroed, by distance from the
    end.
    """
    whole = _handed_over(model, batch, lambda output: output)
    length = batch.data.shape[1]
    changes = []
    for distance in range(1, TOKENS + 1):
        mask = torch.ones(1, length, 1)
        mask[0, length - 1 - distance] = 0
        changes.append(
            (
                _handed_over(model, batch, lambda output, m=mask: output * m) - whole
            ).norm()
        )
    return torch.stack(changes)
