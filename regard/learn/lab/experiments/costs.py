"""Costs: table 1 of "Attention is all you need", counted and measured on the layers that models are made of."""

from __future__ import annotations

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.costs import Cost, Sizes, measure
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Curve, Findings, Graph, Outcome, Plot, Table, Verdict

SMALL, LARGE = Sizes(128, 128), Sizes(256, 128)
NAMES = {
    "self-attention": Text("self-attention, 8 heads", "셀프 어텐션, 헤드 8개"),
    "self-attention, weights kept": Text("the same, weights kept", "같은 것, 가중치 저장"),
    "self-attention, one head": Text("self-attention, 1 head", "셀프 어텐션, 헤드 1개"),
    "self-attention, additive": Text("self-attention, additive", "셀프 어텐션, additive"),
    "recurrent": Text("recurrent", "순환(GRU)"),
    "convolutional": Text("convolutional", "합성곱"),
    "restricted self-attention": Text("restricted self-attention", "제한된 셀프 어텐션"),
}
DRAWN = ("self-attention", "self-attention, weights kept", "self-attention, additive", "recurrent", "convolutional")


def run(bench: Bench) -> Findings:
    """Count and measure one layer of each kind, from a quarter of the length to four times."""
    sizes: Sizes = bench.choose(SMALL, LARGE)
    costs = {cost.name: cost for cost in measure(sizes, min_seconds=bench.choose(0.03, 0.2), progress=bench.say)}
    attention, recurrent = costs["self-attention"], costs["recurrent"]
    kept = costs["self-attention, weights kept"]
    quick, memory = recurrent.seconds / attention.seconds, kept.memory / recurrent.memory
    outcome: Outcome = "holds" if quick > 1 and memory > 1 else "partly" if quick > 1 or memory > 1 else "contradicted"
    additive, one = costs["self-attention, additive"], costs["self-attention, one head"]
    text = Text(
        f"A layer over {sizes.n} positions of {sizes.d} numbers: attention is {quick:.1f} times as quick as a GRU, "
        "and keeps "
        f"{memory:.1f} times its memory for the backward pass if the weights are kept (a fused kernel: "
        f"{attention.memory / recurrent.memory:.1f}). The GRU takes {recurrent.sequential} products in sequence, "
        "attention "
        f"{attention.sequential}. Additive scores take {additive.seconds / attention.seconds:.0f} times as long as dot "
        f"products, 8 heads {attention.seconds / one.seconds:.1f} times as long as one.",
        f"숫자 {sizes.d}개짜리 위치 {sizes.n}개를 읽는 층: 어텐션은 GRU보다 {quick:.1f}배 빠르고, 가중치를 저장하면 "
        "역전파를 위한 "
        f"메모리가 {memory:.1f}배입니다(융합 커널은 {attention.memory / recurrent.memory:.1f}배). 순서대로 해야 하는 "
        "행렬곱은 GRU가 "
        f"{recurrent.sequential}번, 어텐션이 {attention.sequential}번입니다. additive 점수는 내적보다 "
        f"{additive.seconds / attention.seconds:.0f}배, 헤드 8개는 1개보다 {attention.seconds / one.seconds:.1f}배 "
        "걸립니다.",
    )
    plots = tuple(
        Plot(title, Text(f"positions n, d = {sizes.d}", f"위치 수 n, d = {sizes.d}"), _curves(costs, quantity, factor))
        for title, quantity, factor in (
            (Text("milliseconds", "밀리초"), "time n", 1e3),
            (Text("MiB kept for backward", "역전파를 위해 저장하는 MiB"), "memory n", 2.0**-20),
        )
    )
    caption = Text(
        "Time of a forward pass, and memory that it keeps, by length. On these axes a power law is a straight line.",
        "길이에 따른 순전파 시간과 저장하는 메모리. 이 축에서 거듭제곱 법칙은 직선이 됩니다.",
    )
    return Findings(
        Verdict(outcome, text), (_counted(costs), _measured(costs)), Graph(plots, caption, "log", columns=2)
    )


def _curves(costs: dict[str, Cost], quantity: str, factor: float) -> tuple[Curve, ...]:
    return tuple(
        Curve(NAMES[name], tuple((n, max(y * factor, 1e-6)) for n, y in costs[name].curves[quantity])) for name in DRAWN
    )


def _counted(costs: dict[str, Cost]) -> Table:
    return Table(
        Text("Counted: operations, products in sequence, longest path", "센 것: 연산량, 순차 행렬곱, 최대 경로"),
        (
            Text("layer", "층"),
            Text("operations", "연산량"),
            Text("counted", "센 값"),
            Text("exponent of n", "n의 지수"),
            Text("exponent of d", "d의 지수"),
            Text("in sequence", "순차 행렬곱"),
            Text("longest path", "최대 경로"),
        ),
        tuple(
            (
                NAMES[name],
                f"O({cost.formulas['operations']})",
                f"{cost.factor:.2f} {cost.formulas['operations']}",
                f"{cost.growth['operations n']:.2f}",
                f"{cost.growth['operations d']:.2f}",
                f"O({cost.formulas['sequential']}): {cost.sequential}",
                f"O({cost.formulas['path']}): {cost.path}",
            )
            for name, cost in costs.items()
        ),
    )


def _measured(costs: dict[str, Cost]) -> Table:
    return Table(
        Text("Measured on this machine, one thread", "이 컴퓨터에서 잰 것(스레드 하나)"),
        (
            Text("layer", "층"),
            Text("milliseconds", "밀리초"),
            Text("exponent of n", "n의 지수"),
            Text("exponent of d", "d의 지수"),
            "MiB",
            Text("exponent of n", "n의 지수"),
            Text("exponent of d", "d의 지수"),
        ),
        tuple(
            (
                NAMES[name],
                f"{1000 * cost.seconds:.2f}",
                *(f"{cost.growth[f'time {axis}']:.2f}" for axis in "nd"),
                f"{cost.memory / 2**20:.2f}",
                *(f"{cost.growth[f'memory {axis}']:.2f}" for axis in "nd"),
            )
            for name, cost in costs.items()
        ),
    )


EXPERIMENT = Experiment(
    "costs",
    Text("What each kind of layer costs", "층의 종류마다 드는 비용"),
    Text(
        "Self-attention takes more memory than a recurrent layer, and is quicker, since nothing waits for the step "
        "before.",
        "셀프 어텐션은 RNN보다 많은 메모리를 쓰지만, 앞 단계를 기다릴 필요가 없어 계산은 더 빠르다.",
    ),
    "002, 003",
    Text(
        "Operations and chains are counted by running the layers; time and memory are measured on one thread.",
        "층을 실제로 돌려 연산과 순서를 세고, 스레드 하나로 시간과 메모리를 잽니다.",
    ),
    run,
)
