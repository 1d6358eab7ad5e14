"""Reach: how much each earlier word still matters to what an encoder hands over, by distance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from regard.common.bilingual import Text, join_texts
from regard.common.shapes import Tensor
from regard.data.text import read_lines
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Curve, Findings, Graph, Plot, Table, Verdict, judge
from regard.learn.lab.models import load_run, recurrent, transformer
from regard.models import Batch, Model
from regard.models.transformer import TransformerEncoder

TEXTS = experiment_texts("reach", "names", "measures", "table", "share", "distance")
NAMES = TEXTS.table("names")
TOKENS, SENTENCES, DRAWS = 40, 40, 8
"""Tokens of each sentence, which is cut to that length before its end, since then every distance is one place."""
SHOWN = (1, 5, 10, 20, 30, 40)
NEAR, MIDDLE, FAR = slice(0, 3), slice(18, 22), slice(33, 37)
"""Distances 1 to 3, 19 to 22 and 34 to 37 from the end: the first tokens are the end of the way back."""
SLOWER = {"schedule": {"peak": 2e-3}}
"""For the simple network, whose states saturate at the rate of the others; the first word then decides them all."""
Curves = Mapping[str, tuple[list[float], list[float]]]


def run(bench: Bench) -> Findings:
    """Train four encoders, and measure gradient and erasure of each token by its distance from the end."""
    one_way = {"bidirectional": False, "size": 128}
    models = {
        "rnn": {**recurrent("no_attention", {**one_way, "cell": "tanh"}), **SLOWER},
        "lstm": recurrent("no_attention", {**one_way, "cell": "lstm"}),
        "two": recurrent("no_attention"),
        "transformer": transformer(),
    }
    trained = bench.train(models, bench.choose(1000, 1800))
    lines = read_lines(str(bench.texts() / "length.ko"))
    curves = {name: _mean([influence(folder, lines) for folder in trained.runs[name]]) for name in NAMES}
    measures = tuple(TEXTS.table("measures").values())
    tables = tuple(_table(curves, number, measure) for number, measure in enumerate(measures))
    plots = tuple(
        Plot(
            measure,
            TEXTS["distance"],
            tuple(
                Curve(words, tuple((float(d), max(y, 1e-6)) for d, y in enumerate(curves[name][number], 1)))
                for name, words in NAMES.items()
            ),
        )
        for number, measure in enumerate(measures)
    )
    return Findings(_verdict(curves), tables, Graph(plots, TEXTS["caption"], columns=2))


def _table(curves: Curves, number: int, measure: Text) -> Table:
    """Return the influence of tokens at some distances, measured in one of two ways."""
    return Table(
        TEXTS["table"].fill(measure=measure),
        (LABELS["model"], *map(str, SHOWN)),
        tuple((words, *(f"{curves[name][number][d - 1]:.3f}" for d in SHOWN)) for name, words in NAMES.items()),
    )


def influence(folder: Path, lines: list[str]) -> tuple[list[float], list[float]]:
    """Return the influence of 40 tokens by distance from the end, by gradient and by erasure; the largest is 1."""
    vocabulary, model = load_run(folder)
    encoded = [ids for ids in vocabulary.encode_all(lines) if len(ids) > TOKENS]
    gradients, changes = [], []
    for ids in encoded[:SENTENCES]:
        batch = Batch(torch.tensor([[*ids[:TOKENS], ids[-1]]]))
        gradients.append(_gradients(model, batch))
        changes.append(_changes(model, batch))
    means = [torch.stack(rows).mean(0) for rows in (gradients, changes)]
    by_gradient, by_erasure = ((mean / mean.max()).tolist() for mean in means)
    return by_gradient, by_erasure


def _handed_over(model: Model, batch: Batch, edit: Any) -> Tensor:
    """Encode with the embeddings edited; return the last states, or the last output of a Transformer."""
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
    """Norm of the gradient of random sums of the numbers that are handed over, by distance from the end."""
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
    return torch.stack(norms).mean(0)[:-1].flip(0)  # without the end of the sentence, whose own output it is


@torch.no_grad()
def _changes(model: Model, batch: Batch) -> Tensor:
    """Change of the decoder's input when the embedding of a token is zeroed, by distance from the end."""
    whole, length = _handed_over(model, batch, lambda output: output), batch.data.shape[1]
    changes = []
    for distance in range(1, TOKENS + 1):
        mask = torch.ones(1, length, 1)
        mask[0, length - 1 - distance] = 0
        changes.append((_handed_over(model, batch, lambda output, m=mask: output * m) - whole).norm())
    return torch.stack(changes)


def _mean(runs: list[tuple[list[float], list[float]]]) -> tuple[list[float], list[float]]:
    both = [[sum(ys) / len(ys) for ys in zip(*(run[kind] for run in runs), strict=True)] for kind in (0, 1)]
    return both[0], both[1]


def _verdict(curves: Curves) -> Verdict:
    def mean(name: str, part: slice) -> float:
        values = curves[name][1][part]
        return sum(values) / len(values)

    near, middle, far = ({name: mean(name, part) for name in NAMES} for part in (NEAR, MIDDLE, FAR))
    fades = all(middle[name] < 0.2 * near[name] and far[name] < 0.2 * near[name] for name in ("rnn", "lstm"))
    is_even = min(middle["transformer"], far["transformer"]) > 0.5 * near["transformer"]
    shares = [
        TEXTS["share"].fill(name=words, share=f"{near[name]:.2f}, {middle[name]:.2f}, {far[name]:.2f}")
        for name, words in NAMES.items()
    ]
    return Verdict(judge(fades and is_even, fades or is_even), TEXTS["verdict"].fill(shares=join_texts(shares, "; ")))
