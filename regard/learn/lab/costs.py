"""Cost of each kind of layer: table 1 of Vaswani et al. 2017, counted by running the layers.

As in the paper, attention is counted from its queries, keys and values to its weighted values; its
projections are counted separately. Operations are multiply-adds.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from regard.attention import Attention
from regard.attention.scores import Additive, ScaledDot, Score
from regard.common.processes import torch_threads
from regard.common.shapes import Float, Tensor
from regard.layers.cells import GRU
from regard.layers.convolution import GatedConvolution
from regard.layers.rnn import run_rnn
from regard.models.operations import FUSED_ATTENTION, count_multiply_adds

HEADS = 8
"""Number of heads of the base Transformer."""
MULTIPLES = (0.25, 0.5, 1, 2, 4)
"""Multiples of n and of d at which time and memory are measured."""
PATH_SIZE = 8
"""Vector size for counting path lengths."""
Run = Callable[[], Tensor]


@dataclass(frozen=True)
class Sizes:
    """Sizes of one layer, with the letters of the paper."""

    n: int  # positions
    d: int  # size of a vector
    k: int = 3  # kernel size
    # Neighbours that restricted self-attention sees, with the position itself.
    r: int = 17

    def at(self, n: int | float | None = None, d: int | float | None = None) -> Sizes:
        """Return these sizes with another length or vector size."""
        length = max(2, round(n or self.n))
        size = max(HEADS, round((d or self.d) / HEADS) * HEADS)
        return Sizes(length, size, self.k, self.r)


class MeasuredLayer(nn.Module):
    """A layer of a model, whose part that connects positions can be run alone."""

    def between(self, x: Float[Tensor, "B S D"]) -> tuple[list[Tensor], Run]:
        """Return the inputs of the part that connects positions, and a function that runs it.

        By default, this part is the whole layer.
        """
        return [x], lambda: self(x)


class SelfAttention(MeasuredLayer):
    """Self-attention to all positions, or, if `restricted`, to r neighbours."""

    def __init__(
        self,
        sizes: Sizes,
        restricted: bool = False,
        heads: int = HEADS,
        score: type[Score] = ScaledDot,
    ) -> None:
        super().__init__()
        self.attention = Attention("encoder", sizes.d, sizes.d, sizes.d, heads)
        self.attention.score = score(heads, sizes.d // heads)
        self.window = (sizes.r - 1) // 2 if restricted else None

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return self.attention(x, self.attention.prepare(x, x), window=self.window)  # type: ignore[no-any-return]

    def between(self, x: Float[Tensor, "B S D"]) -> tuple[list[Tensor], Run]:
        with torch.no_grad():
            query = self.attention.query(x)
            memory = self.attention.prepare(x, x)

        def run() -> Tensor:
            return self.attention.attend(query, memory, window=self.window)

        return [query, memory.keys, memory.values], run


class _UnfusedScaledDot(ScaledDot):
    """Scaled dot product without `as_dot`, which prevents fused kernels.

    So the attention weights are kept for the backward pass, as in the paper.
    """

    def as_dot(self, query: Tensor) -> None:  # type: ignore[override]  # noqa: ARG002
        return None

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return torch.matmul(query / math.sqrt(self.size), prepared.transpose(-1, -2))


class Recurrent(MeasuredLayer):
    """Unidirectional GRU.

    Its update gates are biased towards keeping the state, because distant gradients would vanish
    otherwise.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.network = nn.GRU(sizes.d, sizes.d, batch_first=True)
        with torch.no_grad():
            self.network.get_parameter("bias_hh_l0")[sizes.d : 2 * sizes.d] = 4

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return run_rnn(self.network, GRU, x, None)[0]


class Convolution(MeasuredLayer):
    """Gated convolution centred on each position, with its weight norm folded beforehand."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gated = GatedConvolution(sizes.d, sizes.k, dropout=0.0)
        linear = nn.Linear(sizes.k * sizes.d, 2 * sizes.d)
        linear.weight = nn.Parameter(self.gated.linear.weight.detach())
        self.gated.linear = linear  # type: ignore[assignment]
        self.padding = (0, 0, (sizes.k - 1) // 2, sizes.k // 2)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return self.gated(F.pad(x, self.padding))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Kind:
    """A kind of layer and its formulas in n, d, k and r."""

    name: str
    layer: Callable[[Sizes], MeasuredLayer]
    operations: str
    memory: str
    sequential: str
    path: str


KINDS: tuple[Kind, ...] = (
    Kind("self-attention", SelfAttention, "n²d", "nd", "1", "1"),
    Kind(
        "self-attention, weights kept",
        partial(SelfAttention, score=_UnfusedScaledDot),
        "n²d",
        "n²",
        "1",
        "1",
    ),
    Kind(
        "self-attention, one head",
        partial(SelfAttention, heads=1),
        "n²d",
        "nd",
        "1",
        "1",
    ),
    Kind(
        "self-attention, additive",
        partial(SelfAttention, score=Additive),
        "n²d",
        "n²d",
        "1",
        "1",
    ),
    Kind("recurrent", Recurrent, "nd²", "nd", "n", "n"),
    Kind("convolutional", Convolution, "knd²", "knd", "1", "n/k"),
    Kind(
        "restricted self-attention",
        partial(SelfAttention, restricted=True),
        "rnd",
        "nd",
        "1",
        "n/r",
    ),
)


@dataclass(frozen=True)
class Cost:
    """Cost of one layer, counted and measured."""

    name: str
    formulas: dict[str, str]
    operations: int  # multiply-adds of the part that connects positions
    projections: int  # multiply-adds of the other parts
    factor: float  # counted operations divided by the value of the formula
    sequential: int  # longest chain of matrix products
    # Number of stacked layers until the last output depends on the first input.
    layers: int
    path: int  # layers times sequential
    seconds: float
    memory: int  # bytes kept from forward to backward
    growth: dict[str, float]  # "time n": the exponent of n that fits the measured times
    expected: dict[str, float]  # the same exponents by the formulas
    # "time n": pairs (n, seconds)
    curves: dict[str, list[tuple[float, float]]] = field(repr=False)


def measure(
    sizes: Sizes,
    kinds: Sequence[Kind] = KINDS,
    min_seconds: float = 0.05,
    threads: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Cost]:
    """Measure every kind of layer at these sizes, with `min_seconds` for each timing."""
    costs = []
    with torch_threads(threads), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for kind in kinds:
            progress(kind.name)
            costs.append(_cost(kind, sizes, min_seconds))
    return costs


def growth(points: Iterable[tuple[float, float]]) -> float:
    """Fit the exponent e of y ∝ xᵉ: the slope of the regression line through the logarithms."""
    logs = [(math.log(x), math.log(max(y, 1e-12))) for x, y in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in logs)
    variance = sum((x - mean_x) ** 2 for x, _ in logs)
    return covariance / variance


def _cost(kind: Kind, sizes: Sizes, min_seconds: float) -> Cost:
    def curve(
        axis: str, multiples: Sequence[float], value: Callable[[Sizes], float]
    ) -> list[tuple[float, float]]:
        points = []
        for multiple in multiples:
            scaled = sizes.at(**{axis: getattr(sizes, axis) * multiple})
            points.append((float(getattr(scaled, axis)), float(value(scaled))))
        return points

    curves = dict[str, list[tuple[float, float]]]()
    few = MULTIPLES[:3]
    for axis in ("n", "d"):
        curves[f"operations {axis}"] = curve(
            axis, few, lambda other: _operations(kind, other)[0]
        )
        curves[f"time {axis}"] = curve(
            axis, MULTIPLES, lambda other: seconds(kind, other, min_seconds)
        )
        curves[f"memory {axis}"] = curve(
            axis, MULTIPLES, lambda other: _saved_bytes(kind, other)
        )
    curves["sequential n"] = curve("n", few, lambda other: _chain(kind, other))
    curves["layers n"] = curve("n", few, lambda other: _layers(kind, other))
    steps, layers = (curves[f"{quantity} n"] for quantity in ("sequential", "layers"))
    curves["path n"] = [
        (n, depth * chain) for (n, chain), (_, depth) in zip(steps, layers, strict=True)
    ]

    between, total = _operations(kind, sizes)
    middle = MULTIPLES.index(1)
    formulas = {
        name: getattr(kind, name)
        for name in ("operations", "memory", "sequential", "path")
    }
    formulas["time"] = kind.operations
    return Cost(
        name=kind.name,
        formulas=formulas,
        operations=between,
        projections=total - between,
        factor=between / _value(kind.operations, sizes),
        sequential=round(steps[middle][1]),
        layers=round(layers[middle][1]),
        path=round(curves["path n"][middle][1]),
        seconds=curves["time n"][middle][1],
        memory=round(curves["memory n"][middle][1]),
        growth={name: growth(points) for name, points in curves.items()},
        expected={
            name: _exponent(formulas.get(name[:-2], "1"), name[-1])
            for name in curves
            if name != "layers n"
        },
        curves=curves,
    )


def _value(formula: str, sizes: Sizes) -> float:
    """Evaluate a formula such as n²d or n/k."""
    numerator, denominator = (
        math.prod(getattr(sizes, letter) for letter in part)
        for part in _letters(formula)
    )
    return float(numerator / denominator)


def _exponent(formula: str, letter: str) -> float:
    numerator, denominator = _letters(formula)
    return float(numerator.count(letter) - denominator.count(letter))


def _letters(formula: str) -> tuple[str, str]:
    """Write numerator and denominator without powers: nnd for n²d."""
    letters = formula.replace("n²", "nn").replace("d²", "dd").replace("1", "")
    numerator, _, denominator = letters.partition("/")
    return numerator, denominator


# --- counting, by running


def _operations(kind: Kind, sizes: Sizes) -> tuple[int, int]:
    """Count the multiply-adds of the part that connects positions, and of the whole layer."""
    layer, x = _create(kind, sizes)
    _, run_between = layer.between(x)
    return count_multiply_adds(run_between), count_multiply_adds(lambda: layer(x))


class _Chain(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Find the longest chain of matrix products that each need the result of the one before."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.longest = 0
        self._depth: dict[int, int] = {}  # by storage: products in the chain up to it
        # All tensors are kept, so that no storage is reused.
        self._alive: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        depth = max(
            (self._depth.get(_storage(t), 0) for t in _tensors((args, kwargs))),
            default=0,
        )
        depth += packet in flop_registry or packet is FUSED_ATTENTION
        for tensor in _tensors(result):
            self._depth[_storage(tensor)] = max(
                depth, self._depth.get(_storage(tensor), 0)
            )
            self._alive.append(tensor)
        self.longest = max(self.longest, depth)
        return result


def _tensors(tree: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _chain(kind: Kind, sizes: Sizes) -> int:
    """Count the matrix products that must run in sequence."""
    layer, x = _create(kind, sizes.at(d=PATH_SIZE))
    chain = _Chain()
    with torch.no_grad(), chain:
        layer(x)
    return chain.longest


def _layers(kind: Kind, sizes: Sizes) -> int:
    """Count stacked layers until the last output depends on the first input, by gradients."""
    layer, x = _create(kind, sizes.at(d=PATH_SIZE))
    reached = torch.zeros(sizes.n, dtype=torch.bool)
    reached[-1] = True
    for layers in itertools.count(1):
        x = torch.randn_like(x, requires_grad=True)
        (gradient,) = torch.autograd.grad(
            layer(x), x, torch.randn_like(x) * reached[:, None]
        )
        before = reached
        reached = reached | (gradient[0] != 0).any(-1)
        if reached[0]:
            return layers
        assert reached.sum() > before.sum(), (
            f"{kind.name}: the gradient reaches {int(before.sum())} positions and no more"
        )
    raise AssertionError("counting does not end")


# --- measuring


def seconds(kind: Kind, sizes: Sizes, min_seconds: float) -> float:
    """Return the shortest time of several runs, since other load can only add time.

    With one thread, CPU time is measured, otherwise wall-clock time.
    """
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    layer, x = _create(kind, sizes)
    _, run_between = layer.between(x)
    times = list[float]()
    with torch.no_grad():
        run_between()  # warm up
        while (
            not times
            or sum(times) < min_seconds
            or (len(times) < 3 and sum(times) < 4 * min_seconds)
        ):
            start = clock()
            run_between()
            times.append(clock() - start)
    return min(times)


def _saved_bytes(kind: Kind, sizes: Sizes) -> int:
    """Count the bytes that a forward pass saves for the backward pass, without the weights."""
    layer, x = _create(kind, sizes)
    inputs, run_between = layer.between(x)
    for tensor in inputs:
        tensor.requires_grad_()
    weights = {_storage(parameter) for parameter in layer.parameters()}
    saved: dict[int, int] = {}
    alive = list[Tensor]()

    def save(tensor: Tensor) -> Tensor:
        if _storage(tensor) not in weights:
            saved[_storage(tensor)] = tensor.untyped_storage().nbytes()
        alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        run_between()
    return sum(saved.values())


def _create(kind: Kind, sizes: Sizes) -> tuple[MeasuredLayer, Tensor]:
    return kind.layer(sizes), torch.randn(1, sizes.n, sizes.d)
