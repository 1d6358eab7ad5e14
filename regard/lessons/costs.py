"""What each kind of layer costs: table 1 of Vaswani et al. 2017, counted by running the layers themselves.

A layer here is what stands between positions: attention is counted from its queries, keys and values to its answers,
as in the paper, and its projections beside it. Operations are multiply-adds.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from regard.attention import Attention
from regard.attention.scores import ScaledDot
from regard.layers.cells import GRU
from regard.layers.convolution import GatedConvolution
from regard.layers.rnn import run_rnn
from regard.shapes import Float, Tensor

__all__ = ["KINDS", "Cost", "Kind", "Sizes", "growth", "measure"]

HEADS = 4
SPREAD = (0.25, 0.5, 1, 2, 4)
"""Time and memory are measured at these multiples of n, and of d."""
NARROW = 8
"""Size of the vectors where only the way of a signal is followed."""
Run = Callable[[], Tensor]


@dataclass(frozen=True)
class Sizes:
    """Of one layer: n positions of d numbers; kernels of k positions; r neighbours, itself among them."""

    n: int
    d: int
    k: int = 3
    r: int = 17

    def at(self, n: int | float | None = None, d: int | float | None = None) -> Sizes:
        """The same with another length or size."""
        return Sizes(max(2, round(n or self.n)), max(HEADS, round((d or self.d) / HEADS) * HEADS), self.k, self.r)


class Layer(nn.Module):
    """One layer as the models have it, and its part that lies between positions."""

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        raise NotImplementedError

    def between(self, x: Float[Tensor, "B S D"]) -> tuple[list[Tensor], Run]:
        """What it starts from, and the run from there to its answers; the whole layer, where there is no such part."""
        return [x], lambda: self(x)


class SelfAttention(Layer):
    """Every position reads all, or its r neighbours."""

    score_class: type[ScaledDot] = ScaledDot

    def __init__(self, sizes: Sizes, neighbours: int | None = None) -> None:
        super().__init__()
        self.read = Attention("encoder", sizes.d, sizes.d, sizes.d, HEADS)
        self.read.score = self.score_class(HEADS, sizes.d // HEADS)
        self.window = None if neighbours is None else (neighbours - 1) // 2

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return self.read(x, self.read.prepare(x, x), window=self.window)  # type: ignore[no-any-return]

    def between(self, x: Float[Tensor, "B S D"]) -> tuple[list[Tensor], Run]:
        with torch.no_grad():
            query, memory = self.read.query(x), self.read.prepare(x, x)

        def answer() -> Tensor:
            return self.read.attend(query, memory, window=self.window)

        return [query, memory.keys, memory.values], answer


class _InTheOpen(ScaledDot):
    """A scaled dot product that does not say that it is one, so that no fused kernel takes it over."""

    def as_dot(self, query: Tensor) -> None:  # type: ignore[override]  # noqa: ARG002
        return None

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return torch.matmul(query / math.sqrt(self.size), prepared.transpose(-1, -2))


class KeptSelfAttention(SelfAttention):
    """The same without the fused kernel: scores and weights are made, and kept for learning, as in the paper."""

    score_class = _InTheOpen


class Recurrent(Layer):
    """A GRU in one direction; its gates are set to carry on, or what comes from far would vanish before it is seen."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.network = nn.GRU(sizes.d, sizes.d, batch_first=True)
        with torch.no_grad():
            self.network.get_parameter("bias_hh_l0")[sizes.d : 2 * sizes.d] = 4

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return run_rnn(self.network, GRU, x, None)[0]


class Convolution(Layer):
    """A gated convolution with as many neighbours before as after; its weights are put together beforehand."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gated = GatedConvolution(sizes.d, sizes.k, dropout=0.0)
        linear = nn.Linear(sizes.k * sizes.d, 2 * sizes.d)
        linear.weight = nn.Parameter(self.gated.linear.weight.detach())
        self.gated.linear = linear  # type: ignore[assignment]
        self.around = (0, 0, (sizes.k - 1) // 2, sizes.k // 2)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return self.gated(F.pad(x, self.around))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Kind:
    """A kind of layer and what is said of it, in n, d, k and r."""

    name: str
    layer: Callable[[Sizes], Layer]
    operations: str
    memory: str
    sequential: str
    path: str


KINDS: tuple[Kind, ...] = (
    Kind("self-attention", SelfAttention, "n²d", "nd", "1", "1"),
    Kind("self-attention, weights kept", KeptSelfAttention, "n²d", "n²", "1", "1"),
    Kind("recurrent", Recurrent, "nd²", "nd", "n", "n"),
    Kind("convolutional", Convolution, "knd²", "knd", "1", "n/k"),
    Kind("restricted self-attention", lambda sizes: SelfAttention(sizes, sizes.r), "rnd", "nd", "1", "n/r"),
)


@dataclass(frozen=True)
class Cost:
    """What one layer costs, counted and measured."""

    name: str
    formulas: dict[str, str]
    operations: int  # multiply-adds between positions
    projections: int  # multiply-adds of what each position does by itself
    factor: float  # counted operations over the formula's
    sequential: int  # products of which each waits for the one before
    layers: int  # until the last position hears from the first
    path: int  # products on the way
    seconds: float
    memory: int  # bytes kept from forward to backward
    growth: dict[str, float]  # "time n": the exponent of n that fits the measured times
    expected: dict[str, float]  # the same of the formulas
    curves: dict[str, list[tuple[float, float]]] = field(repr=False)  # "time n": (n, seconds), …


def measure(
    sizes: Sizes,
    kinds: Sequence[Kind] = KINDS,
    patience: float = 0.05,
    threads: int = 1,
    said: Callable[[str], None] = lambda _: None,
) -> list[Cost]:
    """The costs of every kind of layer at these sizes. `patience`: seconds to spend on each time that is measured."""
    costs, before = [], torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for kind in kinds:
                said(kind.name)
                costs.append(_cost(kind, sizes, patience))
    finally:
        torch.set_num_threads(before)
    return costs


def growth(points: Iterable[tuple[float, float]]) -> float:
    """The exponent e of y ∝ xᵉ that fits best: the slope of a straight line through the logarithms."""
    logs = [(math.log(x), math.log(max(y, 1e-12))) for x, y in points]
    mean_x, mean_y = (sum(log[axis] for log in logs) / len(logs) for axis in (0, 1))
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def _cost(kind: Kind, sizes: Sizes, patience: float) -> Cost:
    curves: dict[str, list[tuple[float, float]]] = {}
    for axis in ("n", "d"):
        many = [sizes.at(**{axis: getattr(sizes, axis) * times}) for times in SPREAD]
        few = many[:3]
        curves[f"operations {axis}"] = _curve(axis, few, lambda s: float(_operations(kind, s)[0]))
        curves[f"time {axis}"] = _curve(axis, many, lambda s: _seconds(kind, s, patience))
        curves[f"memory {axis}"] = _curve(axis, many, lambda s: float(_kept(kind, s)))
    few = [sizes.at(n=sizes.n * times) for times in SPREAD[:3]]
    curves["sequential n"] = _curve("n", few, lambda s: float(_chain(kind, s)))
    curves["layers n"] = _curve("n", few, lambda s: float(_layers(kind, s)))
    steps, layers = (curves[f"{what} n"] for what in ("sequential", "layers"))
    curves["path n"] = [(n, deep * chain) for (n, chain), (_, deep) in zip(steps, layers, strict=True)]
    between, whole = _operations(kind, sizes)
    here = SPREAD.index(1)
    formulas = {what: getattr(kind, what) for what in ("operations", "memory", "sequential", "path")}
    formulas["time"] = kind.operations
    return Cost(
        name=kind.name,
        formulas=formulas,
        operations=between,
        projections=whole - between,
        factor=between / _value(kind.operations, sizes),
        sequential=round(steps[here][1]),
        layers=round(layers[here][1]),
        path=round(curves["path n"][here][1]),
        seconds=curves["time n"][here][1],
        memory=round(curves["memory n"][here][1]),
        growth={name: growth(points) for name, points in curves.items()},
        expected={name: _exponent(formulas.get(name[:-2], "1"), name[-1]) for name in curves if name != "layers n"},
        curves=curves,
    )


def _curve(axis: str, many: list[Sizes], value: Callable[[Sizes], float]) -> list[tuple[float, float]]:
    return [(float(getattr(sizes, axis)), value(sizes)) for sizes in many]


def _value(formula: str, sizes: Sizes) -> float:
    """n²d and n/k in numbers."""
    above, below = (math.prod(getattr(sizes, letter) for letter in part) for part in _letters(formula))
    return float(above / below)


def _exponent(formula: str, letter: str) -> float:
    above, below = _letters(formula)
    return float(above.count(letter) - below.count(letter))


def _letters(formula: str) -> tuple[str, str]:
    """What is multiplied and what it is divided by: n²d is nnd."""
    above, _, below = formula.replace("n²", "nn").replace("d²", "dd").replace("1", "").partition("/")
    return above, below


# --- counting, by running


def _operations(kind: Kind, sizes: Sizes) -> tuple[int, int]:
    """Multiply-adds between positions, and of the whole layer."""
    layer, x = _made(kind, sizes)
    _, run_between = layer.between(x)
    return _multiply_adds(run_between), _multiply_adds(lambda: layer(x))


def _multiply_adds(run: Run) -> int:
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping={_FLASH: _flash_flops}) as counter:
        run()
    return int(counter.get_total_flops()) // 2


_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def _flash_flops(query: Sequence[int], keys: Sequence[int], values: Sequence[int], *_: Any, **__: Any) -> int:
    """Of the fused kernel on a CPU, which the counter does not know: two products."""
    R, H, T, E = query
    S, Ev = values[-2:]
    assert keys[-2:] == torch.Size((S, E)), "a key for each value, as large as the query"
    return 2 * R * H * T * S * (E + Ev)


class _Chain(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The longest chain of products of which each needs the result of the one before."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.longest = 0
        self._after: dict[int, int] = {}  # storage → products on the way to what it holds
        self._alive: list[Tensor] = []  # so that no storage takes the place of another

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        given = max((self._after.get(_storage(t), 0) for t in _tensors((args, kwargs))), default=0)
        after = given + (packet in flop_registry or packet is _FLASH)
        for tensor in _tensors(result):
            self._after[_storage(tensor)] = max(after, self._after.get(_storage(tensor), 0))
            self._alive.append(tensor)
        self.longest = max(self.longest, after)
        return result


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _chain(kind: Kind, sizes: Sizes) -> int:
    """Products of which each waits for the one before, however many could be done at once."""
    layer, x = _made(kind, sizes.at(d=NARROW))
    chain = _Chain()
    with torch.no_grad(), chain:
        layer(x)
    return chain.longest


def _layers(kind: Kind, sizes: Sizes) -> int:
    """How many layers, one on another, until the last output depends on the first input: where its gradient arrives."""
    layer, x = _made(kind, sizes.at(d=NARROW))
    reached = torch.zeros(sizes.n, dtype=torch.bool)
    reached[-1] = True
    for layers in itertools.count(1):
        x = torch.randn_like(x, requires_grad=True)
        (gradient,) = torch.autograd.grad(layer(x), x, torch.randn_like(x) * reached[:, None])
        before, reached = reached, reached | (gradient[0] != 0).any(-1)
        if reached[0]:
            return layers
        assert reached.sum() > before.sum(), (
            f"{kind.name}: the gradient does not get on from {int(before.sum())} positions"
        )
    raise AssertionError("counting does not end")


# --- measuring


def _seconds(kind: Kind, sizes: Sizes, patience: float) -> float:
    """The best of several runs, since what else the machine does only adds to it; one thread is timed on its core."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    layer, x = _made(kind, sizes)
    _, run_between = layer.between(x)
    times = list[float]()
    with torch.no_grad():
        run_between()
        while not times or sum(times) < patience or (len(times) < 3 and sum(times) < 4 * patience):
            begun = clock()
            run_between()
            times.append(clock() - begun)
    return min(times)


def _kept(kind: Kind, sizes: Sizes) -> int:
    """Bytes that a forward pass keeps for its backward, without the weights."""
    layer, x = _made(kind, sizes)
    start, run_between = layer.between(x)
    for tensor in start:
        tensor.requires_grad_()
    weights = {_storage(parameter) for parameter in layer.parameters()}
    kept: dict[int, int] = {}
    alive = list[Tensor]()

    def keep(tensor: Tensor) -> Tensor:
        if _storage(tensor) not in weights:
            kept[_storage(tensor)] = tensor.untyped_storage().nbytes()
        alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run_between()
    return sum(kept.values())


def _made(kind: Kind, sizes: Sizes) -> tuple[Layer, Tensor]:
    return kind.layer(sizes), torch.randn(1, sizes.n, sizes.d)
