"""Programs for the native kernels: a model's arithmetic as a list of operations on registers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from regard.common.shapes import Array
from regard.runtime.native import kernels, typed

Precision = Literal["float32", "bfloat16", "int8"]
"""Precision of the packed weights."""
PRECISIONS: dict[str, int] = {"float32": 0, "bfloat16": 1, "int8": 2}
GROUP = {"float32": 1, "bfloat16": 2, "int8": 4}
BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
ACTIVATIONS = {"none": 0, "relu": 1, "gelu": 2, "silu": 3, "tanh": 4}
KINDS = (
    "embed", "norm", "linear", "copy", "store_block", "store_memory",
    "encoder_attention", "cross_attention", "cached_attention", "additive_attention",
    "load_state", "gru", "lstm", "tanh", "rnn", "unit_norm", "glu", "mix",
    "window", "past_window", "gate", "top_tokens",
)  # fmt: skip
PANEL = 64
LANES = 16
Positions = Callable[[int], Array]
"""The embeddings (n, D) of the first n positions."""
WeightAndBias = tuple[torch.Tensor, torch.Tensor]


class Weight(ctypes.Structure):
    """A packed weight matrix: the structure `Weight` of kernels.h."""

    _fields_ = (
        *typed(ctypes.c_int32, "precision", "inputs", "outputs", "padded"),
        *typed(ctypes.c_void_p, "panels", "scales", "sums", "bias"),
    )


class Operation(ctypes.Structure):
    """An operation of a program: the structure `Operation` of kernels.h."""

    _fields_ = (
        *typed(
            ctypes.c_int32,
            "kind",
            "source",
            "target",
            "extra",
            "column",
            "size",
            "heads",
            "activation",
        ),
        *(
            ("offset", ctypes.c_int64),
            ("scale", ctypes.c_float),
            ("extent", ctypes.c_int32),
        ),
        *typed(ctypes.c_void_p, "table", "second", "weight"),
    )


def address(array: Array) -> int:
    """Return the address of an array's first number."""
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


@dataclass
class Builder:
    """Builder of a program.

    Registers are numbered; each is a matrix with a row for each row of the input.
    """

    precision: Precision
    widths: list[int] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    # The operations point into the memory of these objects.
    buffers: list[object] = field(default_factory=list)
    # The operation that adds position embeddings, and the embeddings.
    positions: tuple[int, Positions] | None = None

    def register(self, width: int) -> int:
        """Add a register; return its number."""
        self.widths.append(width)
        return len(self.widths) - 1

    def embed(
        self, table: torch.Tensor, scale: float, positions: Positions | None = None
    ) -> int:
        """Embed the input tokens: rows of the table (V, D), scaled, plus the embeddings of their
        positions.
        """
        target = self.register(table.shape[1])
        if positions is not None:
            self.positions = (len(self.operations), positions)
        self._add(
            "embed",
            target=target,
            size=table.shape[1],
            scale=scale,
            table=self._floats(table),
        )
        return target

    def norm(
        self, source: int, layer: torch.nn.Module, target: int | None = None
    ) -> int:
        """Apply layer normalisation to a register."""
        assert isinstance(layer, torch.nn.LayerNorm), "no other norm has a program"
        target = self.register(self.widths[source]) if target is None else target
        weight = self._floats(layer.weight)
        bias = self._floats(layer.bias)
        self._add(
            "norm",
            source,
            target,
            size=self.widths[source],
            scale=layer.eps,
            table=weight,
            second=bias,
        )
        return target

    def linear(  # noqa: PLR0913 - registers and sizes of one operation
        self,
        source: int,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        activation: str = "none",
        plus: int = -1,
        target: int | None = None,
        column: int = 0,
        offset: int = 0,
    ) -> int:
        """Apply a linear layer (V, K) to columns of `source` from `offset` on, add register `plus`,
        and apply an activation.

        The result is written to columns of `target` from `column` on, or to a new register.
        """
        target = self.register(weight.shape[0]) if target is None else target
        fields = {
            "extra": plus,
            "column": column,
            "offset": offset,
            "activation": ACTIVATIONS[activation],
        }
        self._add("linear", source, target, **fields, weight=self._weight(weight, bias))
        return target

    def add(
        self,
        kind: str,
        source: int = -1,
        target: int = -1,
        **fields: int | float | str | torch.Tensor,
    ) -> None:
        """Add an operation of any other kind; tensors among its fields are copied."""
        values = dict[str, float]()
        for name, value in fields.items():
            if isinstance(value, torch.Tensor):
                values[name] = self._floats(value)
            else:
                values[name] = ACTIVATIONS[value] if isinstance(value, str) else value
        self._add(kind, source, target, **values)

    def mix(
        self, first: int, second: int, scale: float, target: int | None = None
    ) -> int:
        """Add two registers, and multiply the sum by `scale`."""
        target = self.register(self.widths[first]) if target is None else target
        self._add(
            "mix", first, target, extra=second, size=self.widths[first], scale=scale
        )
        return target

    def rnn(  # noqa: PLR0913 - registers and sizes of one operation
        self,
        cell: str,
        source: int,
        hidden: WeightAndBias,
        *,
        target: int,
        cells: int,
        column: int,
        backwards: bool,
    ) -> None:
        """Run an RNN over entire sentences.

        `source` holds the input projections of the gates, `hidden` the weight and bias of the
        hidden projection. Hidden states are written to `target`, LSTM cells to `cells`, from
        `column` on.
        """
        weight = self._weight(*hidden)
        size = hidden[0].shape[1]
        kind = KINDS.index(cell)
        heads = int(backwards)
        self._add(
            "rnn",
            source,
            target,
            extra=cells,
            column=column,
            size=size,
            extent=kind,
            heads=heads,
            weight=weight,
        )

    def top_tokens(
        self, source: int, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> None:
        """Find the most probable tokens by an output projection, without storing its logits."""
        self._add("top_tokens", source, weight=self._weight(weight, bias))

    def build(self) -> Program:
        """Return the program."""
        operations = (Operation * len(self.operations))(*self.operations)
        return Program(
            operations, np.array(self.widths, np.int64), self.buffers, self.positions
        )

    def _add(
        self,
        kind: str,
        source: int = -1,
        target: int = -1,
        **fields: int | float,
    ) -> None:
        fields.setdefault("extra", -1)
        operation = Operation(
            kind=KINDS.index(kind), source=source, target=target, **fields
        )
        self.operations.append(operation)

    def _floats(self, values: torch.Tensor | Array) -> int:
        """Copy numbers as float32; return their address."""
        if isinstance(values, torch.Tensor):
            values = values.detach().float().cpu().numpy()
        array = np.ascontiguousarray(values, dtype=np.float32)
        self.buffers.append(array)
        return address(array)

    def _weight(self, weight: torch.Tensor, bias: torch.Tensor | None) -> int:
        """Pack a weight (V, K) into panels of this precision; return its address."""
        array = np.ascontiguousarray(weight.detach().float().cpu().numpy())
        V, K = array.shape
        columns = (V + PANEL - 1) // PANEL * PANEL
        group = GROUP[self.precision]
        inputs = (K + group - 1) // group * group
        panels = np.zeros(columns * inputs * BYTES[self.precision], np.uint8)
        scales = np.zeros(columns, np.float32)
        sums = np.zeros(columns, np.int32)
        biases = np.zeros(columns, np.float32)
        if bias is not None:
            biases[:V] = bias.detach().float().cpu().numpy()
        kind = PRECISIONS[self.precision]
        kernels().regard_pack(
            address(array), V, K, kind, address(panels), address(scales), address(sums)
        )
        packed = Weight(
            kind,
            K,
            V,
            inputs,
            address(panels),
            address(scales),
            address(sums),
            None if bias is None else address(biases),
        )
        self.buffers += [panels, scales, sums, biases, packed]
        return ctypes.addressof(packed)


@dataclass(frozen=True, eq=False)
class Program:
    """Operations, the widths of their registers, the buffers that they point into, and the
    positions of `Builder`.
    """

    operations: ctypes.Array[Operation]
    widths: Array
    buffers: list[object]
    positions: tuple[int, Positions] | None


@dataclass(frozen=True)
class EncoderProgram:
    """Program of an encoder, with the registers of its outputs, its embeddings and its final
    states.

    Each register of `states` gives one row of the summary. Its first `direction_size` columns are
    taken at the last token of a sentence (forward direction), the others at the first token
    (backward). If there are no states, the summary is the mean of the outputs.
    """

    program: Program
    outputs: int
    embedded: int
    states: tuple[int, ...] = ()
    direction_size: int = 0


def check_layout() -> None:
    """Assert that the structures declared here have the sizes of those in kernels.h."""
    sizes = (ctypes.c_int64 * 5)()
    kernels().regard_sizes(ctypes.addressof(sizes))
    declared = [ctypes.sizeof(Weight), ctypes.sizeof(Operation), PANEL, LANES]
    actual = [*sizes[:2], *sizes[3:]]
    assert actual == declared, (
        f"kernels.h has structures of {actual} bytes, program.py of {declared}"
    )
