"""Reach: influence of each source token on the encoder's summary, by distance from the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from regard.common.shapes import Tensor
from regard.data.text import read_lines
from regard.learn.lab.bench import RECURRENT, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Findings, Graph, Part, Plot, Verdict
from regard.learn.lab.models import load_run, recurrent, transformer
from regard.learn.lab.sweep import Columns, Dots, Sweep
from regard.learn.lab.verdicts import beyond
from regard.models import Batch, Model
from regard.models.transformer import TransformerEncoder

TEXTS = experiment_texts(
    "reach", "caption", "names", "measures", "table", "share", "distance", "parts"
)
NAMES = TEXTS.table("names")
MEASURES = TEXTS.table("measures")
TOKENS = 40
"""Tokens to which each sentence is cut, so that a distance is the same place in all sentences."""
SENTENCES = 40
DRAWS = 8
"""Random directions over which the gradient norm is averaged."""
SHOWN = (1, 5, 10, 20, 30, 40)
NEAR = range(1, 4)
MIDDLE = range(19, 23)
FAR = range(34, 38)
"""Distances from the end that are compared.

FAR stops at 37, because a backward RNN ends at the first tokens.
"""
FADED = 0.2
"""Influence, relative to that of the last tokens, below which a token counts as lost."""
EVEN = 0.5
"""Relative influence above which all tokens count as equally reached."""


def run(bench: Bench) -> Findings:
    """Train four encoders; measure the influence of each token by gradient and by erasure."""
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

    tables = []
    plots = []
    for measure, words in MEASURES.items():
        columns: Columns = {
            str(distance): f"{measure} {distance}" for distance in SHOWN
        }
        places = {f"{measure} {d}": float(d) for d in range(1, TOKENS + 1)}
        tables.append(sweep.table(TEXTS["table"].fill(measure=words), columns, "2"))
        plots.append(Plot(words, TEXTS["distance"], sweep.lines(places)))
    graph = Graph(tuple(plots), TEXTS["caption"], columns=2)
    return Findings(Verdict(_parts(sweep)), tuple(tables), graph)


def _scores(folder: Path, lines: list[str]) -> Mapping[str, float]:
    """Return the influence at each distance by keys such as "erasure 12"."""
    curves = zip(MEASURES, influence(folder, lines), strict=True)
    return {
        f"{measure} {distance}": value
        for measure, values in curves
        for distance, value in enumerate(values, 1)
    }


def _parts(sweep: Sweep) -> tuple[Part, ...]:
    """Judge the influence, by erasure, of the middle and the beginning relative to the end."""

    def relative(arm: str, choose: Callable[[Sequence[float]], float]) -> Dots:
        values = []
        for run in sweep.chosen(arm):
            if run.scores:
                near, middle, far = (
                    _mean_erasure(run.scores, distances)
                    for distances in (NEAR, MIDDLE, FAR)
                )
                values.append(choose((middle, far)) / max(near, 1e-9))
        return Dots(TEXTS["share"].fill(name=NAMES[arm]), tuple(values) or (0.0,))

    return (
        beyond(relative("rnn", max), FADED, TEXTS["parts.rnn"], is_above=False),
        beyond(relative("lstm", max), FADED, TEXTS["parts.lstm"], is_above=False),
        beyond(relative("transformer", min), EVEN, TEXTS["parts.attention"]),
    )


def _mean_erasure(scores: Mapping[str, float], distances: Sequence[int]) -> float:
    influences = [scores[f"erasure {distance}"] for distance in distances]
    return sum(influences) / len(influences)


def influence(folder: Path, lines: list[str]) -> tuple[list[float], list[float]]:
    """Return the influence of 40 tokens by gradient and by erasure, from the last token to the
    first.

    Each is divided by its largest value.
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


def _summary(model: Model, batch: Batch, edit: Callable[[Tensor], Tensor]) -> Tensor:
    """Encode with edited embeddings; return the last states, or a Transformer's last output."""
    handle = model.encoder.embedding.register_forward_hook(
        lambda _, __, output: edit(output)
    )
    try:
        encoded = model.encoder(batch)
    finally:
        handle.remove()
    state: Tensor = encoded.summary.flatten()
    if isinstance(model.encoder, TransformerEncoder):
        state = encoded.outputs[0, -1]
    return state


def _gradients(model: Model, batch: Batch) -> Tensor:
    """Return the mean gradient norm of random projections of the summary, by distance from the
    end.
    """
    inputs: list[Tensor] = []

    def record_input(output: Tensor) -> Tensor:
        inputs.append(output.detach().requires_grad_())
        return inputs[-1]

    state = _summary(model, batch, record_input)
    generator = torch.Generator().manual_seed(1)
    norms = []
    for _ in range(DRAWS):
        direction = torch.randn(state.shape, generator=generator)
        (gradient,) = torch.autograd.grad(
            state, inputs[0], direction, retain_graph=True
        )
        norms.append(gradient[0].norm(dim=-1))
    # Leave out the end token, since the summary of a Transformer is that token's own output.
    return torch.stack(norms).mean(0)[:-1].flip(0)


@torch.no_grad()
def _changes(model: Model, batch: Batch) -> Tensor:
    """Return the change of the summary if a token's embedding is zeroed, by distance from the
    end.
    """
    unchanged = _summary(model, batch, lambda output: output)
    length = batch.data.shape[1]
    changes = []
    for distance in range(1, TOKENS + 1):
        mask = torch.ones(1, length, 1)
        mask[0, length - 1 - distance] = 0
        state = _summary(model, batch, mask.mul)
        changes.append((state - unchanged).norm())
    return torch.stack(changes)
