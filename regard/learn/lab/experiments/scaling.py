"""Scaling: variance of q·k by the size of the keys, what it does to softmax, and training with and without √d."""

from __future__ import annotations

import math

import torch

from regard.attention.scores import build_score
from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Curve, Findings, Graph, Outcome, Plot, Table, Verdict, listed
from regard.learn.lab.measures import Contrast, contrast, score_or_failed
from regard.learn.lab.models import transformer

SIZES = (2, 8, 32, 100, 512)
PAIRS, KEYS = 20_000, 10
ROWS = ((1.1, -0.8, -1.7), (9.0, -11.0, 7.0))
"""The scores that note 003 gives as examples of a small and of a large variance."""
HEADS = {8: 8, 1: 64}
"""Heads of a model of 64, and the size of a key of each."""
NAMES = {"dot": Text("q·k", "q·k"), "scaled_dot": Text("q·k / √d", "q·k / √d")}


def run(bench: Bench) -> Findings:
    """Measure random scores, then train with and without the scale, with small and with large keys."""
    probes = {name: [probe(name, size) for size in SIZES] for name in NAMES}
    models = {f"{name}-{key}": transformer(score=name, heads=heads) for name in NAMES for heads, key in HEADS.items()}
    trained = bench.train(models, bench.choose(800, 1200), may_fail=True)
    comparison = bench.compare(trained)
    differences = {
        key: contrast(comparison, f"dot-{key}", f"scaled_dot-{key}")
        for key in HEADS.values()
        if {f"dot-{key}", f"scaled_dot-{key}"} <= set(trained.runs)
    }
    training = Table(
        Text("Translation (chrF) after training with each score", "각 점수로 학습한 뒤의 번역(chrF)"),
        (Text("size of a key", "키의 크기"), *NAMES.values(), Text("difference", "차이")),
        tuple(
            (
                str(key),
                *(score_or_failed(comparison, f"{name}-{key}") for name in NAMES),
                str(differences.get(key, "")),
            )
            for key in HEADS.values()
        ),
    )
    tables = (_random_table(probes), _softmax_table(), training)
    return Findings(_verdict(probes, differences, bool(trained.failed)), tables, _graph(probes), REMARKS)


REMARKS = (
    Text(
        "Note 003 says that the scores (1.1, −0.8, −1.7) give even weights: their softmax is .83, .12, .05. Dividing "
        "by "
        "√100 gives a variance of 1, not 10: 10 is the standard deviation that it removes.",
        "노트 003은 점수 (1.1, −0.8, −1.7)의 가중치가 고르다고 하지만 소프트맥스는 .83, .12, .05입니다. √100으로 "
        "나누면 "
        "분산은 10이 아니라 1이 됩니다. 10은 나누기 전의 표준편차입니다.",
    ),
)


def probe(name: str, size: int) -> tuple[float, float]:
    """Return the variance of scores of standard normal queries and keys, and the mean gradient norm of their softmax.

    The norm is that of the softmax's Jacobian over ten keys, whose entries are wᵢ (δᵢⱼ − wⱼ).
    """
    generator = torch.Generator().manual_seed(size)
    query = torch.randn(PAIRS, 1, 1, size, generator=generator)
    keys = torch.randn(PAIRS, 1, KEYS, size, generator=generator)
    score = build_score(name, 1, size)
    scores = score(query, score.prepare(keys)).flatten(1)  # (pairs, keys)
    weights = scores.softmax(-1)
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return float(scores.var()), float(jacobian.flatten(1).norm(dim=1).mean())


def _random_table(probes: dict[str, list[tuple[float, float]]]) -> Table:
    plain, scaled = probes["dot"], probes["scaled_dot"]
    return Table(
        Text(
            "Random queries and keys: variance of the score, and gradient of softmax",
            "무작위 쿼리와 키: 점수의 분산과 소프트맥스의 기울기",
        ),
        ("d", Text("variance of q·k", "q·k의 분산"), "q·k / √d", Text("gradient, q·k", "기울기, q·k"), "q·k / √d"),
        tuple(
            (str(size), f"{a[0]:.2f}", f"{b[0]:.2f}", f"{a[1]:.3f}", f"{b[1]:.3f}")
            for size, a, b in zip(SIZES, plain, scaled, strict=True)
        ),
    )


def _softmax_table() -> Table:
    rows = []
    for row in ROWS:
        weights = torch.tensor(row).softmax(0).tolist()
        rows.append((", ".join(f"{x:g}" for x in row).replace("-", "−"), ", ".join(f"{w:.3f}" for w in weights)))
    return Table(
        Text("Softmax of the note's two rows of scores", "노트에 나온 두 점수열의 소프트맥스"),
        (Text("scores", "점수"), Text("weights", "가중치")),
        tuple(rows),
    )


def _graph(probes: dict[str, list[tuple[float, float]]]) -> Graph:
    plots = []
    titles = (Text("variance of the score", "점수의 분산"), Text("gradient of softmax", "소프트맥스의 기울기"))
    for number, title in enumerate(titles):
        curves = tuple(
            Curve(NAMES[name], tuple((float(d), values[number]) for d, values in zip(SIZES, probes[name], strict=True)))
            for name in NAMES
        )
        plots.append(Plot(title, Text("size d of a key", "키의 크기 d"), curves))
    caption = Text(
        "Random queries and keys: the variance of q·k grows with d, and the gradient through softmax vanishes; divided "
        "by √d neither depends on d.",
        "무작위 쿼리와 키: q·k의 분산은 d에 비례해 커지고 소프트맥스를 지나는 기울기는 사라집니다. √d로 나누면 둘 다 "
        "d와 무관합니다.",
    )
    return Graph(tuple(plots), caption, "log", columns=2)


def _verdict(probes: dict[str, list[tuple[float, float]]], differences: dict[int, Contrast], failed: bool) -> Verdict:
    small, large = probes["dot"][0], probes["dot"][SIZES.index(100)]
    scaled = probes["scaled_dot"][SIZES.index(100)]
    grows = math.isclose(large[0], 100, rel_tol=0.05) and large[1] < scaled[1] / 2
    largest = max(HEADS.values())
    helps = failed or differences[largest].is_better
    outcome: Outcome = "holds" if grows and helps else "partly" if grows else "contradicted"
    changes = listed([f"{change} with keys of {size} numbers" for size, change in differences.items()], "en")
    changes_ko = listed([f"크기 {size}에서 {change}" for size, change in differences.items()], "ko")
    return Verdict(
        outcome,
        Text(
            f"The variance of q·k is {small[0]:.1f} at d = 2 and {large[0]:.0f} at d = 100; divided by √d it is "
            f"{scaled[0]:.2f}, and {scaled[1] / large[1]:.1f} times as much gradient passes softmax at d = 100. In "
            "training, " + (f"dividing by √d changes chrF by {changes}." if changes else "q·k alone did not learn."),
            f"q·k의 분산은 d = 2에서 {small[0]:.1f}, d = 100에서 {large[0]:.0f}입니다. √d로 나누면 "
            f"{scaled[0]:.2f}이고, d = 100에서 "
            f"소프트맥스를 지나는 기울기가 {scaled[1] / large[1]:.1f}배가 됩니다. "
            + (
                f"학습에서 √d로 나누면 chrF가 키의 {changes_ko}만큼 달라집니다."
                if changes
                else "q·k만으로는 학습되지 않았습니다."
            ),
        ),
    )


EXPERIMENT = Experiment(
    "scaling",
    Text("Why attention scores are divided by √d", "어텐션 점수를 √d로 나누는 이유"),
    Text(
        "The variance of q·k grows with the size of the keys and makes softmax extreme; dividing by √d prevents it.",
        "q·k의 분산은 키의 크기에 따라 커져 소프트맥스를 극단으로 몰고, √d로 나누면 이를 막는다.",
    ),
    "002, 003",
    Text(
        "Scores of random queries and keys are measured; then Transformers are trained with and without √d, with "
        "small and with large keys.",
        "무작위 쿼리와 키의 점수를 잰 다음, 작은 키와 큰 키로 √d가 있을 때와 없을 때 Transformer를 학습합니다.",
    ),
    run,
)
